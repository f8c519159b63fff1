// The number formats of the released checkpoint and caches (spec/model.md 3.3, 5.2, 5.3), one value
// at a time: bf16, e4m3, e2m1 and e8m0. Every dequantised value of these formats is exact in bf16.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/dtype.h"

namespace thalweg::tensor {

// A stored bf16 number.
struct BF16 {
  uint16_t bits = 0;
};

inline float ToFloat(BF16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

// Round to nearest even; NaN stays a quiet NaN.
inline BF16 ToBF16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

// bf16(x) as a float.
inline float RoundBF16(float x) { return ToFloat(ToBF16(x)); }

// E8M0: 2^(code-127); code 0 is 2^-127 (a float denormal), code 255 is NaN.
inline float E8M0ToFloat(uint8_t code) {
  if (code == 0) return 0x1p-127f;
  if (code == 255) return std::bit_cast<float>(0x7fc00000u);
  return std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

// The code of the smallest power of two >= x, for a positive normal float: taken from the bits,
// never from log2.
inline uint8_t E8M0CeilCode(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint8_t>((bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1u : 0u));
}

// E4M3 (finite only: 0x7f and 0xff are NaN, the largest value is 448).
inline float E4M3ToFloat(uint8_t code) {
  const uint32_t exponent = (code >> 3) & 15u;
  const uint32_t mantissa = code & 7u;
  float magnitude = 0;
  if (exponent == 15 && mantissa == 7) {
    magnitude = std::bit_cast<float>(0x7fc00000u);
  } else if (exponent == 0) {
    magnitude = static_cast<float>(mantissa) * 0x1p-9f;
  } else {
    magnitude = std::bit_cast<float>(((exponent + 120u) << 23) | (mantissa << 20));
  }
  return (code & 0x80u) != 0 ? -magnitude : magnitude;
}

// Round to nearest even, saturating at +-448; NaN gives the NaN code.
uint8_t FloatToE4M3(float x);

inline constexpr float kE2M1Values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                          -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

inline float E2M1ToFloat(uint8_t code) { return kE2M1Values[code & 15u]; }

// Round to nearest, ties to the even code, clamped to +-6 (spec/model.md 5.3). Keeps the sign of
// zero.
uint8_t FloatToE2M1(float x);

// The DType of a C++ element type.
template <typename T>
inline constexpr DType kDTypeOf = DType::kU8;
template <>
inline constexpr DType kDTypeOf<float> = DType::kF32;
template <>
inline constexpr DType kDTypeOf<BF16> = DType::kBF16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kI32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kI64;

}  // namespace thalweg::tensor
