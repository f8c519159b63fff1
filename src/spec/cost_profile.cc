// The measurements as a checked file.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "spec/cost_table.h"
#include "spec/limits.h"
#include "spec/table_fields.h"

namespace thalweg::spec {
namespace {

using base::Json;

constexpr std::string_view kFormat = "thalweg step costs";
constexpr int64_t kVersion = 1;

Status CheckTime(std::string_view what, double seconds) {
  if (seconds >= kLeastSeconds && seconds <= kMostSeconds) return {};
  return base::InvalidArgument(fmt::format("{} takes {} s, but must take {} to {}", what, seconds,
                                           kLeastSeconds, kMostSeconds));
}

Status CheckCount(std::string_view what, size_t count, size_t least, size_t most) {
  if (count >= least && count <= most) return {};
  return base::InvalidArgument(
      fmt::format("there are {} {}, but must be {} to {}", count, what, least, most));
}

Status CheckSteps(std::span<const CostPoint> steps) {
  TW_TRY(CheckCount("steps", steps.size(), 1, kMaxCostPoints));
  std::set<std::pair<int64_t, int64_t>> seen;
  std::set<int64_t> sequences, rows;
  for (const CostPoint& p : steps) {
    const std::string what = fmt::format("a step of {} rows of {} sequences", p.rows, p.sequences);
    if (p.sequences < 1 || p.rows < p.sequences || p.rows > kMaxSteppedRows)
      return base::InvalidArgument(
          fmt::format("there is {}, but sequences have a row each, and a step {} at most", what,
                      kMaxSteppedRows));
    TW_TRY(CheckTime(what, p.seconds));
    if (!seen.insert({p.sequences, p.rows}).second)
      return base::InvalidArgument(fmt::format("there is {} twice", what));
    sequences.insert(p.sequences);
    rows.insert(p.rows);
  }
  TW_TRY(CheckCount("different numbers of sequences", sequences.size(), 1, kMaxAxis));
  return CheckCount("different numbers of rows", rows.size(), 1, kMaxAxis);
}

Status CheckDrafts(std::span<const DraftPoint> drafts) {
  TW_TRY(CheckCount("draft times", drafts.size(), 1, kMaxAxis));
  std::set<int64_t> seen;
  for (const DraftPoint& p : drafts) {
    const std::string what = fmt::format("drafting for {} sequences", p.sequences);
    if (p.sequences < 1 || p.sequences > kMaxSteppedRows || !seen.insert(p.sequences).second)
      return base::InvalidArgument(
          fmt::format("{} is out of range [1, {}] or there twice", what, kMaxSteppedRows));
    TW_TRY(CheckTime(what, p.seconds));
  }
  return {};
}

Status CheckGraphs(std::span<const int64_t> rows) {
  TW_TRY(CheckCount("graphs", rows.size(), 0, kMaxAxis));
  int64_t before = 0;
  for (const int64_t r : rows) {
    if (r <= before || r > kMaxSteppedRows)
      return base::InvalidArgument("rows of graphs must rise, and be in range");
    before = r;
  }
  return {};
}

Result<std::vector<CostPoint>> ParseSteps(const TableFields& fields) {
  TW_ASSIGN(const Json* list, fields.List("steps", kMaxCostPoints));
  std::vector<CostPoint> steps;
  for (const Json& value : *list) {
    TW_ASSIGN(const TableFields f, TableFields::Open(value, fmt::format("steps[{}]", steps.size()),
                                                     {"sequences", "rows", "seconds"}));
    CostPoint p;
    TW_ASSIGN(p.sequences, f.Integer("sequences", 1, kMaxSteppedRows));
    TW_ASSIGN(p.rows, f.Integer("rows", p.sequences, kMaxSteppedRows));
    TW_ASSIGN(p.seconds, f.Real("seconds", kLeastSeconds, kMostSeconds));
    steps.push_back(p);
  }
  return steps;
}

Result<std::vector<DraftPoint>> ParseDrafts(const TableFields& fields) {
  TW_ASSIGN(const Json* list, fields.List("drafts", kMaxAxis));
  std::vector<DraftPoint> drafts;
  for (const Json& value : *list) {
    TW_ASSIGN(const TableFields f,
              TableFields::Open(value, fmt::format("drafts[{}]", drafts.size()),
                                {"sequences", "seconds"}));
    DraftPoint p;
    TW_ASSIGN(p.sequences, f.Integer("sequences", 1, kMaxSteppedRows));
    TW_ASSIGN(p.seconds, f.Real("seconds", kLeastSeconds, kMostSeconds));
    drafts.push_back(p);
  }
  return drafts;
}

Result<std::vector<int64_t>> ParseGraphs(const TableFields& fields) {
  TW_ASSIGN(const Json* list, fields.List("graph_rows", kMaxAxis));
  std::vector<int64_t> rows;
  for (const Json& value : *list) {
    TW_ASSIGN(const int64_t r, IntegerOf(value, "graph_rows", 1, kMaxSteppedRows));
    rows.push_back(r);
  }
  return rows;
}

Json ToJsonList(std::span<const CostPoint> steps) {
  Json list = Json::array();
  for (const CostPoint& p : steps) {
    Json& value = list.emplace_back();
    value["sequences"] = p.sequences;
    value["rows"] = p.rows;
    value["seconds"] = p.seconds;
  }
  return list;
}

Json ToJsonList(std::span<const DraftPoint> drafts) {
  Json list = Json::array();
  for (const DraftPoint& p : drafts) {
    Json& value = list.emplace_back();
    value["sequences"] = p.sequences;
    value["seconds"] = p.seconds;
  }
  return list;
}

}  // namespace

Status CheckProfile(const CostProfile& profile) {
  TW_TRY(CheckCount("bytes of hardware", profile.hardware.size(), 0, kMaxKeyBytes));
  TW_TRY(CheckCount("bytes of options", profile.options.size(), 0, kMaxKeyBytes));
  TW_TRY(CheckSteps(profile.steps));
  TW_TRY(CheckDrafts(profile.drafts));
  return CheckGraphs(profile.graph_rows);
}

std::string ToJson(const CostProfile& profile) {
  Json json;
  json["format"] = kFormat;
  json["version"] = kVersion;
  json["hardware"] = profile.hardware;
  json["options"] = profile.options;
  json["graph_rows"] = profile.graph_rows;
  json["steps"] = ToJsonList(profile.steps);
  json["drafts"] = ToJsonList(profile.drafts);
  return json.dump(1, ' ', false, base::Json::error_handler_t::replace) + "\n";
}

Result<CostProfile> ParseCostProfile(std::string_view text, std::string_view what) {
  TW_ASSIGN(const Json json, base::ParseJson(text, what));
  TW_ASSIGN(const TableFields fields, TableFields::Open(json, std::string(what),
                                                        {"format", "version", "hardware", "options",
                                                         "graph_rows", "steps", "drafts"}));
  TW_TRY(fields.Is("format", kFormat));
  TW_TRY(fields.Integer("version", kVersion, kVersion).status());
  CostProfile profile;
  TW_ASSIGN(profile.hardware, fields.Text("hardware", kMaxKeyBytes));
  TW_ASSIGN(profile.options, fields.Text("options", kMaxKeyBytes));
  TW_ASSIGN(profile.graph_rows, ParseGraphs(fields));
  TW_ASSIGN(profile.steps, ParseSteps(fields));
  TW_ASSIGN(profile.drafts, ParseDrafts(fields));
  const Status status = CheckProfile(profile);
  if (!status.ok()) return status.WithContext(what);
  return profile;
}

std::string CostFileName(std::string_view hardware, std::string_view options) {
  constexpr size_t kDigits = 16;
  const std::string key = fmt::format("{}:{}{}", hardware.size(), hardware, options);
  return fmt::format("costs-{}.json", base::HexOf(base::Sha256Of(key)).substr(0, kDigits));
}

Result<CostProfile> ReadCostProfile(const std::filesystem::path& folder, std::string_view hardware,
                                    std::string_view options) {
  const std::filesystem::path path = folder / CostFileName(hardware, options);
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    return base::NotFound(fmt::format("there is no {}", path.string()));
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMaxTableBytes));
  TW_ASSIGN(CostProfile profile, ParseCostProfile(text, path.string()));
  if (profile.hardware == hardware && profile.options == options) return profile;
  return base::FailedPrecondition(
      fmt::format("{} was measured with other hardware or options", path.string()));
}

Status WriteCostProfile(const std::filesystem::path& folder, const CostProfile& profile) {
  TW_TRY(CheckProfile(profile));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return base::IoError(fmt::format("cannot make {}: {}", folder.string(), error.message()));
  return base::WriteFile(folder / CostFileName(profile.hardware, profile.options), ToJson(profile));
}

}  // namespace thalweg::spec
