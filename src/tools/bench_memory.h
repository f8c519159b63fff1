// Memory of one bench, filled with values that keep arithmetic sane, and how much there is.
#pragma once

#include <cstdint>
#include <deque>

#include "tensor/buffer.h"
#include "tensor/formats.h"

namespace thalweg::tools::bench {

using tensor::BF16;

// Bytes that a process may still take without swapping; 0 when the system does not say.
int64_t AvailableMemoryBytes();

// Fills with random bytes, the same in every run, that repeat after a megabyte.
void FillRandom(uint8_t* out, int64_t bytes, uint64_t seed);

// Buffers that live and die together.
class Memory {
 public:
  // Zeroed.
  template <typename T>
  T* Take(int64_t count) {
    return buffers_.emplace_back(count * static_cast<int64_t>(sizeof(T))).template as<T>();
  }
  // Values of either sign, between 2^-7 and 2^-5 in magnitude.
  BF16* SmallBF16(int64_t count);
  // Activations: uniform in (-1, 1); a few thousand distinct rows at most, then again.
  BF16* ActivationBF16(int64_t count);
  // Uniform in [low, high).
  float* Uniform(int64_t count, float low, float high);

 private:
  std::deque<tensor::Buffer> buffers_;
};

}  // namespace thalweg::tools::bench
