#include "parallel/statistics.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/mapped_file.h"
#include "parallel/json_table.h"
#include "parallel/limits.h"

namespace thalweg::parallel {
namespace {

constexpr std::string_view kFormat = "thalweg expert counts";

// Both are at most kMostLoad.
void AddTo(int64_t* sum, int64_t more) { *sum = std::min(*sum + more, kMostLoad); }

}  // namespace

void ExpertCounts::Add(const ExpertCounts& more) {
  TW_CHECK_EQ(experts, more.experts);
  TW_CHECK_EQ(layers.size(), more.layers.size());
  AddTo(&rows, more.rows);
  for (size_t i = 0; i < layers.size(); ++i)
    for (size_t e = 0; e < layers[i].size(); ++e) AddTo(&layers[i][e], more.layers[i][e]);
}

std::vector<std::vector<double>> ExpertCounts::Loads() const {
  std::vector<std::vector<double>> loads;
  for (const auto& layer : layers) loads.emplace_back(layer.begin(), layer.end());
  return loads;
}

ExpertCounts NoCounts(int64_t layers, int64_t experts) {
  return {
      experts, 0,
      std::vector(static_cast<size_t>(layers), std::vector<int64_t>(static_cast<size_t>(experts)))};
}

std::string ToJson(const ExpertCounts& counts) {
  return TableToJson(kFormat, {{"experts", counts.experts}, {"rows", counts.rows}}, counts.layers);
}

Result<ExpertCounts> ParseCounts(std::string_view text, std::string_view what) {
  ExpertCounts counts;
  TW_ASSIGN(counts.layers, ParseTable(text, what, kFormat,
                                      {{"experts", 1, kMostExperts, &counts.experts},
                                       {"rows", 0, kMostLoad, &counts.rows}},
                                      kMostExperts, kMostLoad));
  for (size_t i = 0; i < counts.layers.size(); ++i)
    if (static_cast<int64_t>(counts.layers[i].size()) != counts.experts)
      return base::InvalidArgument(fmt::format("{}: layer {} has {} counts for {} experts", what, i,
                                               counts.layers[i].size(), counts.experts));
  return counts;
}

Result<ExpertCounts> ReadCounts(const std::filesystem::path& path) {
  TW_ASSIGN(const std::string text, base::ReadFile(path, kMostFileBytes));
  return ParseCounts(text, path.string());
}

std::vector<double> ImbalanceByLayer(const Placement& placement, const ExpertCounts& counts) {
  TW_CHECK_EQ(placement.layers.size(), counts.layers.size());
  const auto loads = counts.Loads();
  std::vector<double> imbalance;
  for (size_t i = 0; i < loads.size(); ++i)
    imbalance.push_back(Imbalance(RankLoads(placement.layers[i], placement.shape, loads[i])));
  return imbalance;
}

LoadWindow::LoadWindow(int64_t layers, int64_t experts, int64_t windows)
    : most_(static_cast<size_t>(windows)), total_(NoCounts(layers, experts)) {
  TW_CHECK_GE(windows, 1);
}

void LoadWindow::Add(ExpertCounts window) {
  windows_.push_back(std::move(window));
  if (windows_.size() <= most_) return total_.Add(windows_.back());
  windows_.pop_front();
  total_ = Sum();
}

ExpertCounts LoadWindow::Sum() const {
  ExpertCounts sum = NoCounts(static_cast<int64_t>(total_.layers.size()), total_.experts);
  for (const ExpertCounts& window : windows_) sum.Add(window);
  return sum;
}

}  // namespace thalweg::parallel
