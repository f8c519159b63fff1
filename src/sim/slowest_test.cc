// The mean of the longest of normal times, against what is known of it and against drawn times.
#include "sim/slowest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "base/rng.h"

namespace thalweg::sim {
namespace {

// Standard normal numbers (Box and Muller), two for each counter.
std::vector<double> Normals(uint32_t count) {
  std::vector<double> all;
  for (uint32_t i = 0; i < count; i += 2) {
    const auto words = base::Philox4x32({i, 0, 0, 0}, {77, 0});
    const double size = std::sqrt(-2 * std::log(base::OpenUnit(words[0])));
    const double turn = 2 * std::numbers::pi * base::OpenUnit(words[1]);
    all.push_back(size * std::cos(turn));
    all.push_back(size * std::sin(turn));
  }
  return all;
}

TEST(SimSlowest, NothingIsAddedWithoutChance) {
  EXPECT_EQ(MeanOfLongest(std::vector<Spread>{{7, 3}}), 7) << "one waits for nobody";
  EXPECT_EQ(MeanOfLongest(std::vector<Spread>{{7, 0}, {9, 0}, {8, 0}}), 9);
  EXPECT_NEAR(MeanOfLongest(std::vector<Spread>{{7, 0.1}, {90, 1}}), 90, 1e-6);
}

TEST(SimSlowest, OfLikeTimes) {
  // E[max] of 2: 1 / sqrt(pi); of 4 and 64: tables of order statistics.
  for (const auto& [count, expected] : std::vector<std::pair<size_t, double>>{
           {2, 1 / std::sqrt(std::numbers::pi)}, {4, 1.02938}, {64, 2.34373}}) {
    const std::vector<Spread> times(count, {100, 5});
    EXPECT_NEAR(MeanOfLongest(times), 100 + 5 * expected, 5e-3) << count;
  }
}

TEST(SimSlowest, OfTimesThatDiffer) {
  const std::vector<Spread> times = {{10, 1}, {11, 2}, {9, 3}, {12, 0}};
  const std::vector<double> normal = Normals(400'000);
  double sum = 0;
  for (size_t i = 0; i < normal.size(); i += times.size()) {
    double longest = 0;
    for (size_t t = 0; t < times.size(); ++t)
      longest = std::max(longest, times[t].mean + times[t].deviation * normal[i + t]);
    sum += longest;
  }
  EXPECT_NEAR(MeanOfLongest(times), sum / static_cast<double>(normal.size() / times.size()), 0.03);
}

}  // namespace
}  // namespace thalweg::sim
