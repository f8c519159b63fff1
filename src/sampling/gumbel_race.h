// Gumbel-max over the tokens of a row without the noise of most of them: noise has a known maximum,
// and a cheap bound for each random word, so a token that cannot win is passed over with the same
// outcome as if it had run.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/best_first.h"
#include "sampling/noise.h"
#include "step/sampling_params.h"

namespace thalweg::sampling {

// No word gives more noise than this (noise of 0xffffffff is 22.87).
inline constexpr double kMostNoise = 22.9;

// At least GumbelOf(word), and seldom much more.
float NoiseBound(uint32_t word);

class GumbelRace {
 public:
  // `first` runs at once; the closer to the top it is, the fewer others have to.
  GumbelRace(const step::SamplingParams& params, int64_t position, Entry first,
             NoisePurpose purpose = NoisePurpose::kTarget);
  // A whole row; token ids are places.
  void Run(std::span<const float> logits);
  // Some tokens, in any order.
  void Run(std::span<const Entry> entries);
  int32_t winner() const { return winner_; }

 private:
  static constexpr size_t kBatch = 64;  // tokens whose words are made together

  void RunBatch(std::span<const float> logits, int32_t first);
  void Try(Entry entry, uint32_t word);
  void Lead(int32_t token, double value);

  uint64_t seed_;
  int64_t position_;
  NoisePurpose purpose_;
  double temperature_;
  float inverse_;
  int32_t winner_ = 0;
  double best_ = 0;  // logit / temperature + noise of the winner
  float bar_ = 0;    // logit * inverse + bound of the noise below it: cannot win
  float cut_ = 0;    // logits below cannot win with any noise
};

}  // namespace thalweg::sampling
