// Rotation frequencies and angles (spec/model.md 2.4).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "checkpoint/config.h"
#include "kernels/ops.h"

namespace thalweg::model {

// Frequencies of the two kinds of layer, [rope_dim / 2] each.
struct RopeFrequencies {
  std::vector<float> plain;       // ratio 0: rope_theta, no scaling
  std::vector<float> compressed;  // ratio 1 and 2: compress_rope_theta with YaRN
};

RopeFrequencies MakeRopeFrequencies(const checkpoint::Config& config);

// cos and sin of position * frequency, in fp32, for a list of positions. Those of the first
// kKnownPositions are computed once: sequences that decode together ask for the same again and
// again.
class Angles {
 public:
  static constexpr int64_t kKnownPositions = int64_t{1} << 16;

  void Set(std::span<const int64_t> positions, const std::vector<float>& frequencies);
  kernels::Rotation rotation() const { return {cos_.data(), sin_.data(), rope_dim_}; }

 private:
  void Learn(int64_t position, const std::vector<float>& frequencies);

  int64_t rope_dim_ = 0;
  std::vector<float> cos_;  // [positions, rope_dim / 2]
  std::vector<float> sin_;
  std::vector<float> frequencies_;  // that the following are for
  std::vector<uint8_t> known_;      // [positions known so far]
  std::vector<float> known_cos_, known_sin_;
};

}  // namespace thalweg::model
