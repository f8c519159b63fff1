#include "spec/weight_race.h"

#include <algorithm>
#include <array>
#include <cfloat>
#include <cmath>

#include "base/check.h"
#include "sampling/elementary.h"

namespace thalweg::spec {
namespace {

class WeightRace {
 public:
  WeightRace(std::span<const float> weights, uint64_t seed, int64_t position,
             sampling::NoisePurpose purpose)
      : weights_(weights), seed_(seed), position_(position), purpose_(purpose) {
    const auto first = std::max_element(weights.begin(), weights.end()) - weights.begin();
    const auto token = static_cast<int32_t>(first);
    TW_CHECK_GT(weights[static_cast<size_t>(first)], 0.0f);
    const size_t lane = static_cast<size_t>(first) % 4;
    Lead(token, ValueOf(token, sampling::NoiseWords(seed, position, purpose, token / 4)[lane]));
  }

  int32_t Run() {
    for (size_t begin = 0; begin < weights_.size(); begin += kBatch) RunBatch(begin);
    return winner_;
  }

 private:
  static constexpr size_t kBatch = 64;

  double ValueOf(int32_t token, uint32_t word) const {
    return sampling::Log(static_cast<double>(weights_[static_cast<size_t>(token)])) +
           sampling::GumbelOf(word);
  }

  void Lead(int32_t token, double value) {
    winner_ = token;
    best_ = value;
    // A little lower than exact, so that rounding only lets more tokens run.
    bar_ = static_cast<float>(std::exp(best_) * (1 - 1e-4));
  }

  // With v = 1 - u: -log(1 - v) >= v, so weight / v is at least e to the token's value.
  static float Miss(uint32_t word) {
    return static_cast<float>(static_cast<int32_t>(~word >> 1)) * 0x1p-31f;
  }

  void RunBatch(size_t begin) {
    std::array<uint32_t, kBatch> words;
    sampling::NoiseWords(seed_, position_, purpose_, static_cast<int32_t>(begin / 4), words);
    const size_t count = std::min(kBatch, weights_.size() - begin);
    const float* weights = weights_.data() + begin;
    uint32_t some = 0;
    for (size_t i = 0; i < count; ++i) some |= weights[i] < Miss(words[i]) * bar_ ? 0u : 1u;
    if (some == 0) return;
    for (size_t i = 0; i < count; ++i) {
      if (weights[i] < FLT_MIN || weights[i] < Miss(words[i]) * bar_) continue;
      const auto token = static_cast<int32_t>(begin + i);
      const double value = ValueOf(token, words[i]);
      if (value > best_ || (value == best_ && token < winner_)) Lead(token, value);
    }
  }

  std::span<const float> weights_;
  uint64_t seed_;
  int64_t position_;
  sampling::NoisePurpose purpose_;
  int32_t winner_ = 0;
  double best_ = 0;
  float bar_ = 0;
};

}  // namespace

int32_t DrawByWeight(std::span<const float> weights, uint64_t seed, int64_t position,
                     sampling::NoisePurpose purpose) {
  return WeightRace(weights, seed, position, purpose).Run();
}

}  // namespace thalweg::spec
