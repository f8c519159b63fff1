// Memory of one bench, filled with values that keep arithmetic sane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "tensor/formats.h"
#include "tensor/large_buffer.h"

namespace thalweg::tools::bench {

using tensor::BF16;

// Fills with random bytes, the same in every run, that repeat after a megabyte.
void FillRandom(uint8_t* out, int64_t bytes, uint64_t seed);

// Arrays that live and die together, in huge pages as weights and caches of a model are.
class Memory {
 public:
  // Zeroed, aligned to a cache line.
  template <typename T>
  T* Take(int64_t count) {
    return reinterpret_cast<T*>(TakeBytes(count * static_cast<int64_t>(sizeof(T))));
  }
  // Values of either sign, between 2^-7 and 2^-5 in magnitude.
  BF16* SmallBF16(int64_t count);
  // Activations: uniform in (-1, 1); a few thousand distinct rows at most, then again.
  BF16* ActivationBF16(int64_t count);
  // Uniform in [low, high).
  float* Uniform(int64_t count, float low, float high);

 private:
  std::byte* TakeBytes(int64_t bytes);

  std::deque<tensor::LargeBuffer> chunks_;
  int64_t used_ = 0;  // of the last chunk
};

}  // namespace thalweg::tools::bench
