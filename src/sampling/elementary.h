// exp and log of IEEE additions, multiplications and divisions alone: the bits are the same on
// every machine and with every C library, so a seed gives the same token everywhere. Loops
// over them vectorise.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace thalweg::sampling {

inline constexpr double kLn2High = 0x1.62e42fefa0000p-1;  // 2^-11 of its bits are zero: n * high
inline constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;  // is exact for every exponent n

// Where e^x stops to matter to anything that is weighed here.
inline constexpr double kLeastExponent = -700;

// e^x for x in [kLeastExponent, 0], with a relative error below 1e-11.
inline double ExpOfNegative(double x) {
  constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer, held in the low bits
  const double shifted = x * 0x1.71547652b82fep0 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  const double r2 = r * r;
  const double r4 = r2 * r2;
  // Taylor to degree 9, in pairs.
  const double p01 = 1.0 + r;
  const double p23 = 1.0 / 2 + r * (1.0 / 6);
  const double p45 = 1.0 / 24 + r * (1.0 / 120);
  const double p67 = 1.0 / 720 + r * (1.0 / 5040);
  const double p89 = 1.0 / 40320 + r * (1.0 / 362880);
  const double sum = (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * p89);
  const uint64_t scale = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
  return sum * std::bit_cast<double>(scale);
}

// The same in single precision, for x in [kLeastSingleExponent, 0], with a relative error below
// 2e-7.
inline constexpr float kLeastSingleExponent = -80;
inline float ExpOfNegativeSingle(float x) {
  constexpr float kRound = 0x1.8p23f;
  const float shifted = x * 0x1.715476p0f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  const float r2 = r * r;
  const float p01 = 1.0f + r;
  const float p23 = 1.0f / 2 + r * (1.0f / 6);
  const float p45 = 1.0f / 24 + r * (1.0f / 120);
  const float sum = p01 + r2 * (p23 + r2 * (p45 + r2 * (1.0f / 720)));
  const uint32_t scale = (std::bit_cast<uint32_t>(shifted) + 127) << 23;
  return sum * std::bit_cast<float>(scale);
}

// log(x) for normal x > 0, to about a unit in the last place: the exponent, and 2 atanh((m - 1) /
// (m + 1)) of a mantissa m in [sqrt(1/2), sqrt(2)).
inline double Log(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint64_t above = (bits & 0xfffffffffffffu) > 0x6a09e667f3bcdu ? 1 : 0;  // m > sqrt(2)
  const auto exponent = static_cast<int64_t>((bits >> 52) + above) - 1023;
  const double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | ((1023 - above) << 52));
  const double s = (m - 1) / (m + 1);
  const double z = s * s;  // <= 0.0295
  double series = 1.0 / 23;
  for (const double odd : {21, 19, 17, 15, 13, 11, 9, 7, 5, 3}) series = series * z + 1 / odd;
  const auto e = static_cast<double>(exponent);
  return e * kLn2High + (2 * s + (2 * s * z * series + e * kLn2Low));
}

// How many numbers are weighed together.
inline constexpr size_t kExpBatch = 64;
using ExpBatch = std::array<double, kExpBatch>;

// Replaces x by e^x for any x <= 0 (those below kLeastExponent count as that).
inline void ExpOfNegatives(ExpBatch* batch) {
  for (double& x : *batch) x = x < kLeastExponent ? kLeastExponent : x;
  for (double& x : *batch) x = ExpOfNegative(x);
}

}  // namespace thalweg::sampling
