// Weights as the A operand of matrix instructions. A unit is 16 rows by 64 columns: what one warp
// loads at once and turns into four fragments of K = 16. Units of fp4 and fp8 matrices are laid out
// by pack.cu so that 16 bytes of a thread are its own values:
//
// - kFp4 (544 bytes): 32 lanes of 16 bytes, one word a step; then 8 words, of lanes 4g to 4g + 3:
//   the scales of rows g (columns 0-31, 32-63) and g + 8.
// - kFp8 (1040 bytes): 32 lanes of 16 bytes for steps 0 and 1, the same for steps 2 and 3; then the
//   factors of columns 0-31 and 32-63 as pairs of bf16, a bit for each row that holds a NaN, and 4
//   bytes of nothing.
//
// Codes become tiny bf16 numbers by masks and shifts, then one product with a power of two makes
// them weight * 2^-32: exact for scales from 2^-92 to 2^32. The sums are multiplied by 2^32 in the
// end, which is exact too: the bits are those of products with the weights themselves.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/weights.h"

namespace thalweg::kernels::cuda {

inline constexpr int kUnitRows = 16, kUnitCols = 64, kUnitSteps = 4;
inline constexpr int kFp4UnitBytes = 544, kFp8UnitBytes = 1040;
// Scale code c is stored as c + offset: the bf16 exponent of 2^(c - 127) times what undoes the tiny
// numbers (2^126 for fp4, 2^120 for fp8) and 2^-32.
inline constexpr int kFp4ScaleOffset = 126 - 32, kFp8ScaleOffset = 120 - 32;
inline constexpr float kUnitsFactor = 0x1p32f;

// How a kernel's weights lie in shared memory.
enum class Operand {
  kUnits,   // units as packed
  kHalves,  // bf16 rows; stored fp4 and fp8 are dequantised on the way
  kFloats,  // fp32 rows, each multiplied as three bf16 numbers that add up to it
};

// 16 rows of one matrix.
struct Slab {
  const void* data = nullptr;  // kUnits: the first unit; otherwise the matrix
  const uint8_t* scales = nullptr;
  int64_t rows = 0, cols = 0, first = 0;  // of the matrix; the slab's first row
  WeightFormat format = WeightFormat::kBF16;
  bool aligned = false;  // rows can be copied in pieces of 16 bytes
};

__device__ inline Slab SlabOf(const Matrix& w, int64_t row16) {
  Slab slab{w.data, w.scales, w.rows, w.cols, row16 * kUnitRows, w.format, false};
  const int64_t width = w.format == WeightFormat::kF32 ? 4 : 2;
  slab.aligned = (w.format == WeightFormat::kF32 || w.format == WeightFormat::kBF16) &&
                 w.cols * width % 16 == 0 && reinterpret_cast<uintptr_t>(w.data) % 16 == 0;
  if (w.packed != nullptr) {
    const int64_t unit = w.format == WeightFormat::kFp4 ? kFp4UnitBytes : kFp8UnitBytes;
    const int64_t units = (w.cols + kUnitCols - 1) / kUnitCols;
    slab.data = static_cast<const char*>(w.packed) + row16 * units * unit;
  }
  return slab;
}

// A weight in its stored format, as a float.
__device__ inline float StoredWeight(const Slab& slab, int64_t row, int64_t col) {
  const int64_t at = row * slab.cols + col;
  switch (slab.format) {
    case WeightFormat::kBF16: return Wide(static_cast<const BF16*>(slab.data)[at]);
    case WeightFormat::kF32: return static_cast<const float*>(slab.data)[at];
    case WeightFormat::kFp8: {
      const uint8_t scale = slab.scales[row / 32 * (slab.cols / 32) + col / 32];
      return FromE4M3(static_cast<const uint8_t*>(slab.data)[at]) * FromE8M0(scale);
    }
    case WeightFormat::kFp4: {
      const uint8_t codes = static_cast<const uint8_t*>(slab.data)[at / 2];
      const uint8_t scale = slab.scales[row * (slab.cols / 32) + col / 32];
      return FromE2M1(col % 2 == 0 ? codes & 15u : codes >> 4u) * FromE8M0(scale);
    }
  }
  return 0;
}

template <Operand kOperand>
struct Units;

__device__ inline uint32_t ProductOfPairs(uint32_t a, uint32_t b) {
  uint32_t out;
  asm("mul.rn.bf16x2 %0, %1, %2;\n" : "=r"(out) : "r"(a), "r"(b));
  return out;
}
__device__ inline uint4 LoadShared128(uint32_t address) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "r"(address));
  return x;
}

