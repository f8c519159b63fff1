// `thalweg calibrate`: what confidences in drafts are worth on given text, as a table that engines
// read (spec/decoding.md 1.4).
#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "engine/draft_calibration.h"
#include "engine/drafts.h"
#include "spec/quality.h"
#include "tools/command.h"
#include "tools/documents.h"
#include "tools/draft_replay.h"
#include "tools/option_rows.h"
#include "tools/progress.h"
#include "tools/session.h"

namespace thalweg::tools {
namespace {

using Blocks = std::vector<spec::VerifiedBlock>;

// Of one slot: calibration errors of the survival up to it, on all blocks and on those that the
// fit has not seen.
struct SlotReport {
  int64_t blocks = 0;
  double survival = 0;
  double temperature = 1;
  double error_raw = 0, error_fitted = 0, error_held_out = 0;
  double area = 0;  // under the curve, fitted
};

// Documents take turns, so that each half has something of all.
Result<Blocks> ReplayAll(const std::vector<Document>& documents, const OptionValues& values,
                         Session* session) {
  const int64_t most = values.Integer("blocks");
  const auto count = static_cast<int64_t>(documents.size());
  const ReplayedText options{.first = values.Integer("first"),
                             .stride = values.Integer("stride"),
                             .most_blocks = std::max<int64_t>(1, most / count)};
  const std::vector<int32_t> ends = session->EndTokens();
  Progress progress("drafting", count);
  Blocks all;
  for (size_t i = 0; i < documents.size() && static_cast<int64_t>(all.size()) < most; ++i) {
    auto blocks = ReplayText(*session->model, documents[i].ids, ends, options);
    if (!blocks.ok()) return blocks.status().WithContext(fmt::format("document {}", i));
    std::move(blocks->begin(), blocks->end(), std::back_inserter(all));
    progress.Advance(fmt::format("{} blocks", all.size()));
  }
  if (static_cast<int64_t>(all.size()) >= spec::kLeastFitBlocks) return all;
  return base::InvalidArgument(
      fmt::format("{} blocks are too few for a calibration, {} are needed: give more text, or a "
                  "smaller --stride",
                  all.size(), spec::kLeastFitBlocks));
}

// Temperatures of one half, judged on the other.
std::vector<double> HeldOutErrors(const Blocks& all, size_t slots) {
  Blocks half[2];
  for (size_t i = 0; i < all.size(); ++i) half[i / 8 % 2].push_back(all[i]);
  const spec::Calibration fitted = spec::FitCalibration(half[0], slots, "");
  std::vector<double> errors;
  for (size_t k = 0; k < slots; ++k)
    errors.push_back(
        spec::CalibrationError(spec::SurvivalPredictions(half[1], k, fitted.temperatures)));
  return errors;
}

std::vector<SlotReport> ReportOf(const Blocks& all, const spec::Calibration& fitted) {
  const size_t slots = fitted.temperatures.size();
  const std::vector<double> held_out = HeldOutErrors(all, slots);
  std::vector<SlotReport> report;
  for (size_t k = 0; k < slots; ++k) {
    const auto predictions = spec::SurvivalPredictions(all, k, fitted.temperatures);
    const auto survived = std::count_if(predictions.begin(), predictions.end(),
                                        [](const spec::Prediction& p) { return p.happened; });
    const auto n = static_cast<int64_t>(predictions.size());
    report.push_back(
        {.blocks = n,
         .survival = static_cast<double>(survived) / static_cast<double>(std::max<int64_t>(n, 1)),
         .temperature = fitted.temperatures[k],
         .error_raw = fitted.error_before[k],
         .error_fitted = fitted.error_after[k],
         .error_held_out = held_out[k],
         .area = spec::AreaUnderCurve(predictions)});
  }
  return report;
}

void PrintTable(const std::vector<SlotReport>& report, const std::string& path) {
  fmt::print("{:>4} {:>7} {:>9} {:>12} {:>8} {:>11} {:>13} {:>6}\n", "slot", "blocks", "survival",
             "temperature", "ECE raw", "ECE fitted", "ECE held out", "AUC");
  for (size_t k = 0; k < report.size(); ++k) {
    const SlotReport& r = report[k];
    fmt::print("{:>4} {:>7} {:>9.3f} {:>12.3f} {:>8.4f} {:>11.4f} {:>13.4f} {:>6.3f}\n", k + 1,
               r.blocks, r.survival, r.temperature, r.error_raw, r.error_fitted, r.error_held_out,
               r.area);
  }
  fmt::print("kept in {}\n", path);
}

void PrintJson(const std::vector<SlotReport>& report, const std::string& path) {
  base::Json slots = base::Json::array();
  for (const SlotReport& r : report) {
    slots.push_back({{"blocks", r.blocks},
                     {"survival", r.survival},
                     {"temperature", r.temperature},
                     {"ece_raw", r.error_raw},
                     {"ece_fitted", r.error_fitted},
                     {"ece_held_out", r.error_held_out},
                     {"auc", r.area}});
  }
  fmt::print("{}\n", base::Json{{"file", path}, {"slots", slots}}.dump(2));
}

Result<std::filesystem::path> FileOf(const OptionValues& values, const std::string& identity) {
  if (values.Has("output")) return std::filesystem::path(values.Text("output"));
  const std::filesystem::path folder = engine::CostFolder();
  if (!folder.empty()) return engine::CalibrationFile(folder, identity);
  return base::InvalidArgument(
      "no folder to keep the table in (neither XDG_CACHE_HOME nor HOME is set): give --output");
}

Result<int> Calibrate(const OptionValues& values) {
  TW_ASSIGN(SessionOptions options, SessionOptions::From(values));
  options.draft = true;
  TW_ASSIGN(Session session, OpenSession(options));
  TW_ASSIGN(const std::string identity, engine::DraftIdentity(*session.checkpoint));
  TW_ASSIGN(const std::filesystem::path path, FileOf(values, identity));
  TW_ASSIGN(const std::vector<Document> documents, ReadDocuments(values, session));
  TW_ASSIGN(const Blocks blocks, ReplayAll(documents, values, &session));
  const auto slots = static_cast<size_t>(session.config().dspark_block_size);
  const spec::Calibration fitted = spec::FitCalibration(blocks, slots, identity);
  TW_TRY(engine::WriteCalibration(path, fitted));
  const std::vector<SlotReport> report = ReportOf(blocks, fitted);
  values.Flag("json") ? PrintJson(report, path.string()) : PrintTable(report, path.string());
  return kExitOk;
}

std::vector<OptionRow> Rows() {
  std::vector<OptionRow> rows = ModelOptionRows();
  for (OptionRow& row : DocumentOptionRows()) rows.push_back(std::move(row));
  rows.push_back(CountRow("stride", "tokens from one drafted block to the next", "4", 1, 1 << 20));
  rows.push_back(
      CountRow("first", "tokens of a document before its first block", "16", 1, 1 << 20));
  rows.push_back(
      CountRow("blocks", "the most blocks, shared out among documents", "8000", 100, 10'000'000));
  rows.push_back({.name = "output",
                  .help = "where the table is kept; default: where engines look for it, in "
                          "~/.cache/thalweg/costs",
                  .value_name = "FILE"});
  rows.push_back({.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"});
  return rows;
}

}  // namespace

Command CalibrateCommand() {
  return {.name = "calibrate",
          .about = "Fit what confidences in drafts mean (sequential temperature scaling) from text",
          .options = Rows(),
          .positionals = {},
          .run = Calibrate};
}

}  // namespace thalweg::tools
