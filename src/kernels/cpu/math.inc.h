// Exponential, sigmoid and softplus from additions, multiplications and divisions alone: the same
// bits on every target and every machine, where a libm would differ.
#pragma once

#include "kernels/cpu/shuffle.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// e^r for |r| <= ln2 / 2 by its Taylor polynomial of degree 7 (remainder 6e-9).
TW_INLINE F Taylor(F r) {
  F p = Set(1.0f / 5040.0f);
  p = p * r + Set(1.0f / 720.0f);
  p = p * r + Set(1.0f / 120.0f);
  p = p * r + Set(1.0f / 24.0f);
  p = p * r + Set(1.0f / 6.0f);
  p = p * r + Set(0.5f);
  p = p * r + Set(1.0f);
  return p * r + Set(1.0f);
}

// e^x with a relative error below 3e-7 (2.5 ulp); 0 below -87.3, infinity above 88.7, NaN stays.
// x = n ln2 + r with |r| <= ln2 / 2.
TW_INLINE F Exp(F x) {
  constexpr float kLow = -87.33f;
  constexpr float kHigh = 88.72f;
  constexpr float kRounder = 0x1.8p23f;  // adding it leaves the nearest integer in the low bits
  const F clamped = Min(Max(x, Set(kLow)), Set(kHigh));
  const F shifted = clamped * Set(0x1.715476p+0f) + Set(kRounder);
  const F n = shifted - Set(kRounder);
  const F r = (clamped - n * Set(0x1.62ep-1f)) - n * Set(0x1.0bfbe8p-15f);
  const F p = Taylor(r);
  // 2^n in two steps: n = 128 has no float of its own.
  const U half = (Bits(shifted) - SetU(0x4b400000u) + SetU(512u)) >> 1;  // (n + 512) / 2
  const U rest = Bits(shifted) - SetU(0x4b400000u) + SetU(512u) - half;
  F y = p * FromBits((half - SetU(256u - 127u)) << 23);
  y = y * FromBits((rest - SetU(256u - 127u)) << 23);
  y = IfLess(x, Set(kLow), Zero(), y);
  y = IfLess(Set(kHigh), x, Set(__builtin_inff()), y);
  return FromBits(IfLess(SetU(0x7f800000u), Bits(x) & SetU(0x7fffffffu), Bits(x), Bits(y)));
}

// e^x for x <= 0, by the same polynomial; 0 below -60, where nothing is left of a probability
// beside the one of the maximum, and products with it would leave the range of floats. NaN stays.
TW_INLINE F ExpOfNegative(F x) {
  constexpr float kRounder = 0x1.8p23f;
  const F shifted = x * Set(0x1.715476p+0f) + Set(kRounder);
  const F n = shifted - Set(kRounder);
  const F r = (x - n * Set(0x1.62ep-1f)) - n * Set(0x1.0bfbe8p-15f);
  const U power = (Bits(shifted) - SetU(0x4b400000u - 127u)) << 23;
  return IfLess(x, Set(-60.0f), Zero(), Taylor(r) * FromBits(power));
}

TW_INLINE F Sigmoid(F x) { return Set(1.0f) / (Set(1.0f) + Exp(Zero() - x)); }

TW_INLINE float Exp1(float x) { return Exp(Set(x)).part[0][0]; }
TW_INLINE float Sigmoid1(float x) { return Sigmoid(Set(x)).part[0][0]; }

// log(1 + e^z) = max(z, 0) + log1p(t) with t = e^-|z| in (0, 1], and log1p(t) = 2 atanh(t / (2 +
// t)) by its series (s <= 1/3: the remainder after s^17 is below 2e-10). Small results keep their
// relative precision (model.md, trap 10).
TW_INLINE F Softplus(F z) {
  const F t = Exp(Zero() - Abs(z));
  const F s = t / (Set(2.0f) + t);
  const F s2 = s * s;
  F p = Set(1.0f / 17.0f);
  p = p * s2 + Set(1.0f / 15.0f);
  p = p * s2 + Set(1.0f / 13.0f);
  p = p * s2 + Set(1.0f / 11.0f);
  p = p * s2 + Set(1.0f / 9.0f);
  p = p * s2 + Set(1.0f / 7.0f);
  p = p * s2 + Set(1.0f / 5.0f);
  p = p * s2 + Set(1.0f / 3.0f);
  p = p * s2 + Set(1.0f);
  return Max(Zero(), z) + (s + s) * p;
}

TW_INLINE F SquareRoot(F x) {
  float lane[kLanes];
  Store(lane, x);
  for (float& value : lane) value = __builtin_sqrtf(value);
  return Load(lane);
}

// rsqrt(sum / n + eps), as the norms want it.
TW_INLINE float InverseRms(float sum, int64_t n, float eps) {
  return 1.0f / __builtin_sqrtf(sum / static_cast<float>(n) + eps);
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
