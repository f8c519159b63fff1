// Samples follow the softmax they should, filters cut where the definitions say, and a draw depends
// on seed and position alone.
#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace thalweg::sampling {
namespace {

using step::SamplingParams;

// A draw without history.
Result<RowSample> SampleToken(std::vector<float> logits, const SamplingParams& params,
                              int64_t position) {
  static Scratch scratch;
  const SequenceState state(params, static_cast<int64_t>(logits.size()), {}, 0);
  return SampleRow(logits, state, position, nullptr, &scratch);
}

std::vector<double> Frequencies(const std::vector<float>& logits, SamplingParams params,
                                int draws) {
  std::vector<double> count(logits.size());
  for (int i = 0; i < draws; ++i)
    count[static_cast<size_t>(SampleToken(logits, params, i)->token)] += 1.0 / draws;
  return count;
}

TEST(Sampler, FollowsTheSoftmax) {
  const std::vector<float> logits = {0.0f, 1.0f, 2.0f, -1.0f, 0.5f};
  constexpr int kDraws = 100000;
  const std::vector<double> seen = Frequencies(logits, {.temperature = 0.7, .seed = 11}, kDraws);
  double total = 0;
  for (const float l : logits) total += std::exp(l / 0.7);
  double chi_square = 0;
  for (size_t v = 0; v < logits.size(); ++v) {
    const double expected = std::exp(logits[v] / 0.7) / total;
    chi_square += kDraws * (seen[v] - expected) * (seen[v] - expected) / expected;
  }
  EXPECT_LT(chi_square, 18.5);  // 4 degrees of freedom, p = 0.001
}

TEST(Sampler, GreedyTakesTheLowestOfEquals) {
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f};
  EXPECT_EQ(SampleToken(logits, {.temperature = 0}, 0)->token, 1);
}

TEST(Sampler, FiltersCut) {
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.15f),
                                     std::log(0.05f)};
  EXPECT_EQ(Frequencies(logits, {.top_k = 2}, 4000)[2], 0);
  EXPECT_EQ(Frequencies(logits, {.top_p = 0.6}, 4000)[2], 0);
  EXPECT_GT(Frequencies(logits, {.top_p = 0.6}, 4000)[1], 0);
  EXPECT_EQ(Frequencies(logits, {.top_p = 0.4}, 4000)[1], 0);
  EXPECT_EQ(Frequencies(logits, {.min_p = 0.4}, 4000)[2], 0);
  EXPECT_GT(Frequencies(logits, {.min_p = 0.2}, 4000)[2], 0);
  // top_p works on what top_k left: 0.5 of 0.8 already reaches 0.6.
  EXPECT_EQ(Frequencies(logits, {.top_k = 2, .top_p = 0.6}, 4000)[1], 0);
}

TEST(Sampler, DependsOnSeedAndPositionAlone) {
  std::vector<float> logits(1000);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::sin(static_cast<float>(i));
  const SamplingParams params = {.seed = 5};
  const int32_t first = SampleToken(logits, params, 7)->token;
  EXPECT_TRUE(SampleToken(logits, params, 8).ok());
  EXPECT_EQ(SampleToken(logits, params, 7)->token, first);
  int different = 0;
  for (int64_t p = 0; p < 50; ++p) different += SampleToken(logits, params, p)->token != first;
  EXPECT_GT(different, 40);
  EXPECT_NE(SampleToken(logits, {.seed = 6}, 7)->token, first);
}

TEST(Sampler, NoiseStreamsDiffer) {
  EXPECT_NE(GumbelNoise(1, 2, NoisePurpose::kTarget, 3),
            GumbelNoise(1, 2, NoisePurpose::kDraft, 3));
  EXPECT_NE(GumbelNoise(1, 2, NoisePurpose::kTarget, 3),
            GumbelNoise(1, 2, NoisePurpose::kTarget, 4));
}

TEST(Sampler, RefusesBadParametersAndLogits) {
  EXPECT_FALSE(Validate({.temperature = -1}, 10).ok());
  EXPECT_FALSE(Validate({.temperature = std::nan("")}, 10).ok());
  EXPECT_FALSE(Validate({.top_p = 0}, 10).ok());
  EXPECT_FALSE(Validate({.min_p = 1.5}, 10).ok());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(SampleToken(std::vector<float>{0.0f, nan}, {}, 0).ok());
}

}  // namespace
}  // namespace thalweg::sampling
