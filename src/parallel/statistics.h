// How many rows each expert was chosen for: counted in windows, kept for a while, saved and loaded.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "parallel/placement.h"

namespace thalweg::parallel {

struct ExpertCounts {
  int64_t experts = 0;
  int64_t rows = 0;                          // tokens that were routed
  std::vector<std::vector<int64_t>> layers;  // [layers][experts]

  // Adds counts of the same shape; sums stay at kMostLoad.
  void Add(const ExpertCounts& more);
  std::vector<std::vector<double>> Loads() const;
  bool operator==(const ExpertCounts&) const = default;
};

ExpertCounts NoCounts(int64_t layers, int64_t experts);

std::string ToJson(const ExpertCounts& counts);
Result<ExpertCounts> ParseCounts(std::string_view text, std::string_view what);
Result<ExpertCounts> ReadCounts(const std::filesystem::path& path);

// Largest over mean load of ranks, by layer.
std::vector<double> ImbalanceByLayer(const Placement& placement, const ExpertCounts& counts);

// The newest windows of counts and their sum.
class LoadWindow {
 public:
  // windows >= 1.
  LoadWindow(int64_t layers, int64_t experts, int64_t windows);

  // One window more; the oldest goes when there are too many.
  void Add(ExpertCounts window);
  const ExpertCounts& total() const { return total_; }
  const ExpertCounts& newest() const { return windows_.back(); }
  int64_t windows() const { return static_cast<int64_t>(windows_.size()); }

 private:
  ExpertCounts Sum() const;

  size_t most_;
  std::deque<ExpertCounts> windows_;
  ExpertCounts total_;
};

}  // namespace thalweg::parallel