// The eight fp4 codes of a word as four pairs; their bits are where one or two operations find
// them.
__device__ inline void PairsOfFp4(uint32_t w, uint32_t low, uint32_t high, uint32_t (&a)[4]) {
  constexpr uint32_t kPair = 0x81c081c0u;
  a[0] = ProductOfPairs(w & kPair, low);
  a[1] = ProductOfPairs((w << 3) & kPair, high);
  a[2] = ProductOfPairs((w << 6) & kPair, low);
  const uint32_t last =
      ((w << 1) & 0x80008000u) | ((w >> 5) & 0x01000100u) | ((w >> 4) & 0x00c000c0u);
  a[3] = ProductOfPairs(last, high);
}
// The same for four fp8 codes.
__device__ inline void PairsOfFp8(uint32_t w, uint32_t factor, uint32_t* a) {
  a[0] = ProductOfPairs(w & 0x87f087f0u, factor);
  a[1] = ProductOfPairs(((w << 4) & 0x80f080f0u) | ((w >> 4) & 0x07000700u), factor);
}

// Rows of a unit with a NaN among their weights (a bit each): whatever the inputs are, their sums
// are NaN when one of their values is. a: the fragment of any step. No branch, which would keep the
// compiler from mixing units.
__device__ inline void MarkNaN(uint32_t rows, int lane, uint32_t (&a)[4]) {
  constexpr uint32_t kTwoNaN = 0x7fc07fc0u;
  const uint32_t mine = 1u << (lane / 4);
  a[0] = (rows & mine) != 0 ? kTwoNaN : a[0];
  a[1] = (rows & mine << 8) != 0 ? kTwoNaN : a[1];
}

template <>
struct Units<Operand::kUnits> {
  static constexpr int kBytes = kFp8UnitBytes;
  static constexpr int kParts = 1;
  using Fragments = uint32_t[kUnitSteps][kParts][4];

  // Starts the copy of unit `unit` of a slab into shared memory, by one warp.
  __device__ static void Fetch(const Slab& slab, int64_t unit, uint32_t to, int lane) {
    const bool fp4 = slab.format == WeightFormat::kFp4;
    const char* from =
        static_cast<const char*>(slab.data) + unit * (fp4 ? kFp4UnitBytes : kFp8UnitBytes);
    CopyAsync16(to + lane * 16, from + lane * 16);
    if (!fp4) CopyAsync16(to + 512 + lane * 16, from + 512 + lane * 16);
    const int behind = fp4 ? 512 : 1024;
    if (lane < (fp4 ? 2 : 1)) CopyAsync16(to + behind + lane * 16, from + behind + lane * 16);
  }

  __device__ static void Unpack(const Slab& slab, uint32_t unit, int lane, Fragments& a) {
    const uint4 codes = LoadShared128(unit + lane * 16);
    if (slab.format == WeightFormat::kFp4) {
      uint32_t scales;
      asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(scales) : "r"(unit + 512 + lane / 4 * 4));
      const uint32_t low0 = __byte_perm(scales, 0, 0x4040) << 7;
      const uint32_t low1 = __byte_perm(scales, 0, 0x4141) << 7;
      const uint32_t high0 = __byte_perm(scales, 0, 0x4242) << 7;
      const uint32_t high1 = __byte_perm(scales, 0, 0x4343) << 7;
      PairsOfFp4(codes.x, low0, high0, a[0][0]);
      PairsOfFp4(codes.y, low0, high0, a[1][0]);
      PairsOfFp4(codes.z, low1, high1, a[2][0]);
      PairsOfFp4(codes.w, low1, high1, a[3][0]);
      return;
    }
    const uint4 more = LoadShared128(unit + 512 + lane * 16);
    const uint4 factors = LoadShared128(unit + 1024);
    PairsOfFp8(codes.x, factors.x, a[0][0]);
    PairsOfFp8(codes.y, factors.x, a[0][0] + 2);
    PairsOfFp8(codes.z, factors.x, a[1][0]);
    PairsOfFp8(codes.w, factors.x, a[1][0] + 2);
    PairsOfFp8(more.x, factors.y, a[2][0]);
    PairsOfFp8(more.y, factors.y, a[2][0] + 2);
    PairsOfFp8(more.z, factors.y, a[3][0]);
    PairsOfFp8(more.w, factors.y, a[3][0] + 2);
    MarkNaN(factors.z, lane, a[0][0]);
  }
};

