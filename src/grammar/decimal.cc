#include "grammar/decimal.h"

#include <fmt/format.h>

#include <algorithm>

namespace thalweg::grammar {
namespace {

constexpr int64_t kMostDigits = 1000;

Status NotANumber(std::string_view text) {
  return base::InvalidArgument(fmt::format("{} is not a number of JSON", text.substr(0, 100)));
}

std::string_view TakeDigits(std::string_view* text) {
  const size_t end = std::min(text->find_first_not_of("0123456789"), text->size());
  const std::string_view digits = text->substr(0, end);
  text->remove_prefix(end);
  return digits;
}

bool TakeIf(std::string_view characters, std::string_view* text) {
  const bool found = !text->empty() && characters.find((*text)[0]) != std::string_view::npos;
  if (found) text->remove_prefix(1);
  return found;
}

// After the `e`; no value that matters is cut off.
int64_t TakeExponent(std::string_view* text) {
  const bool negative = !text->empty() && (*text)[0] == '-';
  TakeIf("+-", text);
  int64_t value = 0;
  for (const char digit : TakeDigits(text)) {
    value = std::min<int64_t>(value * 10 + (digit - '0'), 1'000'000'000);
  }
  return negative ? -value : value;
}

std::strong_ordering CompareMagnitude(const Decimal& a, const Decimal& b) {
  if (a.zero() || b.zero()) return a.digits.size() <=> b.digits.size();
  if (a.point != b.point) return a.point <=> b.point;
  return a.digits <=> b.digits;
}

}  // namespace

std::string Decimal::WholeDigits() const {
  if (point <= 0) return "0";
  const auto length = static_cast<size_t>(point);
  std::string whole = digits.substr(0, length);
  whole.resize(length, '0');
  return whole;
}

std::string Decimal::FractionDigits() const {
  if (point <= 0) return std::string(static_cast<size_t>(-point), '0') + digits;
  const auto length = static_cast<size_t>(point);
  return length < digits.size() ? digits.substr(length) : "";
}

Result<Decimal> ParseDecimal(std::string_view text) {
  std::string_view rest = text;
  Decimal decimal;
  decimal.negative = TakeIf("-", &rest);
  const std::string_view whole = TakeDigits(&rest);
  std::string_view fraction;
  if (TakeIf(".", &rest)) {
    fraction = TakeDigits(&rest);
    if (fraction.empty()) return NotANumber(text);
  }
  int64_t exponent = 0;
  if (TakeIf("eE", &rest)) {
    if (rest.empty()) return NotANumber(text);
    exponent = TakeExponent(&rest);
  }
  if (whole.empty() || !rest.empty() || (whole.size() > 1 && whole[0] == '0')) {
    return NotANumber(text);
  }
  decimal.digits = std::string(whole) + std::string(fraction);
  decimal.point = static_cast<int64_t>(whole.size()) + exponent;
  const size_t first = decimal.digits.find_first_not_of('0');
  if (first == std::string::npos) return Decimal{};
  decimal.digits.erase(decimal.digits.find_last_not_of('0') + 1);
  decimal.digits.erase(0, first);
  decimal.point -= static_cast<int64_t>(first);
  const int64_t end = static_cast<int64_t>(decimal.digits.size()) - decimal.point;
  if (decimal.point > kMostDigits || end > kMostDigits) {
    return base::Unsupported(
        fmt::format("{} has more than {} digits", text.substr(0, 100), kMostDigits));
  }
  return decimal;
}

std::strong_ordering Compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return b.negative <=> a.negative;
  return a.negative ? CompareMagnitude(b, a) : CompareMagnitude(a, b);
}

}  // namespace thalweg::grammar
