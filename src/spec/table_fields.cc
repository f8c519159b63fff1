#include "spec/table_fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace thalweg::spec {

using base::Json;

Status WrongField(std::string_view what, const Json& value, std::string_view wanted) {
  constexpr size_t kShown = 60;
  std::string shown = value.dump();
  if (shown.size() > kShown) shown = shown.substr(0, kShown) + "...";
  return base::InvalidArgument(fmt::format("{} is {}, but must be {}", what, shown, wanted));
}

Result<int64_t> IntegerOf(const Json& value, std::string_view what, int64_t least, int64_t most) {
  const std::string wanted = fmt::format("a whole number in [{}, {}]", least, most);
  if (!value.is_number_integer()) return WrongField(what, value, wanted);
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return WrongField(what, value, wanted);
  const auto number = value.get<int64_t>();
  if (number < least || number > most) return WrongField(what, value, wanted);
  return number;
}

Result<double> RealOf(const Json& value, std::string_view what, double least, double most) {
  const auto in_range = [&](double x) { return x >= least && x <= most; };
  if (value.is_number() && in_range(value.get<double>())) return value.get<double>();
  return WrongField(what, value, fmt::format("a number in [{}, {}]", least, most));
}

Result<TableFields> TableFields::Open(const Json& json, std::string what,
                                      std::initializer_list<std::string_view> names) {
  if (!json.is_object()) return WrongField(what, json, "an object");
  for (const std::string_view name : names) {
    if (!json.contains(name))
      return base::InvalidArgument(fmt::format("{} has no field {}", what, name));
  }
  for (const auto& [key, value] : json.items()) {
    if (std::find(names.begin(), names.end(), key) == names.end())
      return base::InvalidArgument(
          fmt::format("{} has a field \"{}\" that is not known", what, key.substr(0, 60)));
  }
  return TableFields(json, std::move(what));
}

std::string TableFields::Path(std::string_view name) const {
  return fmt::format("{}: {}", what_, name);
}

Result<int64_t> TableFields::Integer(std::string_view name, int64_t least, int64_t most) const {
  return IntegerOf(json_->at(name), Path(name), least, most);
}

Result<double> TableFields::Real(std::string_view name, double least, double most) const {
  return RealOf(json_->at(name), Path(name), least, most);
}

Result<std::string> TableFields::Text(std::string_view name, size_t max_bytes) const {
  const Json& value = json_->at(name);
  if (value.is_string() && value.get_ref<const std::string&>().size() <= max_bytes)
    return value.get<std::string>();
  return WrongField(Path(name), value, fmt::format("a string of at most {} bytes", max_bytes));
}

Status TableFields::Is(std::string_view name, std::string_view wanted) const {
  const Json& value = json_->at(name);
  if (value.is_string() && value.get_ref<const std::string&>() == wanted) return {};
  return WrongField(Path(name), value, fmt::format("\"{}\"", wanted));
}

Result<const Json*> TableFields::List(std::string_view name, size_t max_count) const {
  const Json& value = json_->at(name);
  if (value.is_array() && value.size() <= max_count) return &value;
  return WrongField(Path(name), value, fmt::format("an array of at most {} values", max_count));
}

Result<std::vector<double>> TableFields::Reals(std::string_view name, size_t max_count,
                                               double least, double most) const {
  TW_ASSIGN(const Json* list, List(name, max_count));
  std::vector<double> values;
  for (const Json& value : *list) {
    TW_ASSIGN(const double real,
              RealOf(value, fmt::format("{}[{}]", Path(name), values.size()), least, most));
    values.push_back(real);
  }
  return values;
}

}  // namespace thalweg::spec
