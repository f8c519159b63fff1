// Random numbers as pure functions of seed, position, purpose and token id
// (spec/decoding.md 4.1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/rng.h"

namespace thalweg::sampling {

// What a random number is for: disjoint noise streams.
enum class NoisePurpose : uint32_t { kTarget = 0, kDraft = 1, kCoin = 2, kResidual = 3 };

// One random word for each of four tokens: ids 4 * block to 4 * block + 3.
inline base::PhiloxCounter NoiseWords(uint64_t seed, int64_t position, NoisePurpose purpose,
                                      int32_t block) {
  const auto at = static_cast<uint64_t>(position);
  return base::Philox4x32({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32),
                           static_cast<uint32_t>(block), static_cast<uint32_t>(purpose)},
                          base::PhiloxKeyOf(seed));
}

// Those of many tokens: words[i] is that of token 4 * block + i. words.size() is a multiple of 4.
inline void NoiseWords(uint64_t seed, int64_t position, NoisePurpose purpose, int32_t block,
                       std::span<uint32_t> words) {
  const auto at = static_cast<uint64_t>(position);
  base::Philox4x32Series({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32),
                          static_cast<uint32_t>(block), static_cast<uint32_t>(purpose)},
                         base::PhiloxKeyOf(seed), words);
}

// -log(-log(u)) with u the middle of the word's cell of (0, 1). The bits are the same on every
// machine.
double GumbelOf(uint32_t word);

// Gumbel noise of one token at one position.
double GumbelNoise(uint64_t seed, int64_t position, NoisePurpose purpose, int32_t token);

}  // namespace thalweg::sampling
