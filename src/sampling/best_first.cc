#include "sampling/best_first.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace thalweg::sampling {
namespace {

constexpr size_t kLanes = 16;  // independent maxima, so that a compiler may use vectors
constexpr int64_t kLeastBuffer = 64;

// The highest of a row; NaN is passed over.
float Highest(std::span<const float> logits) {
  std::array<float, kLanes> top;
  top.fill(-INFINITY);
  size_t v = 0;
  for (; v + kLanes <= logits.size(); v += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) top[i] = logits[v + i] > top[i] ? logits[v + i] : top[i];
  }
  for (; v < logits.size(); ++v) top[0] = logits[v] > top[0] ? logits[v] : top[0];
  return *std::max_element(top.begin(), top.end());
}

// Leaves the k best in the buffer; the k-th is the last.
void Shrink(int64_t k, std::vector<Entry>* best) {
  std::nth_element(best->begin(), best->begin() + (k - 1), best->end(), Better);
  best->resize(static_cast<size_t>(k));
}

}  // namespace

Entry FindBest(std::span<const float> logits) {
  const float top = Highest(logits);
  const auto place = std::find(logits.begin(), logits.end(), top);
  return {.logit = top, .token = static_cast<int32_t>(place - logits.begin())};
}

bool HasNan(std::span<const float> logits) {
  std::array<uint32_t, kLanes> nan = {};
  size_t v = 0;
  for (; v + kLanes <= logits.size(); v += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) nan[i] |= std::isnan(logits[v + i]) ? 1u : 0u;
  }
  for (; v < logits.size(); ++v) nan[0] |= std::isnan(logits[v]) ? 1u : 0u;
  return std::any_of(nan.begin(), nan.end(), [](uint32_t n) { return n != 0; });
}

void TakeBest(std::span<const float> logits, int64_t k, std::vector<Entry>* best) {
  best->clear();
  const int64_t most = std::min(k, static_cast<int64_t>(logits.size()));
  const auto full = static_cast<size_t>(std::max(2 * most, kLeastBuffer));
  // Ids ascend, so one that equals the worst of a full buffer comes behind it.
  float floor = -INFINITY;
  for (size_t v = 0; v < logits.size(); ++v) {
    if (!(logits[v] > floor)) continue;
    best->push_back({.logit = logits[v], .token = static_cast<int32_t>(v)});
    if (best->size() < full) continue;
    Shrink(most, best);
    floor = best->back().logit;
  }
  if (static_cast<int64_t>(best->size()) > most) Shrink(most, best);
}

}  // namespace thalweg::sampling
