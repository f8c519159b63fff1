// The draw itself: temperature, min-p, top-k, top-p, Gumbel-max (docs/sampling.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/best_first.h"
#include "step/sampling_params.h"

namespace thalweg::sampling {

// A candidate of the bucket in which top-p ends.
struct Weighed {
  Entry entry = {};
  uint64_t mass = 0;
};

struct ChooseBuffers {
  std::vector<Entry> candidates = {};
  std::vector<uint64_t> masses = {};
  std::vector<Weighed> border = {};
};

// logits: [vocab], processed; best: their first in order, finite.
int32_t Choose(std::span<const float> logits, Entry best, const step::SamplingParams& params,
               int64_t position, ChooseBuffers* buffers);

// Leaves the candidates that min_p, top_k and top_p keep, in no order.
void Truncate(std::span<const float> logits, Entry best, const step::SamplingParams& params,
              ChooseBuffers* buffers);

}  // namespace thalweg::sampling
