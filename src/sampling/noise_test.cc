// Noise is a pure function of seed, position, purpose and token; exp and log agree with the C
// library; the bounds by which tokens are passed over are never below the noise.
#include "sampling/noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sampling/elementary.h"
#include "sampling/gumbel_race.h"
#include "sampling/test_rows.h"

namespace thalweg::sampling {
namespace {

TEST(Noise, StreamsDiffer) {
  const double noise = GumbelNoise(1, 2, NoisePurpose::kTarget, 3);
  EXPECT_NE(noise, GumbelNoise(1, 2, NoisePurpose::kDraft, 3));
  EXPECT_NE(noise, GumbelNoise(1, 2, NoisePurpose::kTarget, 4));
  EXPECT_NE(noise, GumbelNoise(1, 2 + (int64_t{1} << 32), NoisePurpose::kTarget, 3));
  EXPECT_NE(noise, GumbelNoise(1 + (uint64_t{1} << 32), 2, NoisePurpose::kTarget, 3));
}

TEST(Noise, OfATokenIsItsLaneOfItsBlock) {
  for (int32_t token = 0; token < 40; ++token) {
    const base::PhiloxCounter words =
        base::Philox4x32({7, 1, static_cast<uint32_t>(token) / 4, 0}, {5, 9});
    const double u = (words[static_cast<size_t>(token) % 4] + 0.5) / 4294967296.0;
    const double want = -std::log(-std::log(u));
    const double got =
        GumbelNoise((uint64_t{9} << 32) | 5, (int64_t{1} << 32) + 7, NoisePurpose::kTarget, token);
    EXPECT_NEAR(got, want, 1e-14 * (1 + std::abs(want)));
  }
}

TEST(Noise, ManyWordsAreThoseOfOneBlockEach) {
  for (const size_t count : {4u, 8u, 12u, 16u, 20u, 64u, 100u}) {
    std::vector<uint32_t> words(count);
    const int32_t first = 0x7ffffff0;
    NoiseWords(77, 123456789012, NoisePurpose::kDraft, first, words);
    for (size_t i = 0; i < count; ++i) {
      const auto block = static_cast<int32_t>(static_cast<uint32_t>(first) + i / 4);
      EXPECT_EQ(words[i], NoiseWords(77, 123456789012, NoisePurpose::kDraft, block)[i % 4]);
    }
  }
}

TEST(Noise, BitsAreTheSameOnEveryMachine) {
  EXPECT_EQ(std::bit_cast<uint64_t>(GumbelOf(0)), 0xc0090a3aa15a0b5du);
  EXPECT_EQ(std::bit_cast<uint64_t>(GumbelOf(0x12345678)), 0xbfef1b82b00c771cu);
  EXPECT_EQ(std::bit_cast<uint64_t>(GumbelOf(0x80000000)), 0x3fd774f29c39c0bdu);
  EXPECT_EQ(std::bit_cast<uint64_t>(GumbelOf(0xffffffff)), 0x4036dfb516f1cbbfu);
  EXPECT_EQ(std::bit_cast<uint64_t>(ExpOfNegative(-1.25)), 0x3fd25618372a584du);
  EXPECT_EQ(std::bit_cast<uint64_t>(Log(3.75)), 0x3ff525e973a0564fu);
}

TEST(Noise, BoundsHold) {
  const auto check = [](uint32_t word) {
    const double noise = GumbelOf(word);
    ASSERT_GE(NoiseBound(word), noise) << word;
    ASSERT_LE(noise, kMostNoise) << word;
    // Close where it matters: among the noises that win.
    const double slack = noise < 3 ? 3 : word > 0xffffffff - 9 ? 1.2 : 0.2;
    ASSERT_LE(NoiseBound(word), std::max(noise, 0.0) + slack) << word;
  };
  for (uint32_t i = 0; i < 300000; ++i) {
    check(i);
    check(0xffffffff - i);
    check(RandomWord(1, i));
  }
  for (int bit = 0; bit < 32; ++bit) {
    for (uint32_t i = 0; i < 100; ++i) check(~((uint32_t{1} << bit) + i - 50));
  }
}

TEST(Elementary, ExpAndLogAgreeWithTheLibrary) {
  for (uint32_t i = 0; i < 200000; ++i) {
    const double u = base::OpenUnit(RandomWord(2, i));
    const double x = -60 * u * u * u;
    ASSERT_NEAR(ExpOfNegative(x) / std::exp(x), 1, 1e-11) << x;
    const auto single = static_cast<float>(x);
    ASSERT_NEAR(ExpOfNegativeSingle(single) / std::exp(static_cast<double>(single)), 1, 3e-7) << x;
    ASSERT_NEAR(Log(u), std::log(u), 4e-16 * (1 + std::abs(std::log(u)))) << u;
    const double near_one = 1 - u * 0x1p-30;
    ASSERT_NEAR(Log(near_one) / std::log(near_one), 1, 1e-15) << near_one;
    ASSERT_NEAR(Log(u * 1e300) / std::log(u * 1e300), 1, 1e-15);
  }
  EXPECT_EQ(ExpOfNegative(0), 1);
  EXPECT_EQ(Log(1), 0);
  EXPECT_NEAR(ExpOfNegative(-700) / std::exp(-700.0), 1, 1e-11);
  ExpBatch far;
  far.fill(-INFINITY);
  ExpOfNegatives(&far);
  EXPECT_LT(far[0], 1e-300);
}

}  // namespace
}  // namespace thalweg::sampling
