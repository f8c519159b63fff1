// Random numbers of synthetic tensors: pure functions of (seed, tensor name, element), so that the
// bytes do not depend on shards, order or chunks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/rng.h"

namespace thalweg::checkpoint {

// 16 random bits per element of one tensor.
class ElementDraws {
 public:
  ElementDraws(uint64_t seed, std::string_view tensor_name);
  // The draws of elements first, first + 1, ...
  void Fill(uint64_t first, std::span<uint16_t> out) const;

 private:
  base::PhiloxKey key_;
  uint64_t name_hash_;
};

// Quantiles of a normal distribution with mean 0 and variance 1, cut at 3.7 standard deviations.
inline constexpr int kQuantiles = 4096;
const std::array<float, kQuantiles>& NormalQuantiles();
// The largest of them.
float LargestQuantile();

// The quantile that a draw picks.
inline size_t QuantileIndex(uint16_t draw) { return draw >> 4; }

}  // namespace thalweg::checkpoint
