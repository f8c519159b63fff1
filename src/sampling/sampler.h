// From logits to a token: temperature, min-p, top-k, top-p, then Gumbel-max with counter-based
// noise (spec/decoding.md 4.1, 4.2). The same seed, position and logits give the same token
// whatever else runs.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"

namespace thalweg::sampling {

struct SamplingParams {
  double temperature = 1;  // below 1e-5: greedy
  int64_t top_k = 0;       // <= 0: off
  double top_p = 1;        // in (0, 1]; 1: off
  double min_p = 0;        // in [0, 1]; 0: off
  uint64_t seed = 0;       // of the sequence
};

// A parameter outside its range is an error that names it.
Status Validate(const SamplingParams& params);

// What a random number is for: disjoint noise streams.
enum class NoisePurpose : uint32_t { kTarget = 0, kDraft = 1, kCoin = 2, kResidual = 3 };

// Gumbel noise of one token at one position: -log(-log(u)).
double GumbelNoise(uint64_t seed, int64_t position, NoisePurpose purpose, int32_t token);

struct Sample {
  int32_t token = 0;
  float logprob = 0;  // of the untouched logits
};

// The token for `position` (absolute position of the token being sampled). Greedy ties and equal
// noise go to the lowest id. logits: [vocab], fp32; kInternal when none is finite.
Result<Sample> SampleToken(std::span<const float> logits, const SamplingParams& params,
                           int64_t position);

// log softmax of one entry, in double.
double LogProbability(std::span<const float> logits, int32_t token);

}  // namespace thalweg::sampling
