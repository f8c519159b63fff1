#include "sampling/best_first.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace thalweg::sampling {
namespace {

constexpr size_t kLanes = 16;  // independent maxima, so that a compiler may use vectors
constexpr int64_t kLeastBuffer = 64;

// Leaves the k best in the buffer; the k-th is the last.
void Shrink(int64_t k, std::vector<Entry>* best) {
  std::nth_element(best->begin(), best->begin() + (k - 1), best->end(), Better);
  best->resize(static_cast<size_t>(k));
}

// Takes from a few logits, the first of which is that of `token`, what is above the floor.
class BestTaker {
 public:
  BestTaker(int64_t most, std::vector<Entry>* best)
      : most_(most), full_(static_cast<size_t>(std::max(2 * most, kLeastBuffer))), best_(*best) {}

  // Ids ascend, so one that equals the worst of a full buffer comes behind it.
  void Take(std::span<const float> logits, size_t token) {
    if (!(Highest(logits) > floor_)) return;
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!(logits[i] > floor_)) continue;
      best_.push_back({.logit = logits[i], .token = static_cast<int32_t>(token + i)});
      if (best_.size() < full_) continue;
      Shrink(most_, &best_);
      floor_ = best_.back().logit;
    }
  }

 private:
  int64_t most_;
  size_t full_;
  std::vector<Entry>& best_;
  float floor_ = -INFINITY;
};

}  // namespace

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

RowSummary Summarise(std::span<const float> logits) {
  std::array<float, kLanes> top;
  std::array<uint32_t, kLanes> nan = {};
  top.fill(-INFINITY);
  const size_t whole = logits.size() - logits.size() % kLanes;
  for (size_t v = 0; v < whole; v += kLanes) {
    for (size_t i = 0; i < kLanes; ++i) {
      const float l = logits[v + i];
      top[i] = l > top[i] ? l : top[i];
      nan[i] |= l != l ? 1u : 0u;
    }
  }
  for (const float l : logits.subspan(whole)) {
    top[0] = l > top[0] ? l : top[0];
    nan[0] |= l != l ? 1u : 0u;
  }
  const float best = *std::max_element(top.begin(), top.end());
  const auto place = std::find(logits.begin(), logits.end(), best);
  return {.best = {.logit = best, .token = static_cast<int32_t>(place - logits.begin())},
          .nan = std::any_of(nan.begin(), nan.end(), [](uint32_t n) { return n != 0; })};
}

void TakeBest(std::span<const float> logits, int64_t k, std::vector<Entry>* best) {
  best->clear();
  const int64_t most = std::min(k, static_cast<int64_t>(logits.size()));
  BestTaker taker(most, best);
  for (size_t v = 0; v < logits.size(); v += kLanes)
    taker.Take(logits.subspan(v, std::min(kLanes, logits.size() - v)), v);
  if (static_cast<int64_t>(best->size()) > most) Shrink(most, best);
}

}  // namespace thalweg::sampling
