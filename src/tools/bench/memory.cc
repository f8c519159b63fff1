#include "tools/bench/memory.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "base/rng.h"
#include "tensor/buffer.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kChunkBytes = int64_t{64} << 20;  // untouched pages cost nothing
constexpr int64_t kDeviceChunkBytes = int64_t{1} << 30;
constexpr int64_t kPatternBytes = int64_t{1} << 20;
constexpr int64_t kDistinctValues = int64_t{1} << 16;

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
  for (int64_t at = made; at < bytes; at += made)
    std::memcpy(out + at, out, static_cast<size_t>(std::min(made, bytes - at)));
}

std::byte* Memory::TakeBytes(int64_t bytes) {
  const int64_t rounded = base::RoundUp(bytes, tensor::kAlignBytes);
  if (used_ + rounded > chunk_bytes_) {
    chunk_bytes_ = std::max(rounded, where_.host ? kChunkBytes : kDeviceChunkBytes);
    used_ = 0;
    if (where_.host) {
      Result<tensor::LargeBuffer> chunk = tensor::LargeBuffer::Allocate(chunk_bytes_);
      TW_CHECK(chunk.ok());  // callers ask for no more than is free
      chunks_.push_back(std::move(chunk).value());
      chunk_ = chunks_.back().data();
    } else {
      chunk_ = device_chunks_.emplace_back(chunk_bytes_, where_).data();
    }
  }
  used_ += rounded;
  return chunk_ + used_ - rounded;
}

// Some values that make(i) gives, again and again.
template <typename T, typename Make>
T* Memory::Repeated(int64_t count, Make make) {
  T* out = Take<T>(count);
  int64_t made = std::min(count, kDistinctValues);
  std::vector<T> values;
  for (int64_t i = 0; i < made; ++i) values.push_back(make(i));
  where_.upload(stream_, out, values.data(), made * static_cast<int64_t>(sizeof(T)));
  for (; made < count; made += std::min(made, count - made)) {
    where_.copy(stream_, out + made, out,
                std::min(made, count - made) * static_cast<int64_t>(sizeof(T)));
  }
  return out;
}

BF16* Memory::SmallBF16(int64_t count) {
  return Repeated<BF16>(count, [](int64_t i) {
    return BF16{static_cast<uint16_t>((Word(i, 11) & 0x80ffu) | 0x3c00u)};
  });
}

BF16* Memory::ActivationBF16(int64_t count) {
  return Repeated<BF16>(count, [](int64_t i) {
    return tensor::ToBF16(static_cast<float>(2 * base::OpenUnit(Word(i, 12)) - 1));
  });
}

float* Memory::Uniform(int64_t count, float low, float high) {
  return Repeated<float>(count, [&](int64_t i) {
    return low + (high - low) * static_cast<float>(base::OpenUnit(Word(i, 13)));
  });
}

BF16* Memory::Ones(int64_t count) {
  return Repeated<BF16>(count, [](int64_t) { return tensor::ToBF16(1.0f); });
}

uint8_t* Memory::CopyOf(const void* from, int64_t bytes) {
  auto* out = Take<uint8_t>(bytes);
  where_.copy(stream_, out, from, bytes);
  return out;
}

}  // namespace thalweg::tools::bench
