// What the parameters of one sequence may be, and the limits that bound their cost
// (docs/sampling.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "step/sampling_params.h"

namespace thalweg::sampling {

// Every limit of the room. Allowed and banned tokens are bounded by the vocabulary.
inline constexpr size_t kMaxLogitBias = 1024;
inline constexpr size_t kMaxBadWords = 1024;
inline constexpr size_t kMaxBadWordTokens = 64;
inline constexpr size_t kMaxStopTokens = 128;  // end tokens and stop token ids, each
inline constexpr double kMaxTemperature = 100;
inline constexpr double kMaxRepetitionPenalty = 100;
inline constexpr double kMaxPenalty = 2;  // frequency, presence: either sign
inline constexpr float kMaxBias = 100;    // either sign

// Below it the most probable token is taken.
inline constexpr double kGreedyBelow = 1e-5;

// kInvalidArgument names the parameter, its value and the range; contradictions name both sides.
// vocab: ids are in [0, vocab).
Status Validate(const step::SamplingParams& params, int64_t vocab);

}  // namespace thalweg::sampling
