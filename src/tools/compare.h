// `thalweg compare`: where two dumps (tools/dump.h) begin to differ.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace thalweg::tools {

// What a floating-point tensor may be off by. Integer tensors have to be equal.
struct CompareBudget {
  double relative_rms = 0;  // RMS of the difference over the RMS of the first file's tensor
  double max_abs = std::numeric_limits<double>::infinity();
};

struct PointDifference {
  std::string name;  // "<layer>/<point>"
  std::string shape;
  std::vector<int64_t> worst_index;  // of the largest difference
  double max_abs = 0;
  double max_relative = 0;  // max_abs over the first tensor's largest value
  double relative_rms = 0;
  double cosine = 1;
  bool over_budget = false;
  std::string note;  // a difference in dtype or shape, or a point that one file lacks
};

struct CompareReport {
  std::string a, b;
  std::vector<PointDifference> points;  // in forward order

  bool ok() const { return FirstOverBudget() == nullptr; }
  const PointDifference* FirstOverBudget() const;
};

// Compares all points of both files in forward order. A point that one file lacks, or holds with
// another dtype or shape, is over budget. Errors: a file that is no safetensors file; no point in
// common.
Result<CompareReport> CompareDumps(const std::filesystem::path& a, const std::filesystem::path& b,
                                   const CompareBudget& budget);

// The first point over budget in full and the number of others, or that all agree.
std::string ToText(const CompareReport& report);
base::Json ToJson(const CompareReport& report);

}  // namespace thalweg::tools