// Calls store(row, column, value) for a lane's share of the values of a unit, zeros outside of the
// matrix: for weights that cannot be copied in pieces.
template <typename F>
__device__ inline void ForValues(const Slab& slab, int64_t unit, int lane, F store) {
  for (int i = lane; i < kUnitRows * kUnitCols; i += kWarp) {
    const int row = i / kUnitCols, col = i % kUnitCols;
    const int64_t r = slab.first + row, c = unit * kUnitCols + col;
    store(row, col, r < slab.rows && c < slab.cols ? StoredWeight(slab, r, c) : 0.0f);
  }
}

template <>
struct Units<Operand::kHalves> {
  static constexpr int kPitch = kUnitCols * 2 + 16;  // rows on different banks
  static constexpr int kBytes = kUnitRows * kPitch;
  static constexpr int kParts = 1;
  using Fragments = uint32_t[kUnitSteps][kParts][4];

  __device__ static void Fetch(const Slab& slab, int64_t unit, uint32_t to, int lane) {
    if (!slab.aligned) return FetchValues(slab, unit, to, lane);
#pragma unroll
    for (int i = lane; i < kUnitRows * 8; i += kWarp) {
      const int64_t row = slab.first + i / 8;
      const int64_t col = unit * kUnitCols + i % 8 * 8;
      const bool read = row < slab.rows && col < slab.cols;
      const BF16* from = static_cast<const BF16*>(slab.data) + (read ? row * slab.cols + col : 0);
      CopyAsync16(to + i / 8 * kPitch + i % 8 * 16, from, read);
    }
  }

  __device__ static void FetchValues(const Slab& slab, int64_t unit, uint32_t to, int lane) {
    ForValues(slab, unit, lane, [&](int row, int col, float value) {
      asm volatile("st.shared.u16 [%0], %1;\n" ::"r"(to + row * kPitch + col * 2),
                   "h"(Narrow(value).bits));
    });
  }

  __device__ static void Unpack(const Slab&, uint32_t unit, int lane, Fragments& a) {
    const uint32_t mine = unit + lane % 16 * kPitch + lane / 16 * 16;
#pragma unroll
    for (int s = 0; s < kUnitSteps; ++s) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                   : "=r"(a[s][0][0]), "=r"(a[s][0][1]), "=r"(a[s][0][2]), "=r"(a[s][0][3])
                   : "r"(mine + s * 32));
    }
  }
};

template <>
struct Units<Operand::kFloats> {
  static constexpr int kPitch = kUnitCols * 4 + 16;
  static constexpr int kBytes = kUnitRows * kPitch;
  static constexpr int kParts = 3;
  using Fragments = uint32_t[kUnitSteps][kParts][4];

  __device__ static void Fetch(const Slab& slab, int64_t unit, uint32_t to, int lane) {
    if (!slab.aligned) return FetchValues(slab, unit, to, lane);
#pragma unroll
    for (int i = lane; i < kUnitRows * 16; i += kWarp) {
      const int64_t row = slab.first + i / 16;
      const int64_t col = unit * kUnitCols + i % 16 * 4;
      const bool read = row < slab.rows && col < slab.cols;
      const float* from = static_cast<const float*>(slab.data) + (read ? row * slab.cols + col : 0);
      CopyAsync16(to + i / 16 * kPitch + i % 16 * 16, from, read);
    }
  }

  __device__ static void FetchValues(const Slab& slab, int64_t unit, uint32_t to, int lane) {
    ForValues(slab, unit, lane, [&](int row, int col, float value) {
      asm volatile("st.shared.f32 [%0], %1;\n" ::"r"(to + row * kPitch + col * 4), "f"(value));
    });
  }

  // Two floats as three pairs of bf16, the first eight bits of each first.
  __device__ static void Split(float2 x, uint32_t (&a)[4][3], int at) {
#pragma unroll
    for (int part = 0; part < 3; ++part) {
      const uint32_t low = __float_as_uint(x.x) & 0xffff0000u;
      const uint32_t high = __float_as_uint(x.y) & 0xffff0000u;
      a[at][part] = low >> 16 | high;
      x.x -= __uint_as_float(low);
      x.y -= __uint_as_float(high);
    }
  }

  __device__ static void Unpack(const Slab&, uint32_t unit, int lane, Fragments& a) {
    const uint32_t mine = unit + lane / 4 * kPitch + lane % 4 * 8;
#pragma unroll
    for (int s = 0; s < kUnitSteps; ++s) {
      uint32_t split[4][3];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float2 x;
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];\n"
                     : "=f"(x.x), "=f"(x.y)
                     : "r"(mine + i % 2 * 8 * kPitch + s * 64 + i / 2 * 32));
        Split(x, split, i);
      }
#pragma unroll
      for (int part = 0; part < 3; ++part) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[s][part][i] = split[i][part];
      }
    }
  }
};

}  // namespace thalweg::kernels::cuda
