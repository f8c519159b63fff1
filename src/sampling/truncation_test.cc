// min-p, top-k and top-p keep what a sort and a running sum keep, ties by id, and the race over
// what is left gives the token that noise for every token would give.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sampling/choose.h"
#include "sampling/nucleus.h"
#include "sampling/test_rows.h"

namespace thalweg::sampling {
namespace {

using step::SamplingParams;

// By the definitions, best first.
std::vector<Entry> NaiveKept(const std::vector<float>& row, const SamplingParams& p) {
  std::vector<Entry> kept;
  for (size_t v = 0; v < row.size(); ++v) {
    if (row[v] > -INFINITY) kept.push_back({row[v], static_cast<int32_t>(v)});
  }
  std::sort(kept.begin(), kept.end(), Better);
  const double best = kept[0].logit;
  const auto weight = [&](const Entry& e) {
    return std::exp((static_cast<double>(e.logit) - best) / p.temperature);
  };
  std::erase_if(kept, [&](const Entry& e) { return weight(e) < p.min_p; });
  if (p.top_k > 0 && static_cast<size_t>(p.top_k) < kept.size())
    kept.resize(static_cast<size_t>(p.top_k));
  if (p.top_p >= 1) return kept;
  double total = 0;
  for (const Entry& e : kept) total += weight(e);
  double mass = 0;
  size_t count = 0;
  while (count < kept.size() && mass < p.top_p * total) mass += weight(kept[count++]);
  kept.resize(std::max<size_t>(count, 1));
  return kept;
}

int32_t NaiveToken(const std::vector<float>& row, const SamplingParams& p, int64_t position) {
  double best = -INFINITY;
  int32_t token = -1;
  for (const Entry& e : NaiveKept(row, p)) {
    const double value = static_cast<double>(e.logit) / p.temperature +
                         GumbelNoise(p.seed, position, NoisePurpose::kTarget, e.token);
    if (value < best || (value == best && e.token > token)) continue;
    best = value;
    token = e.token;
  }
  return token;
}

std::vector<SamplingParams> Cases() {
  std::vector<SamplingParams> cases;
  for (const double temperature : {0.01, 0.5, 1.0, 2.5, 100.0}) {
    for (const int64_t top_k : {0, 1, 2, 7, 50, 500, 5000}) {
      for (const double top_p : {1.0, 0.99, 0.73, 0.2, 1e-9}) {
        for (const double min_p : {0.0, 0.013, 0.37, 1.0})
          cases.push_back(
              {.temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p});
      }
    }
  }
  return cases;
}

class TruncationTest : public testing::TestWithParam<std::tuple<int, double, double>> {};

TEST_P(TruncationTest, AgreesWithASort) {
  const auto [vocab, spread, step] = GetParam();
  std::vector<float> row = RandomRow(vocab, static_cast<uint64_t>(vocab), spread, step);
  row[static_cast<size_t>(vocab) / 2] = -INFINITY;
  int64_t position = 0;
  for (SamplingParams p : Cases()) {
    p.seed = 42;
    ++position;
    ASSERT_EQ(Draw(row, p, position)->token, NaiveToken(row, p, position))
        << "T " << p.temperature << " top_k " << p.top_k << " top_p " << p.top_p << " min_p "
        << p.min_p;
  }
}

TEST_P(TruncationTest, LastChoiceIsTheLastOfThem) {
  const auto [vocab, spread, step] = GetParam();
  std::vector<float> row = RandomRow(vocab, static_cast<uint64_t>(vocab) + 1, spread, step);
  row[static_cast<size_t>(vocab) / 2] = -INFINITY;
  const Entry best = Summarise(row).best;
  ChooseBuffers buffers;
  for (const SamplingParams& p : Cases()) {
    const Entry last = LastChoice(row, best, p, &buffers);
    size_t kept = 0;
    for (size_t v = 0; v < row.size(); ++v)
      kept += Better(last, {row[v], static_cast<int32_t>(v)}) ? 0 : 1;
    ASSERT_EQ(kept, NaiveKept(row, p).size()) << "T " << p.temperature << " top_k " << p.top_k
                                              << " top_p " << p.top_p << " min_p " << p.min_p;
  }
}

// Odd sizes, blocks of one vector and less, ties from few levels to none.
INSTANTIATE_TEST_SUITE_P(Rows, TruncationTest,
                         testing::Combine(testing::Values(2, 5, 63, 64, 257, 1001),
                                          testing::Values(0.3, 3.0, 20.0),
                                          testing::Values(0.0, 0.77)));

TEST(Nucleus, LastIsThatOfARunningSum) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<float> row =
        RandomRow(700, seed, 1 + static_cast<double>(seed % 7), seed % 2 == 0 ? 0 : 0.31);
    const SamplingParams p = {.top_p = 0.003 + 0.0049 * static_cast<double>(seed)};
    std::vector<Weighed> border;
    const float best = *std::max_element(row.begin(), row.end());
    const Entry last = LastOfTopP(row, {}, best, -1e30f, p, &border);
    EXPECT_EQ(last.token, NaiveKept(row, p).back().token) << seed;
  }
}

TEST(Nucleus, EqualTokensAreCountedById) {
  const std::vector<float> row(1000, 0.25f);
  std::vector<Weighed> border;
  for (const double top_p : {0.001, 0.002, 0.5, 0.9, 0.999}) {
    const Entry last = LastOfTopP(row, {}, 0.25f, -1, {.top_p = top_p}, &border);
    EXPECT_EQ(last.token, static_cast<int32_t>(std::lround(1000 * top_p)) - 1) << top_p;
  }
}

TEST(MinP, BorderIsTheLowestFloatThatPasses) {
  for (const double min_p : {5e-324, 1e-30, 0.01, 0.3, 1.0}) {
    for (const double temperature : {1e-5, 0.7, 100.0}) {
      for (const float best : {-1000.0f, 0.0f, 3.25f, 3e38f}) {
        const SamplingParams p = {.temperature = temperature, .min_p = min_p};
        const float lowest = LowestOfMinP(best, p);
        EXPECT_LE(lowest, best);
        const double share =
            std::exp((static_cast<double>(lowest) - static_cast<double>(best)) / temperature);
        EXPECT_GE(share, min_p * (1 - 1e-9));
      }
    }
  }
}

TEST(TakeBest, IsThePrefixOfASort) {
  for (const int64_t size : {1, 15, 16, 17, 300, 5000}) {
    for (int direction = 0; direction < 4; ++direction) {
      std::vector<float> row = RandomRow(size, 7, 4, direction == 3 ? 1 : 0);
      if (direction == 1) std::sort(row.begin(), row.end());
      if (direction == 2) std::sort(row.rbegin(), row.rend());
      for (const int64_t k : {1, 2, 20, 64, 299, 100000}) {
        std::vector<Entry> best;
        TakeBest(row, k, &best);
        std::sort(best.begin(), best.end(), Better);
        std::vector<Entry> want = NaiveKept(row, {.top_k = k});
        ASSERT_EQ(best.size(), want.size());
        for (size_t i = 0; i < best.size(); ++i) ASSERT_EQ(best[i].token, want[i].token);
      }
    }
  }
}

}  // namespace
}  // namespace thalweg::sampling
