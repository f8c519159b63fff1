// What is done to single rows: widening, quantising, norms, rotation.
#pragma once

#include "kernels/cpu/math.inc.h"
#include "kernels/cpu/product.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

TW_INLINE float* ScratchFloats(Slot slot, int64_t count) {
  return static_cast<float*>(Scratch(slot, count * 4));
}

// out[0..PaddedWidth(n)) = float(x), zeros behind n.
TW_INLINE void WidenRow(const BF16* x, int64_t n, float* out) {
  const int64_t padded = PaddedWidth(n);
  for (int64_t c = 0; c < padded; c += kLanes) {
    Store(out + c, c < n ? LoadFirst(x + c, n - c) : Zero());
  }
}

// Rows [rows, width] of bf16, `stride` apart, as padded floats, and their addresses.
struct WideRows {
  const float* const* row;  // [rows]
};

WideRows Widen(const Stream& stream, const BF16* x, int64_t rows, int64_t width, int64_t stride) {
  constexpr int64_t kValuesWorthAThread = 1 << 17;
  const int64_t padded = PaddedWidth(width);
  float* values = ScratchFloats(Slot::kInput, rows * padded);
  auto** row = static_cast<const float**>(
      Scratch(Slot::kRowPointers, rows * static_cast<int64_t>(sizeof(float*))));
  stream.team->ParallelFor(rows, Most(1, kValuesWorthAThread / padded),
                           [&](int64_t begin, int64_t end) {
                             for (int64_t r = begin; r < end; ++r) {
                               WidenRow(x + r * stride, width, values + r * padded);
                               row[r] = values + r * padded;
                             }
                           });
  return {row};
}

// --- The FP8 activation quantiser (model.md 5.2) on a group of 32 bf16 values held as floats. ---

TW_INLINE float GroupMaximum(F a, F b) { return MaxLanes(Max(Abs(a), Abs(b))); }

// The code of the group's scale: the smallest power of two that brings the maximum to 448 or less.
TW_INLINE uint8_t Fp8ScaleCode(F a, F b) {
  const float maximum = GroupMaximum(a, b);
  const float scaled = (maximum > 1e-4f ? maximum : 1e-4f) * (1.0f / 448.0f);
  const auto bits = __builtin_bit_cast(uint32_t, scaled);
  return static_cast<uint8_t>((bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1u : 0u));
}

// 1 / scale, exact: codes of groups run from 104 (the least maximum) to 247.
TW_INLINE float InverseScaleOf(uint8_t code) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(254 - code) << 23);
}

// |x| / scale on the grid of e4m3, to nearest even, at most 448; NaN stays.
TW_INLINE F OnE4M3Grid(F magnitude) {
  const F denormal = (magnitude + Set(0x1.8p14f)) - Set(0x1.8p14f);
  const U bits = Bits(magnitude);
  const U rounded = (bits + SetU(0x7ffffu) + ((bits >> 20) & SetU(1))) & SetU(0xfff00000u);
  const F grid = IfLess(magnitude, Set(0x1p-6f), denormal, FromBits(rounded));
  return IfLess(Set(448.0f), grid, Set(448.0f), grid);
}

// What a reader of the quantised group sees; values are exact in bf16.
TW_INLINE void QuantiseFp8Group(F* a, F* b) {
  const uint8_t code = Fp8ScaleCode(*a, *b);
  const F scale = Set(ScaleOf(code)), inverse = Set(InverseScaleOf(code));
  for (F* x : {a, b}) {
    const U sign = Bits(*x) & SetU(0x80000000u);
    const F grid = OnE4M3Grid(Abs(*x) * inverse);
    *x = FromBits(Bits(grid * scale) | sign);
  }
}

// The e4m3 codes of a value on the grid.
TW_INLINE U E4M3Codes(F grid, U sign) {
  const U normal = (Bits(grid) >> 20) - SetU(120u << 3);
  const U denormal = ToInteger(grid * Set(0x1p9f));
  const U code = IfLess(Bits(grid), SetU(0x3c800000u), denormal, normal);  // below 2^-6
  // Anything else than a finite number has the NaN code.
  return IfLess(SetU(0x7f800000u - 1), Bits(grid), SetU(0x7fu), code) | (sign >> 24);
}

