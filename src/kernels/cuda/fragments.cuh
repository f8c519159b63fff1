// Encoded values as pairs of bf16, and the fragments of the matrix instruction m16n8k16.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kUnit = 16;  // values that a thread decodes at a time

// kBytes bytes from anywhere, as words.
template <int kBytes>
__device__ void LoadWords(const uint8_t* from, uint32_t (&words)[kBytes / 4]) {
  if (kBytes == 4 && reinterpret_cast<uintptr_t>(from) % 4 == 0) {
    words[0] = *reinterpret_cast<const uint32_t*>(from);
    return;
  }
  if (kBytes % 8 == 0 && reinterpret_cast<uintptr_t>(from) % 8 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 8; ++i) {
      const uint2 two = reinterpret_cast<const uint2*>(from)[i];
      words[2 * i] = two.x;
      words[2 * i + 1] = two.y;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kBytes / 4; ++i) {
    const uint8_t* b = from + 4 * i;
    words[i] = b[0] | b[1] << 8 | b[2] << 16 | static_cast<uint32_t>(b[3]) << 24;
  }
}

__device__ inline uint32_t PackPair(float low, float high) {
  const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&two);
}

__device__ inline uint32_t MultiplyPairs(uint32_t a, uint32_t b) {
  const __nv_bfloat162 x = *reinterpret_cast<const __nv_bfloat162*>(&a);
  const __nv_bfloat162 y = *reinterpret_cast<const __nv_bfloat162*>(&b);
  const __nv_bfloat162 product = __hmul2(x, y);
  return *reinterpret_cast<const uint32_t*>(&product);
}

// Sixteen values of e4m3 with one scale, as pairs of bf16 (exact): a code's bits are the exponent
// and the mantissa of a tiny bf16. No conversion instruction, which are few a cycle. NaN codes,
// which no quantiser makes of numbers, become 480.
__device__ inline void DecodeFp8(const uint8_t* codes, float scale, uint32_t (&out)[kUnit / 2]) {
  constexpr uint32_t kTwice120 = 0x7b807b80u;  // 2^120, 2^120
  const uint32_t scales = PackPair(scale, scale);
  uint32_t words[4];
  LoadWords<16>(codes, words);
#pragma unroll
  for (int i = 0; i < kUnit / 2; ++i) {
    const uint32_t two = __byte_perm(words[i / 2], 0, i % 2 == 0 ? 0x4140 : 0x4342);
    const uint32_t tiny = (two << 4 & 0x07f007f0u) | (two << 8 & 0x80008000u);
    out[i] = MultiplyPairs(MultiplyPairs(tiny, kTwice120), scales);
  }
}

// The two codes of a byte as tiny numbers: their bits are the exponent and the top of the mantissa.
__device__ inline uint32_t TinyPair(uint32_t byte) {
  return (byte & 7u) << 6 | (byte & 8u) << 12 | (byte & 0x70u) << 18 | (byte & 0x80u) << 24;
}
inline constexpr uint32_t kTwice126 = 0x7e807e80u;  // 2^126, 2^126

// The same of e2m1; every product is exact.
__device__ inline void DecodeFp4(const uint8_t* codes, float scale, uint32_t (&out)[kUnit / 2]) {
  const uint32_t scales = PackPair(scale, scale);
  uint32_t words[2];
  LoadWords<8>(codes, words);
#pragma unroll
  for (int i = 0; i < kUnit / 2; ++i) {
    const uint32_t byte = words[i / 4] >> 8 * (i % 4);
    out[i] = MultiplyPairs(MultiplyPairs(TinyPair(byte), kTwice126), scales);
  }
}

// Eight values of e2m1 in a word, likewise.
__device__ inline uint4 DecodeWord(uint32_t word, float scale) {
  const uint32_t scales = PackPair(scale, scale);
  uint32_t out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[i] = MultiplyPairs(MultiplyPairs(TinyPair(word >> 8 * i), kTwice126), scales);
  }
  return {out[0], out[1], out[2], out[3]};
}

__device__ inline void MultiplyStep(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                    uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four 8x8 tiles; each lane has the address of one row of one tile, lanes 0 to 7 of the first.
__device__ inline void LoadTiles(const BF16* row, uint32_t (&tiles)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
               : "r"(SharedAddress(row)));
}

// The same, transposed.
__device__ inline void LoadTransposed(const BF16* row, uint32_t (&tiles)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(tiles[0]), "=r"(tiles[1]), "=r"(tiles[2]), "=r"(tiles[3])
               : "r"(SharedAddress(row)));
}

}  // namespace thalweg::kernels::cuda
