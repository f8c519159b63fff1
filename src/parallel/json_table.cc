#include "parallel/json_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "parallel/limits.h"

namespace thalweg::parallel {
namespace {

constexpr int64_t kVersion = 1;

Result<int64_t> Integer(const base::Json& json, const TableField& field) {
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<uint64_t>() > static_cast<uint64_t>(field.most)) ||
      json.get<int64_t>() < field.least || json.get<int64_t>() > field.most)
    return base::InvalidArgument(
        fmt::format("{}: must be an integer from {} to {}", field.name, field.least, field.most));
  return json.get<int64_t>();
}

Status CheckKeys(const base::Json& json, std::string_view format,
                 const std::vector<TableField>& fields) {
  if (!json.is_object()) return base::InvalidArgument("must be an object");
  std::vector<std::string_view> names = {"format", "version", "layers"};
  for (const TableField& field : fields) names.push_back(field.name);
  for (const auto& [key, value] : json.items())
    if (std::find(names.begin(), names.end(), key) == names.end())
      return base::InvalidArgument(
          fmt::format("unknown key {}; known: {}", key, fmt::join(names, ", ")));
  for (const std::string_view name : names)
    if (!json.contains(name)) return base::InvalidArgument(fmt::format("{} is missing", name));
  if (!json["format"].is_string() || json["format"].get<std::string>() != format)
    return base::InvalidArgument(fmt::format("format: must be \"{}\"", format));
  return {};
}

Result<std::vector<int64_t>> Row(const base::Json& json, int64_t width, int64_t most) {
  if (!json.is_array() || static_cast<int64_t>(json.size()) > width)
    return base::InvalidArgument(fmt::format("must be a list of {} integers at most", width));
  std::vector<int64_t> row;
  row.reserve(json.size());
  for (const base::Json& value : json) {
    TW_ASSIGN(const int64_t number, Integer(value, {"element", 0, most, nullptr}));
    row.push_back(number);
  }
  return row;
}

Result<std::vector<std::vector<int64_t>>> Rows(const base::Json& json, int64_t width,
                                               int64_t most) {
  if (!json.is_array() || static_cast<int64_t>(json.size()) > kMostLayers)
    return base::InvalidArgument(fmt::format("layers: must be a list of {} at most", kMostLayers));
  std::vector<std::vector<int64_t>> rows;
  for (const base::Json& layer : json) {
    auto row = Row(layer, width, most);
    if (!row.ok()) return row.status().WithContext(fmt::format("layer {}", rows.size()));
    rows.push_back(*std::move(row));
  }
  return rows;
}

Result<std::vector<std::vector<int64_t>>> Read(const base::Json& json, std::string_view format,
                                               const std::vector<TableField>& fields, int64_t width,
                                               int64_t most) {
  TW_TRY(CheckKeys(json, format, fields));
  TW_TRY(Integer(json["version"], {"version", kVersion, kVersion, nullptr}).status());
  for (const TableField& field : fields) {
    TW_ASSIGN(*field.value, Integer(json[field.name], field));
  }
  return Rows(json["layers"], width, most);
}

}  // namespace

Result<std::vector<std::vector<int64_t>>> ParseTable(std::string_view text, std::string_view what,
                                                     std::string_view format,
                                                     const std::vector<TableField>& fields,
                                                     int64_t width, int64_t most) {
  TW_ASSIGN(const base::Json json, base::ParseJson(text, what));
  auto table = Read(json, format, fields, width, most);
  if (!table.ok()) return table.status().WithContext(what);
  return table;
}

std::string TableToJson(std::string_view format,
                        const std::vector<std::pair<std::string_view, int64_t>>& fields,
                        const std::vector<std::vector<int64_t>>& layers) {
  std::string text = fmt::format("{{\"format\": \"{}\", \"version\": {}", format, kVersion);
  for (const auto& [name, value] : fields) text += fmt::format(", \"{}\": {}", name, value);
  text += ", \"layers\": [";
  for (size_t i = 0; i < layers.size(); ++i)
    text += fmt::format("{}\n[{}]", i == 0 ? "" : ",", fmt::join(layers[i], ", "));
  return text + "]}\n";
}

}  // namespace thalweg::parallel