TW_INLINE void EncodeFp8Group(F a, F b, uint8_t* codes, uint8_t* scale_code) {
  *scale_code = Fp8ScaleCode(a, b);
  const F inverse = Set(InverseScaleOf(*scale_code));
  int64_t at = 0;
  for (const F& x : {a, b}) {
    const F grid = OnE4M3Grid(Abs(x) * inverse);
    StoreBytes(codes + at, E4M3Codes(grid, Bits(x) & SetU(0x80000000u)));
    at += kLanes;
  }
}

// tensor::RoundTripRow, fast for activations.
void RoundTrip(RowFormat format, const BF16* x, int64_t width, BF16* out) {
  if (format != RowFormat::kFp8E8M0) return tensor::RoundTripRow(format, x, width, out);
  for (int64_t c = 0; c < width; c += kGroup) {
    F a = LoadBF16(x + c);
    F b = LoadBF16(x + c + kLanes);
    QuantiseFp8Group(&a, &b);
    StoreBF16(out + c, a);
    StoreBF16(out + c + kLanes, b);
  }
}

// tensor::EncodeRow, fast for window rows.
void Encode(RowFormat format, const BF16* x, int64_t width, uint8_t* out) {
  if (format != RowFormat::kFp8E8M0) return tensor::EncodeRow(format, x, width, out);
  for (int64_t c = 0; c < width; c += kGroup) {
    EncodeFp8Group(LoadBF16(x + c), LoadBF16(x + c + kLanes), out + c, out + width + c / kGroup);
  }
}

// --- Norm and rotation. ---

// sum_i x[i]^2 over the sixteen lanes of four sums, which hide the additions' latency: sum j takes
// the sixteens i with i % 4 = j.
TW_INLINE float SumOfSquares(const BF16* x, int64_t n) {
  F sum[4] = {Zero(), Zero(), Zero(), Zero()};
  int64_t c = 0;
  for (; c + 4 * kLanes <= n; c += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      const F value = LoadBF16(x + c + j * kLanes);
      sum[j] = sum[j] + value * value;
    }
  }
  for (int j = 0; c < n; c += kLanes, ++j) {
    const F value = LoadFirst(x + c, n - c);
    sum[j] = sum[j] + value * value;
  }
  return SumLanes((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// RMSNorm_w(x) = bf16(w * (x * rsqrt(mean(x^2) + eps))) (model.md 2).
void RmsNorm(const BF16* x, const BF16* weight, int64_t n, float eps, BF16* out) {
  const F inverse = Set(InverseRms(SumOfSquares(x, n), n, eps));
  for (int64_t c = 0; c < n; c += kLanes) {
    const F value = LoadFirst(weight + c, n - c) * (LoadFirst(x + c, n - c) * inverse);
    StoreFirst(out + c, value, n - c);
  }
}

// The angles of one row spread over pairs: cosines, and sines with the sign of their side.
struct Angles {
  const float* cos;  // [rope_dim]: c0 c0 c1 c1 ...
  const float* sin;  // [rope_dim]: -s0 s0 -s1 s1 ...
  int64_t rope_dim;
};

Angles SpreadAngles(const Rotation& rotation, int64_t row, bool inverse, float* buffer) {
  const int64_t half = rotation.rope_dim / 2;
  const float* cos = rotation.cos + row * half;
  const float* sin = rotation.sin + row * half;
  for (int64_t p = 0; p < half; ++p) {
    const float s = inverse ? -sin[p] : sin[p];
    buffer[2 * p] = buffer[2 * p + 1] = cos[p];
    buffer[rotation.rope_dim + 2 * p] = -s;
    buffer[rotation.rope_dim + 2 * p + 1] = s;
  }
  return {buffer, buffer + rotation.rope_dim, rotation.rope_dim};
}

// Rotates the last rope_dim values in place, adjacent pairs as complex numbers, rounded once
// (model.md 2.4, trap 20).
TW_INLINE void Rotate(BF16* x, int64_t width, const Angles& angles) {
  BF16* tail = x + width - angles.rope_dim;
  for (int64_t c = 0; c < angles.rope_dim; c += kLanes) {
    const int64_t n = angles.rope_dim - c;
    const F value = LoadFirst(tail + c, n);
    const F turned =
        value * LoadFirst(angles.cos + c, n) + SwapPairs(value) * LoadFirst(angles.sin + c, n);
    StoreFirst(tail + c, turned, n);
  }
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
