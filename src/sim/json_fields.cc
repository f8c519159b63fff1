#include "sim/json_fields.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "sim/limits.h"

namespace thalweg::sim {
namespace {

using base::Json;

constexpr int64_t kVersion = 1;

bool IsIntegerIn(const Json& json, int64_t least, int64_t most) {
  if (!json.is_number_integer()) return false;
  if (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return false;
  return json.get<int64_t>() >= least && json.get<int64_t>() <= most;
}

bool IsRealIn(const Json& json, double least, double most) {
  if (!json.is_number()) return false;
  const auto value = json.get<double>();
  return std::isfinite(value) && value >= least && value <= most;
}

}  // namespace

Result<JsonFields> JsonFields::Open(const Json& json, std::string path,
                                    std::initializer_list<std::string_view> known) {
  if (!json.is_object()) return base::InvalidArgument(fmt::format("{} must be an object", path));
  for (const auto& [name, value] : json.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      return base::InvalidArgument(fmt::format("{} has an unknown member \"{}\"; known: {}", path,
                                               name, fmt::join(known, ", ")));
  }
  return JsonFields(&json, std::move(path));
}

std::string JsonFields::PathOf(std::string_view name) const {
  return fmt::format("{}.{}", path_, name);
}

Status JsonFields::Wrong(std::string_view name, std::string_view wanted) const {
  return base::InvalidArgument(fmt::format("{} must be {}", PathOf(name), wanted));
}

Result<const Json*> JsonFields::Member(std::string_view name) const {
  const auto at = json_->find(name);
  if (at != json_->end()) return &*at;
  return base::InvalidArgument(fmt::format("{} is missing", PathOf(name)));
}

Result<int64_t> JsonFields::Integer(std::string_view name, int64_t least, int64_t most) const {
  TW_ASSIGN(const Json* value, Member(name));
  if (IsIntegerIn(*value, least, most)) return value->get<int64_t>();
  return Wrong(name, fmt::format("an integer from {} to {}", least, most));
}

Result<double> JsonFields::Real(std::string_view name, double least, double most) const {
  TW_ASSIGN(const Json* value, Member(name));
  if (IsRealIn(*value, least, most)) return value->get<double>();
  return Wrong(name, fmt::format("a number from {} to {}", least, most));
}

Result<std::string> JsonFields::Text(std::string_view name) const {
  TW_ASSIGN(const Json* value, Member(name));
  if (!value->is_string()) return Wrong(name, "a string");
  auto text = value->get<std::string>();
  if (text.size() <= kMostNameBytes) return text;
  return Wrong(name, fmt::format("of {} bytes at most", kMostNameBytes));
}

Result<std::vector<int64_t>> JsonFields::Integers(std::string_view name, int64_t least,
                                                  int64_t most, size_t most_values) const {
  TW_ASSIGN(const Json* list, Member(name));
  const bool good = list->is_array() && !list->empty() && list->size() <= most_values &&
                    std::all_of(list->begin(), list->end(),
                                [&](const Json& value) { return IsIntegerIn(value, least, most); });
  if (!good)
    return Wrong(name,
                 fmt::format("a list of 1 to {} integers from {} to {}", most_values, least, most));
  return list->get<std::vector<int64_t>>();
}

Result<std::vector<std::vector<double>>> JsonFields::Rows(std::string_view name, size_t width,
                                                          double most, size_t most_rows) const {
  TW_ASSIGN(const Json* list, Member(name));
  const auto good_row = [&](const Json& row) {
    return row.is_array() && row.size() == width &&
           std::all_of(row.begin(), row.end(),
                       [&](const Json& value) { return IsRealIn(value, 0, most); });
  };
  const bool good = list->is_array() && !list->empty() && list->size() <= most_rows &&
                    std::all_of(list->begin(), list->end(), good_row);
  if (!good)
    return Wrong(name, fmt::format("a list of 1 to {} lists of {} numbers from 0 to {}", most_rows,
                                   width, most));
  return list->get<std::vector<std::vector<double>>>();
}

Status JsonFields::CheckFormat(std::string_view format) const {
  TW_ASSIGN(const std::string given, Text("format"));
  if (given != format) return Wrong("format", fmt::format("\"{}\"", format));
  return Integer("version", kVersion, kVersion).status();
}

}  // namespace thalweg::sim
