// What a step costs, by the number of sequences that decode and the number of rows: measured at
// start, made monotone, read between the points (spec/decoding.md 1.5). A file keeps the
// measurements for the hardware and options they were made with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::spec {

// A step of `rows` rows in which so many sequences decode or verify, the drafting left out.
struct CostPoint {
  int64_t sequences = 0;
  int64_t rows = 0;  // sequences or more
  double seconds = 0;
};

// Drafting one block for each of so many sequences, the context that it needs included; steps are
// without.
struct DraftPoint {
  int64_t sequences = 0;
  double seconds = 0;
};

struct CostProfile {
  // What the times depend on: processor or device, threads, build; model, backend, formats.
  std::string hardware = {};
  std::string options = {};
  // Numbers of rows that have a captured graph, ascending; fewer rows run as the next of them.
  std::vector<int64_t> graph_rows = {};
  std::vector<CostPoint> steps = {};    // 1 or more, no two at one place
  std::vector<DraftPoint> drafts = {};  // likewise
};

// Steps that are worth measuring: powers of two of sequences up to the most and the most itself,
// each with 1 to 1 + drafts rows a sequence, and with the rows of a full step. Times are 0.
std::vector<CostPoint> StepsToMeasure(int64_t max_sequences, int64_t max_rows, int64_t drafts);

// How long a step and a draft take, once; whoever has the model and a clock.
struct CostTimer {
  std::function<Result<double>(const CostPoint&)> step = {};
  std::function<Result<double>(int64_t sequences)> draft = {};
};
// Measures StepsToMeasure, and drafting for the same numbers of sequences: the median of
// kMeasurements each. Errors: the timer's; kInternal when it answers with times that are none.
inline constexpr int kMeasurements = 5;
Result<CostProfile> MeasureCosts(int64_t max_sequences, int64_t max_rows, int64_t drafts,
                                 const CostTimer& timer);

// kInvalidArgument names what is wrong: times that are no times, too many points, two at one place.
Status CheckProfile(const CostProfile& profile);

std::string ToJson(const CostProfile& profile);
Result<CostProfile> ParseCostProfile(std::string_view text, std::string_view what);

// The name of the file for this hardware and these options.
std::string CostFileName(std::string_view hardware, std::string_view options);
// From a folder. kNotFound: there is none. kFailedPrecondition: it is for something else.
// kInvalidArgument: it is damaged. In each case the profile has to be made anew.
Result<CostProfile> ReadCostProfile(const std::filesystem::path& folder, std::string_view hardware,
                                    std::string_view options);
// Makes the folder if need be. kIo: the system refuses.
Status WriteCostProfile(const std::filesystem::path& folder, const CostProfile& profile);

// Times that never fall when sequences or rows grow: of all such tables one that changes the
// measurements least (monotone_grid.h).
class CostTable {
 public:
  // A valid profile.
  explicit CostTable(const CostProfile& profile);

  // rows >= 1. Between points: linear in both. Below the first: the first. Above: along the
  // steepest last slope in rows.
  double StepSeconds(int64_t sequences, int64_t rows) const;
  double DraftSeconds(int64_t sequences) const;  // 0 of none

 private:
  double Cell(size_t sequences, size_t rows) const {
    return cells_[sequences * rows_.size() + rows];
  }
  double StepSecondsAt(size_t sequences, double rows) const;
  void FillCells(std::span<const CostPoint> steps);
  std::vector<double> LinearGuesses(std::span<const double> measured) const;
  void FitDrafts(std::span<const DraftPoint> drafts);

  std::vector<int64_t> graph_rows_;
  std::vector<int64_t> sequences_;  // axes, ascending
  std::vector<int64_t> rows_;
  std::vector<double> cells_;  // [sequences, rows]
  double slope_ = 0;           // seconds a row beyond the last
  std::vector<int64_t> draft_sequences_;
  std::vector<double> draft_seconds_;
};

}  // namespace thalweg::spec
