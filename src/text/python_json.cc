#include "text/python_json.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace thalweg::text {
namespace {

// The significant digits of a finite positive number and the decimal exponent of the first one.
struct Digits {
  std::string digits;
  int exponent = 0;
};

Digits ShortestDigits(double value) {
  char buffer[32];
  const auto [end, error] =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  TW_CHECK(error == std::errc());
  const std::string_view text(buffer, static_cast<size_t>(end - buffer));
  const size_t e = text.find('e');
  Digits out;
  for (const char c : text.substr(0, e)) {
    if (c != '.') out.digits += c;
  }
  std::string_view exponent = text.substr(e + 1);
  if (exponent.starts_with('+')) exponent.remove_prefix(1);
  std::from_chars(exponent.data(), exponent.data() + exponent.size(), out.exponent);
  return out;
}

std::string WithExponent(const Digits& d) {
  std::string out = d.digits.substr(0, 1);
  if (d.digits.size() > 1) out += "." + d.digits.substr(1);
  const std::string size = std::to_string(std::abs(d.exponent));
  out += d.exponent < 0 ? "e-" : "e+";
  return out + (size.size() < 2 ? "0" : "") + size;
}

std::string WithPoint(Digits d) {
  if (d.exponent < 0)
    return "0." + std::string(static_cast<size_t>(-d.exponent - 1), '0') + d.digits;
  const auto whole = static_cast<size_t>(d.exponent) + 1;
  if (d.digits.size() <= whole) return d.digits + std::string(whole - d.digits.size(), '0') + ".0";
  return d.digits.insert(whole, ".");
}

void AppendString(const std::string& text, std::string* out) {
  *out += base::Json(text).dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

void AppendObject(const base::Json& object, std::string* out) {
  *out += '{';
  bool first = true;
  for (const auto& [name, member] : object.items()) {
    if (!std::exchange(first, false)) *out += ", ";
    AppendString(name, out);
    *out += ": ";
    AppendPythonJson(member, out);
  }
  *out += '}';
}

void AppendArray(const base::Json& array, std::string* out) {
  *out += '[';
  bool first = true;
  for (const base::Json& element : array) {
    if (!std::exchange(first, false)) *out += ", ";
    AppendPythonJson(element, out);
  }
  *out += ']';
}

}  // namespace

std::string PythonFloat(double value) {
  TW_CHECK(std::isfinite(value));
  const std::string sign = std::signbit(value) ? "-" : "";
  if (value == 0) return sign + "0.0";
  Digits digits = ShortestDigits(std::abs(value));
  const bool plain = digits.exponent >= -4 && digits.exponent < 16;
  return sign + (plain ? WithPoint(std::move(digits)) : WithExponent(digits));
}

// Depth is bounded by that of the parser the value comes from.
void AppendPythonJson(const base::Json& value, std::string* out) {
  if (value.is_object()) return AppendObject(value, out);
  if (value.is_array()) return AppendArray(value, out);
  if (value.is_string()) return AppendString(value.get_ref<const std::string&>(), out);
  *out += value.is_number_float() ? PythonFloat(value.get<double>()) : value.dump();
}

std::string PythonJson(const base::Json& value) {
  std::string out;
  AppendPythonJson(value, &out);
  return out;
}

}  // namespace thalweg::text
