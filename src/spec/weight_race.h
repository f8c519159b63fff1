// A draw from weights by the noise of each token, without the logarithms of most of them.
#pragma once

#include <cstdint>
#include <span>

#include "sampling/noise.h"

namespace thalweg::spec {

// The token with the highest log(weight) + Gumbel noise, the lowest id among equals: each with
// probability weight / sum. weights: [vocab], finite, 0 or less for what cannot be drawn; at least
// one above.
int32_t DrawByWeight(std::span<const float> weights, uint64_t seed, int64_t position,
                     sampling::NoisePurpose purpose);

}  // namespace thalweg::spec
