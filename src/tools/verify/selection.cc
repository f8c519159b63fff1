#include "tools/verify/selection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace thalweg::tools {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTieTolerance = 0x1p-7;

double LargestAbs(std::span<const float> score) {
  double largest = 0;
  for (const float s : score) largest = std::max(largest, std::fabs(double{s}));
  return largest;
}

double KthBest(std::span<const float> score, int64_t k) {
  std::vector<float> order(score.begin(), score.end());
  const auto at = order.begin() + (std::min<int64_t>(k, std::ssize(order)) - 1);
  std::nth_element(order.begin(), at, order.end(), std::greater<>());
  return *at;
}

}  // namespace

double TieTolerance(std::span<const float> score, int64_t k) {
  if (score.empty() || k < 1) return 0;
  return kTieTolerance * (std::fabs(KthBest(score, k)) + LargestAbs(score));
}

double TieAwareExcess(std::span<const float> score, std::span<const uint8_t> chosen, int64_t k,
                      double largest_abs) {
  const auto n = static_cast<int64_t>(score.size());
  if (std::count(chosen.begin(), chosen.end(), uint8_t{1}) != std::min(k, n)) return kInfinity;
  if (k >= n || k == 0) return 0;
  const double border = KthBest(score, k);
  const double tolerance = kTieTolerance * (std::fabs(border) + largest_abs);
  double excess = 0;
  for (size_t i = 0; i < score.size(); ++i) {
    const double above = double{score[i]} - border;
    const double wrong = chosen[i] != 0 ? -above : above;
    if (wrong > 0) excess = std::max(excess, wrong / tolerance);
  }
  return excess;
}

double SelectionExcess(std::span<const int32_t> selected, std::span<const float> visible_score,
                       std::span<const uint8_t> allowed, int64_t k) {
  std::vector<uint8_t> marked(visible_score.size(), 0);
  for (const int32_t entry : selected) {
    if (entry < 0) continue;
    const auto at = static_cast<size_t>(entry);
    const bool may = at < marked.size() && (allowed.empty() || allowed[at] != 0);
    if (!may || marked[at] != 0) return kInfinity;
    marked[at] = 1;
  }
  std::vector<float> score;
  std::vector<uint8_t> chosen;
  for (size_t i = 0; i < marked.size(); ++i) {
    if (!allowed.empty() && allowed[i] == 0) continue;
    score.push_back(visible_score[i]);
    chosen.push_back(marked[i]);
  }
  return TieAwareExcess(score, chosen, k, LargestAbs(visible_score));
}

double CandidateExcess(std::span<const uint8_t> mask, std::span<const float> visible_score,
                       int64_t block_size, int64_t blocks) {
  std::vector<float> best;
  std::vector<uint8_t> chosen;
  for (size_t begin = 0; begin < mask.size(); begin += static_cast<size_t>(block_size)) {
    const size_t count = std::min(static_cast<size_t>(block_size), mask.size() - begin);
    const auto block = mask.subspan(begin, count);
    const auto score = visible_score.subspan(begin, count);
    if (std::count(block.begin(), block.end(), block[0]) != static_cast<int64_t>(count))
      return kInfinity;
    best.push_back(*std::max_element(score.begin(), score.end()));
    chosen.push_back(block[0]);
  }
  if (best.empty()) return 0;
  if (chosen.back() == 0) return kInfinity;
  best.pop_back();
  chosen.pop_back();
  return TieAwareExcess(best, chosen, blocks - 1, LargestAbs(visible_score));
}

}  // namespace thalweg::tools
