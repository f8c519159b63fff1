// The race answers what the full computation answers, whatever the weights.
#include "spec/weight_race.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

constexpr auto kPurpose = sampling::NoisePurpose::kResidual;

int32_t Naive(const std::vector<float>& weights, uint64_t seed, int64_t position) {
  double best = -INFINITY;
  int32_t winner = -1;
  for (size_t v = 0; v < weights.size(); ++v) {
    if (weights[v] <= 0) continue;
    const auto token = static_cast<int32_t>(v);
    const double value =
        std::log(weights[v]) + sampling::GumbelNoise(seed, position, kPurpose, token);
    if (value > best) best = value, winner = token;
  }
  return winner;
}

TEST(WeightRace, EqualsTheFullComputation) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const size_t size = 1 + seed * 37 % 300;
    const double spread = seed % 3 == 0 ? 0 : (seed % 3 == 1 ? 3 : 40);
    std::vector<float> weights(size);
    for (size_t v = 0; v < size; ++v) {
      const double u = TestUniform(seed, static_cast<uint32_t>(v));
      weights[v] = static_cast<float>(std::exp(spread * (u - 1)));
      if (TestUniform(seed, static_cast<uint32_t>(v), 1) < 0.3) weights[v] = v % 2 == 0 ? 0 : -0.5f;
    }
    weights[seed % size] = 1;
    ASSERT_EQ(DrawByWeight(weights, seed, 9, kPurpose), Naive(weights, seed, 9)) << seed;
  }
}

TEST(WeightRace, FollowsTheWeights) {
  const std::vector<float> weights = {0.02f, 0, 0.3f, 0.08f, 0.1f, 0.5f};
  std::vector<int64_t> counts(weights.size(), 0);
  for (uint64_t seed = 0; seed < 200000; ++seed)
    ++counts[static_cast<size_t>(DrawByWeight(weights, seed, 3, kPurpose))];
  const std::vector<double> law(weights.begin(), weights.end());
  const ChiSquare result = Compare(counts, law);
  EXPECT_TRUE(result.passes()) << result.value << " against " << result.bound;
}

}  // namespace
}  // namespace thalweg::spec
