// Ranks that wait for each other: a step takes as long as the slowest of them.
#pragma once

#include <span>

namespace thalweg::sim {

// What one of them needs, normally distributed.
struct Spread {
  double mean = 0;
  double deviation = 0;
};

// The mean of the longest of independent times, at least one: by the trapezoidal rule, within a
// tenth of the largest deviation, and of like deviations within a thousandth. Without deviations it
// is the longest, of one time its mean.
double MeanOfLongest(std::span<const Spread> times);

}  // namespace thalweg::sim
