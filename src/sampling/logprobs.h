// Log-probabilities of untouched logits.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/best_first.h"
#include "step/plan.h"

namespace thalweg::sampling {

// log of the sum of exp(logit - best), in double; the order of the sum is fixed.
double LogSumExp(std::span<const float> logits, float best);

// logits: [vocab], best of them finite. Fills `out`: `token` with its rank, and the `top` best.
void FillLogprobs(std::span<const float> logits, float best, int32_t token, int32_t top,
                  std::vector<Entry>* entries, step::PositionLogprobs* out);

}  // namespace thalweg::sampling
