// exp and log of IEEE additions, multiplications and divisions alone: the bits are the same on
// every machine and with every C library, so a seed gives the same token everywhere. Errors are
// about one unit in the last place. Loops over them vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace thalweg::sampling {

inline constexpr double kLn2High = 0x1.62e42fefa0000p-1;  // 2^-11 of its bits are zero: n * high
inline constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;  // is exact for every exponent n

// e^x for x <= 0; 0 below -700, where nothing that is weighed here can matter.
inline double ExpOfNegative(double x) {
  constexpr double kRound = 0x1.8p52;  // adding it rounds to an integer, held in the low bits
  const double clamped = x < -700 ? -700 : x;
  const double shifted = clamped * 0x1.71547652b82fep0 + kRound;
  const double n = shifted - kRound;
  const double r = (clamped - n * kLn2High) - n * kLn2Low;  // |r| <= ln(2) / 2
  const double r2 = r * r;
  const double r4 = r2 * r2;
  // Taylor to degree 13, in pairs.
  const double p01 = 1.0 + r;
  const double p23 = 1.0 / 2 + r * (1.0 / 6);
  const double p45 = 1.0 / 24 + r * (1.0 / 120);
  const double p67 = 1.0 / 720 + r * (1.0 / 5040);
  const double p89 = 1.0 / 40320 + r * (1.0 / 362880);
  const double pab = 1.0 / 3628800 + r * (1.0 / 39916800);
  const double pcd = 1.0 / 479001600 + r * (1.0 / 6227020800);
  const double high = (p89 + r2 * pab) + r4 * pcd;
  const double sum = (p01 + r2 * p23) + r4 * ((p45 + r2 * p67) + r4 * high);
  const uint64_t scale = (std::bit_cast<uint64_t>(shifted) + 1023) << 52;
  const double result = sum * std::bit_cast<double>(scale);
  return x < -700 ? 0 : result;
}

// log(x) for normal x > 0: the exponent, and 2 atanh((m - 1) / (m + 1)) of a mantissa m in
// [sqrt(1/2), sqrt(2)).
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

}  // namespace thalweg::sampling
