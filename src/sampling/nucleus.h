// Where min-p and top-p end: each keeps a prefix of the order of tokens (best_first.h), so the last
// one kept says all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/best_first.h"
#include "step/sampling_params.h"

namespace thalweg::sampling {

// A token of the bucket in which top-p ends.
struct Weighed {
  Entry entry = {};
  double mass = 0;
};

// The lowest logit that min_p keeps: exp((logit - best) / T) >= min_p. min_p in (0, 1].
float LowestOfMinP(float best, const step::SamplingParams& params);

// The last token of the shortest prefix whose mass reaches top_p of the mass of all values that are
// not below `lowest`. values: logits, the highest of them `best`; tokens: their ids, empty when ids
// are places. Masses are exact sums of exp((logit - best) / T) in single precision, each rounded to
// 2^-36 (2^-40 with 6,144 tokens), so nothing depends on the order of summation. border: scratch.
Entry LastOfTopP(std::span<const float> values, std::span<const Entry> tokens, float best,
                 float lowest, const step::SamplingParams& params, std::vector<Weighed>* border);

}  // namespace thalweg::sampling
