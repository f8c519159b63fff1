#include "sampling/noise.h"

#include "sampling/elementary.h"

namespace thalweg::sampling {

double GumbelOf(uint32_t word) { return -Log(-Log(base::OpenUnit(word))); }

double GumbelNoise(uint64_t seed, int64_t position, NoisePurpose purpose, int32_t token) {
  return GumbelOf(NoiseWords(seed, position, purpose, token / 4)[static_cast<size_t>(token) % 4]);
}

}  // namespace thalweg::sampling
