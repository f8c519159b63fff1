#include "api/json_values.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace thalweg::api {
namespace {

constexpr size_t kMaxShownBytes = 60;
constexpr double kMaxExactInteger = 9007199254740992.0;  // 2^53

std::string Shown(const Json& json) {
  std::string text = json.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kMaxShownBytes) text = text.substr(0, kMaxShownBytes) + "...";
  return text;
}

// A floating-point number without a fraction is the whole number that it shows.
std::optional<int64_t> WholeNumber(const Json& json) {
  if (json.is_number_unsigned()) {
    const auto value = json.get<uint64_t>();
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  if (json.is_number_integer()) return json.get<int64_t>();
  if (!json.is_number_float()) return std::nullopt;
  const auto value = json.get<double>();
  if (!(std::abs(value) <= kMaxExactInteger) || value != std::floor(value)) return std::nullopt;
  return static_cast<int64_t>(value);
}

}  // namespace

Status WrongValue(const Json& json, std::string_view what, std::string_view wanted) {
  return base::InvalidArgument(fmt::format("{} is {}, but must be {}", what, Shown(json), wanted));
}

Result<bool> ReadBool(const Json& json, std::string_view what) {
  if (!json.is_boolean()) return WrongValue(json, what, "true or false");
  return json.get<bool>();
}

Result<double> ReadReal(const Json& json, std::string_view what) {
  if (!json.is_number() || !std::isfinite(json.get<double>()))
    return WrongValue(json, what, "a finite number");
  return json.get<double>();
}

Result<int64_t> ReadInteger(const Json& json, std::string_view what, int64_t least, int64_t most) {
  const std::optional<int64_t> value = WholeNumber(json);
  if (!value.has_value() || *value < least || *value > most)
    return WrongValue(json, what, fmt::format("a whole number in [{}, {}]", least, most));
  return *value;
}

Result<uint64_t> ReadSeed(const Json& json, std::string_view what) {
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  const std::optional<int64_t> value = WholeNumber(json);
  if (!value.has_value() || *value < 0)
    return WrongValue(json, what, "a whole number from 0 to 2^64 - 1");
  return static_cast<uint64_t>(*value);
}

Result<std::string> ReadString(const Json& json, std::string_view what) {
  if (!json.is_string()) return WrongValue(json, what, "a string");
  return json.get<std::string>();
}

Result<std::vector<int32_t>> ReadTokens(const Json& json, std::string_view what) {
  if (!json.is_array()) return WrongValue(json, what, "an array of token ids");
  std::vector<int32_t> tokens;
  tokens.reserve(json.size());
  for (const Json& item : json) {
    const std::optional<int64_t> value = WholeNumber(item);
    if (!value.has_value() || *value < 0 || *value > std::numeric_limits<int32_t>::max())
      return WrongValue(item, fmt::format("{}[{}]", what, tokens.size()), "a token id");
    tokens.push_back(static_cast<int32_t>(*value));
  }
  return tokens;
}

Result<std::vector<std::string>> ReadStrings(const Json& json, std::string_view what) {
  if (json.is_string()) return std::vector<std::string>{json.get<std::string>()};
  if (!json.is_array()) return WrongValue(json, what, "a string or an array of strings");
  std::vector<std::string> strings;
  for (const Json& item : json) {
    if (!item.is_string())
      return WrongValue(item, fmt::format("{}[{}]", what, strings.size()), "a string");
    strings.push_back(item.get<std::string>());
  }
  return strings;
}

}  // namespace thalweg::api
