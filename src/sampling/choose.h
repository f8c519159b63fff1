// The draw itself: temperature, min-p, top-k, top-p, Gumbel-max (docs/sampling.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/best_first.h"
#include "sampling/noise.h"
#include "sampling/nucleus.h"
#include "step/sampling_params.h"

namespace thalweg::sampling {

struct ChooseBuffers {
  std::vector<Entry> candidates = {};  // of top_k
  std::vector<float> values = {};      // their logits
  std::vector<float> masked = {};      // [vocab]; -inf for what is cut off
  std::vector<Weighed> border = {};    // of top_p
};

// logits: [vocab], processed; best: their first in order, finite.
int32_t Choose(std::span<const float> logits, Entry best, const step::SamplingParams& params,
               int64_t position, ChooseBuffers* buffers,
               NoisePurpose purpose = NoisePurpose::kTarget);

// The last token of the order that Choose may answer; all before it may come too. Greedy: best.
Entry LastChoice(std::span<const float> logits, Entry best, const step::SamplingParams& params,
                 ChooseBuffers* buffers);

}  // namespace thalweg::sampling
