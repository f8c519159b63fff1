// How benches take a time: the fastest of many samples, for other work only ever adds to one; or
// the median, where a usual time is asked for.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace thalweg::tools::bench {

inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The median; of an even number the upper of the two in the middle. At least one value.
inline double MiddleOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Seconds of work(round) for one sample of `rounds` rounds, beginning at *round, which moves on.
template <typename Work>
double SampleSeconds(int64_t rounds, int64_t* round, const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < rounds; ++i) work((*round)++);
  return SecondsSince(begin);
}

// Seconds a round of work(round), in the fastest sample within `budget_s`. A sample is a whole
// number of cycles of `cycle` rounds, so that rounds of unequal cost count alike, and long enough
// for the clock. The first cycle only warms up; at least one sample is taken.
template <typename Work>
double FastestSeconds(double budget_s, int64_t cycle, const Work& work) {
  constexpr double kLeastSampleSeconds = 2e-4;
  int64_t round = 0;
  const double first_s = SampleSeconds(cycle, &round, work);
  const auto repeats = static_cast<int64_t>(kLeastSampleSeconds / std::max(first_s, 1e-9));
  const int64_t rounds = cycle * std::clamp<int64_t>(repeats, 1, 10000);
  double best_s = 1e30;
  for (double spent_s = 0; best_s == 1e30 || spent_s < budget_s;) {
    const double sample_s = SampleSeconds(rounds, &round, work);
    best_s = std::min(best_s, sample_s);
    spent_s += sample_s;
  }
  return best_s / static_cast<double>(rounds);
}

}  // namespace thalweg::tools::bench
