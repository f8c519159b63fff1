#include "api/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace thalweg::api {
namespace {

const base::OptionRow* FindRow(const std::vector<base::OptionRow>& rows, std::string_view name) {
  const auto at = std::find_if(rows.begin(), rows.end(),
                               [&](const base::OptionRow& row) { return row.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

Status UnknownOption(std::string_view name, const std::vector<base::OptionRow>& rows) {
  std::vector<std::string_view> known;
  for (const base::OptionRow& row : rows) known.push_back(row.name);
  return base::InvalidArgument(
      fmt::format("unknown option \"{}\"; known: {}", name, fmt::join(known, ", ")));
}

std::string FlagText(const base::OptionRow& row, const std::string& value) {
  if (row.kind != base::OptionKind::kFlag) return value;
  if (value == "1" || value == "True") return "true";
  return value == "0" || value == "False" ? "false" : value;
}

Status TakeOption(const std::vector<base::OptionRow>& rows, const std::string& given,
                  const std::string& value, base::OptionValues* values) {
  const std::string name = OptionName(given);
  const base::OptionRow* row = FindRow(rows, name);
  if (row == nullptr) return UnknownOption(given, rows);
  if (values->Has(name))
    return base::InvalidArgument(fmt::format("option {} is given twice", name));
  const std::string text = FlagText(*row, value);
  TW_TRY(base::CheckOption(*row, text, "options"));
  values->Set(name, text);
  return {};
}

std::string_view KindName(base::OptionKind kind) {
  switch (kind) {
    case base::OptionKind::kText: return "text";
    case base::OptionKind::kInteger: return "integer";
    case base::OptionKind::kReal: return "real";
    case base::OptionKind::kFlag: return "flag";
  }
  return "text";
}

}  // namespace

std::string OptionName(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

Result<engine::EngineOptions> ResolveOptions(const LLMOptions& options) {
  const std::vector<base::OptionRow> rows = engine::EngineOptions::Rows();
  base::OptionValues values;
  if (!options.model.empty()) TW_TRY(TakeOption(rows, "model", options.model, &values));
  for (const auto& [name, value] : options.options) TW_TRY(TakeOption(rows, name, value, &values));
  TW_TRY(base::ResolveOptions(rows, options.option_file, &values));
  return engine::EngineOptions::From(values);
}

std::vector<OptionInfo> DescribeOptions() {
  std::vector<OptionInfo> out;
  for (const base::OptionRow& row : engine::EngineOptions::Rows()) {
    out.push_back({.name = row.name,
                   .type = std::string(KindName(row.kind)),
                   .default_value = row.fallback,
                   .environment = row.environment,
                   .help = row.help,
                   .choices = row.choices,
                   .least = row.least,
                   .most = row.most});
  }
  return out;
}

}  // namespace thalweg::api
