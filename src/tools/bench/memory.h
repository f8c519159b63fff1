// Memory of one bench, filled with values that keep arithmetic sane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "tensor/buffer.h"
#include "tensor/formats.h"
#include "tensor/large_buffer.h"
#include "tensor/memory.h"

namespace thalweg::tools::bench {

using tensor::BF16;

// Fills with random bytes, the same in every run, that repeat after a megabyte.
void FillRandom(uint8_t* out, int64_t bytes, uint64_t seed);

// Arrays that live and die together: on the host in huge pages as weights and caches of a model
// are, or in the memory of a device.
class Memory {
 public:
  Memory() : Memory(tensor::HostMemory(), {}) {}
  Memory(const tensor::Memory& where, tensor::Stream stream) : where_(where), stream_(stream) {}

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
  BF16* Ones(int64_t count);
  // A copy of bytes that lie in the same memory.
  uint8_t* CopyOf(const void* from, int64_t bytes);

  const tensor::Memory& where() const { return where_; }

 private:
  std::byte* TakeBytes(int64_t bytes);
  template <typename T, typename Make>
  T* Repeated(int64_t count, Make make);

  const tensor::Memory& where_;
  tensor::Stream stream_;
  std::deque<tensor::LargeBuffer> chunks_;  // of the host
  std::deque<tensor::Buffer> device_chunks_;
  std::byte* chunk_ = nullptr;  // the newest
  int64_t chunk_bytes_ = 0;
  int64_t used_ = 0;  // of it
};

}  // namespace thalweg::tools::bench
