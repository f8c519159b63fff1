#include "sim/slowest.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace thalweg::sim {
namespace {

constexpr double kDeviations = 6;  // beyond which nothing is looked for
constexpr int kPieces = 96;

// That a time is at most x.
double ShareBelow(const Spread& time, double x) {
  if (time.deviation <= 0) return x >= time.mean ? 1 : 0;
  return 0.5 * std::erfc((time.mean - x) / time.deviation / std::sqrt(2.0));
}

double ShareOfAllBelow(std::span<const Spread> times, double x) {
  double share = 1;
  for (const Spread& time : times) share *= ShareBelow(time, x);
  return share;
}

}  // namespace

// E[max] = high - integral of P(max <= x) from low to high, where low and high enclose all of it.
double MeanOfLongest(std::span<const Spread> times) {
  TW_CHECK(!times.empty());
  if (times.size() == 1) return times.front().mean;
  double low = -INFINITY, high = low, longest = low;
  for (const Spread& time : times) {
    longest = std::max(longest, time.mean);
    low = std::max(low, time.mean - kDeviations * time.deviation);
    high = std::max(high, time.mean + kDeviations * time.deviation);
  }
  if (high <= low) return longest;
  const double piece = (high - low) / kPieces;
  double sum = (ShareOfAllBelow(times, low) + 1) / 2;
  for (int i = 1; i < kPieces; ++i) sum += ShareOfAllBelow(times, low + i * piece);
  return high - sum * piece;
}

}  // namespace thalweg::sim
