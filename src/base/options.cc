#include "base/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/env.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace thalweg::base {
namespace {

constexpr uint64_t kMaxOptionFileBytes = 1 << 20;

template <typename T>
std::optional<T> ParseNumber(const std::string& text) {
  T value = {};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const OptionRow* FindRow(std::span<const OptionRow> rows, std::string_view name) {
  const auto at = std::find_if(rows.begin(), rows.end(),
                               [&](const OptionRow& row) { return row.name == name; });
  return at == rows.end() ? nullptr : &*at;
}

Status Fill(const OptionRow& row, std::string value, std::string_view origin,
            OptionValues* values) {
  if (row.kind == OptionKind::kFlag) {
    if (value == "1") value = "true";
    if (value == "0") value = "false";
  }
  TW_TRY(CheckOption(row, value, origin));
  values->Set(row.name, std::move(value));
  return {};
}

Status FillFromFile(std::span<const OptionRow> rows, const std::string& path,
                    OptionValues* values) {
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMaxOptionFileBytes));
  TW_ASSIGN(const base::Json json, base::ParseJson(text, path));
  if (!json.is_object())
    return base::InvalidArgument(fmt::format("{} must hold a JSON object", path));
  for (const auto& [key, value] : json.items()) {
    const OptionRow* row = FindRow(rows, key);
    if (row == nullptr) {
      std::vector<std::string> known;
      for (const OptionRow& r : rows) known.push_back(r.name);
      return base::InvalidArgument(
          fmt::format("{}: unknown option \"{}\"; known: {}", path, key, fmt::join(known, ", ")));
    }
    if (value.is_structured() || value.is_null()) {
      return base::InvalidArgument(fmt::format("{}: option \"{}\" needs a plain value", path, key));
    }
    if (values->Has(key)) continue;
    TW_TRY(Fill(*row, value.is_string() ? value.get<std::string>() : value.dump(), path, values));
  }
  return {};
}

Status CheckRange(const OptionRow& row, double value, std::string_view origin) {
  if (row.most <= row.least || (value >= row.least && value <= row.most)) return {};
  return base::InvalidArgument(fmt::format("{}: {} is {}, but must lie in [{}, {}]", origin,
                                           row.name, value, row.least, row.most));
}

}  // namespace

std::string OptionValues::Text(std::string_view name) const {
  const auto at = values_.find(std::string(name));
  return at == values_.end() ? std::string() : at->second;
}

int64_t OptionValues::Integer(std::string_view name) const {
  const std::optional<int64_t> value = OptionalInteger(name);
  TW_CHECK(value.has_value());
  return *value;
}

double OptionValues::Real(std::string_view name) const {
  const std::optional<double> value = OptionalReal(name);
  TW_CHECK(value.has_value());
  return *value;
}

std::optional<int64_t> OptionValues::OptionalInteger(std::string_view name) const {
  return ParseNumber<int64_t>(Text(name));
}

std::optional<double> OptionValues::OptionalReal(std::string_view name) const {
  return ParseNumber<double>(Text(name));
}

std::string OptionValues::Describe() const {
  std::vector<std::string> parts;
  for (const auto& [name, value] : values_) parts.push_back(fmt::format("{}={}", name, value));
  return fmt::format("{}", fmt::join(parts, " "));
}

Status CheckOption(const OptionRow& row, const std::string& value, std::string_view origin) {
  const auto bad = [&](std::string_view wanted) {
    return base::InvalidArgument(
        fmt::format("{}: {} is \"{}\", but must be {}", origin, row.name, value, wanted));
  };
  switch (row.kind) {
    case OptionKind::kFlag:
      return value == "true" || value == "false" ? Status() : bad("true or false (or 1, 0)");
    case OptionKind::kInteger: {
      const std::optional<int64_t> number = ParseNumber<int64_t>(value);
      if (!number.has_value()) return bad("a whole number");
      return CheckRange(row, static_cast<double>(*number), origin);
    }
    case OptionKind::kReal: {
      const std::optional<double> number = ParseNumber<double>(value);
      if (!number.has_value()) return bad("a number");
      return CheckRange(row, *number, origin);
    }
    case OptionKind::kText: break;
  }
  if (row.choices.empty() ||
      std::find(row.choices.begin(), row.choices.end(), value) != row.choices.end())
    return {};
  return bad(fmt::format("one of {}", fmt::join(row.choices, ", ")));
}

Status ResolveOptions(std::span<const OptionRow> rows, const std::string& option_file,
                      OptionValues* values) {
  for (const OptionRow& row : rows) {
    if (values->Has(row.name)) TW_TRY(Fill(row, values->Text(row.name), "--" + row.name, values));
  }
  for (const OptionRow& row : rows) {
    if (row.environment.empty() || values->Has(row.name)) continue;
    const std::optional<std::string> value = base::ReadEnvironment(row.environment.c_str());
    if (value.has_value()) TW_TRY(Fill(row, *value, row.environment, values));
  }
  if (!option_file.empty()) TW_TRY(FillFromFile(rows, option_file, values));
  for (const OptionRow& row : rows) {
    if (!row.fallback.empty() && !values->Has(row.name)) values->Set(row.name, row.fallback);
  }
  return {};
}

}  // namespace thalweg::base
