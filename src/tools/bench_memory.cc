#include "tools/bench_memory.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"
#include "tensor/buffer.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kChunkBytes = int64_t{64} << 20;  // untouched pages cost nothing
constexpr int64_t kPatternBytes = int64_t{1} << 20;
constexpr int64_t kDistinctValues = int64_t{1} << 16;

// Copies the first `made` of `count` values over the rest.
template <typename T>
void Repeat(T* values, int64_t made, int64_t count) {
  for (int64_t at = made; at < count; at += made) {
    std::copy_n(values, std::min(made, count - at), values + at);
  }
}

uint32_t Word(int64_t i, uint64_t seed) {
  return base::Philox4x32({static_cast<uint32_t>(i), 0, 0, 0}, base::PhiloxKeyOf(seed))[0];
}

}  // namespace

void FillRandom(uint8_t* out, int64_t bytes, uint64_t seed) {
  const int64_t made = std::min(bytes, kPatternBytes);
  for (int64_t at = 0; at < made; at += 16) {
    const base::PhiloxCounter words =
        base::Philox4x32({static_cast<uint32_t>(at), 0, 0, 0}, base::PhiloxKeyOf(seed));
    std::memcpy(out + at, words.data(), static_cast<size_t>(std::min<int64_t>(16, made - at)));
  }
  Repeat(out, made, bytes);
}

std::byte* Memory::TakeBytes(int64_t bytes) {
  const int64_t rounded = base::RoundUp(bytes, tensor::kAlignBytes);
  if (chunks_.empty() || used_ + rounded > chunks_.back().bytes()) {
    Result<tensor::LargeBuffer> chunk =
        tensor::LargeBuffer::Allocate(std::max(rounded, kChunkBytes));
    TW_CHECK(chunk.ok());  // callers ask for no more than is free
    chunks_.push_back(std::move(chunk).value());
    used_ = 0;
  }
  used_ += rounded;
  return chunks_.back().data() + used_ - rounded;
}

BF16* Memory::SmallBF16(int64_t count) {
  auto* out = Take<BF16>(count);
  const int64_t made = std::min(count, kDistinctValues);
  for (int64_t i = 0; i < made; ++i) {
    const uint32_t word = Word(i, 11);
    out[i] = {static_cast<uint16_t>((word & 0x80ffu) | 0x3c00u)};
  }
  Repeat(out, made, count);
  return out;
}

BF16* Memory::ActivationBF16(int64_t count) {
  auto* out = Take<BF16>(count);
  const int64_t made = std::min(count, kDistinctValues);
  for (int64_t i = 0; i < made; ++i) {
    out[i] = tensor::ToBF16(static_cast<float>(2 * base::OpenUnit(Word(i, 12)) - 1));
  }
  Repeat(out, made, count);
  return out;
}

float* Memory::Uniform(int64_t count, float low, float high) {
  auto* out = Take<float>(count);
  const int64_t made = std::min(count, kDistinctValues);
  for (int64_t i = 0; i < made; ++i) {
    out[i] = low + (high - low) * static_cast<float>(base::OpenUnit(Word(i, 13)));
  }
  Repeat(out, made, count);
  return out;
}

}  // namespace thalweg::tools::bench
