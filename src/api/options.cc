#include "api/options.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace thalweg::api {
namespace {

constexpr int kLevelsAbove = 5;
constexpr std::string_view kModel = "model";

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

// The file that this code was loaded from: the library, the Python module or the program.
std::optional<std::filesystem::path> OwnFile() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&KindName), &info) == 0 || info.dli_fname == nullptr)
    return std::nullopt;
  std::error_code error;
  // A program may have been started by a name without a folder.
  if (std::string_view(info.dli_fname).find('/') == std::string_view::npos)
    return std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  return error ? std::nullopt : std::optional(file);
}

}  // namespace

std::string OptionName(std::string_view name) {
  std::string out(name);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::optional<std::filesystem::path> EmbeddedModel() {
  const std::optional<std::filesystem::path> file = OwnFile();
  if (!file.has_value()) return std::nullopt;
  std::filesystem::path folder = file->parent_path();
  std::vector<std::filesystem::path> places = {folder / "models/nano",
                                               folder / "../share/thalweg/models/nano",
                                               folder / "../../share/thalweg/models/nano"};
  for (int i = 0; i < kLevelsAbove; ++i) {
    folder = folder.parent_path();
    places.push_back(folder / "models/nano");
  }
  std::error_code error;
  for (const std::filesystem::path& place : places) {
    if (std::filesystem::exists(place / "config.json", error)) return place.lexically_normal();
  }
  return std::nullopt;
}

Result<engine::EngineOptions> ResolveOptions(const LLMOptions& options) {
  const std::vector<base::OptionRow> rows = engine::EngineOptions::Rows();
  base::OptionValues values;
  if (!options.model.empty()) TW_TRY(TakeOption(rows, std::string(kModel), options.model, &values));
  for (const auto& [name, value] : options.options) TW_TRY(TakeOption(rows, name, value, &values));
  TW_TRY(base::ResolveOptions(rows, options.option_file, &values));
  if (!values.Has(kModel) || values.Text(kModel).empty()) {
    const std::optional<std::filesystem::path> embedded = EmbeddedModel();
    if (embedded.has_value()) values.Set(std::string(kModel), embedded->string());
  }
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
