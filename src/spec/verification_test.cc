// Budget and allocation are what trying everything finds; the order of sequences changes nothing;
// ties do not look at what was drafted; no drafts at all is an answer.
#include "spec/verification.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

constexpr int kSlots = 3;

// Costs that rise in stairs of random width.
CostProfile Stairs(uint64_t seed, int64_t sequences, int64_t rows) {
  CostProfile profile;
  for (int64_t s = 1; s <= sequences; ++s) {
    double seconds = 1 + 0.1 * static_cast<double>(s);
    for (int64_t r = 1; r <= rows; ++r) {
      const double u = TestUniform(seed, static_cast<uint32_t>(r), 500);
      if (u < 0.5) seconds += 1.2 * u;
      if (r >= s) profile.steps.push_back({.sequences = s, .rows = r, .seconds = seconds});
    }
    profile.drafts.push_back({.sequences = s, .seconds = 0.05 * static_cast<double>(s)});
  }
  return profile;
}

// Survivals that fall within a sequence; few levels, so that there are ties.
std::vector<double> RandomSurvivals(uint64_t seed, size_t sequences) {
  std::vector<double> survivals;
  for (size_t s = 0; s < sequences; ++s) {
    double a = 1;
    for (int k = 0; k < kSlots; ++k) {
      const double u = TestUniform(seed, static_cast<uint32_t>(s), static_cast<uint32_t>(k));
      survivals.push_back(a *= std::ceil(u * 4) / 4);
    }
  }
  return survivals;
}

// Every combination of lengths; calls with the expected tokens and their sum.
template <typename Call>
void ForAllLengths(const std::vector<double>& survivals, size_t sequences, const Call& call) {
  std::vector<int32_t> lengths(sequences, 0);
  while (true) {
    double tokens = static_cast<double>(sequences);
    int64_t sum = 0;
    for (size_t s = 0; s < sequences; ++s) {
      for (int32_t k = 0; k < lengths[s]; ++k)
        tokens += survivals[s * kSlots + static_cast<size_t>(k)];
      sum += lengths[s];
    }
    call(lengths, tokens, sum);
    size_t s = 0;
    while (s < sequences && ++lengths[s] > kSlots) lengths[s++] = 0;
    if (s == sequences) return;
  }
}

TEST(Verification, EqualsTryingEverything) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const size_t sequences = 1 + seed % 4;
    const auto n = static_cast<int64_t>(sequences);
    const CostTable costs(Stairs(seed, 4, 16));
    const std::vector<double> survivals = RandomSurvivals(seed, sequences);
    const auto prompts = static_cast<int64_t>(seed % 3);  // rows, which are paid for either way
    const Budget budget = ChooseBudget(
        costs, {.sequences = n, .drafting = n, .other_rows = prompts, .max_drafts = n * kSlots},
        survivals);
    double best_rate = 0;
    double best_tokens = 0;  // at that budget
    ForAllLengths(survivals, sequences, [&](const auto&, double tokens, int64_t sum) {
      const double drafts =
          costs.StepSeconds(n, n + prompts + sum) - costs.StepSeconds(n, n + prompts);
      const double seconds = costs.StepSeconds(n, n) + costs.DraftSeconds(n) + drafts;
      best_rate = std::max(best_rate, tokens / seconds);
      if (sum == budget.drafts) best_tokens = std::max(best_tokens, tokens);
    });
    EXPECT_NEAR(budget.rate(), best_rate, 1e-12 * best_rate) << seed;

    std::vector<int32_t> lengths(sequences);
    const std::vector<int32_t> most(sequences, kSlots);
    Allocate(survivals, most, budget.drafts, lengths);
    double tokens = static_cast<double>(sequences);
    for (size_t s = 0; s < sequences; ++s) {
      for (int32_t k = 0; k < lengths[s]; ++k)
        tokens += survivals[s * kSlots + static_cast<size_t>(k)];
    }
    EXPECT_NEAR(tokens, best_tokens, 1e-12 * tokens) << seed;
    EXPECT_NEAR(tokens, budget.tokens, 1e-12 * tokens) << seed;
    EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), budget.drafts);
  }
}

TEST(Verification, EveryBudgetIsSpentOnPrefixesThatNoOtherBeats) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const size_t sequences = 1 + seed % 3;
    const std::vector<double> survivals = RandomSurvivals(seed + 1000, sequences);
    const std::vector<int32_t> most(sequences, kSlots);
    const auto total = static_cast<int64_t>(sequences) * kSlots;
    for (int64_t k = 0; k <= total + 2; ++k) {
      std::vector<int32_t> lengths(sequences);
      Allocate(survivals, most, k, lengths);
      EXPECT_EQ(std::accumulate(lengths.begin(), lengths.end(), int64_t{0}), std::min(k, total));
      double tokens = static_cast<double>(sequences);
      for (size_t s = 0; s < sequences; ++s)
        for (int32_t i = 0; i < lengths[s]; ++i)
          tokens += survivals[s * kSlots + static_cast<size_t>(i)];
      ForAllLengths(survivals, sequences, [&](const auto&, double other, int64_t sum) {
        if (sum > k) return;
        EXPECT_LE(other, tokens * (1 + 1e-12));
      });
    }
  }
}

TEST(Verification, OrderOfSequencesChangesNothing) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const size_t sequences = 6;
    const CostTable costs(Stairs(seed, 6, 24));
    const StepLoad load = {.sequences = 6, .drafting = 6, .other_rows = 3, .max_drafts = 18};
    std::vector<double> survivals = RandomSurvivals(seed, sequences);
    // Different everywhere, so that there are no ties.
    for (size_t i = 0; i < survivals.size(); ++i)
      survivals[i] *= 1 - 1e-6 * static_cast<double>(i + 1);
    const Budget budget = ChooseBudget(costs, load, survivals);
    std::vector<int32_t> lengths(sequences);
    const std::vector<int32_t> most = {3, 1, 2, 3, 0, 3};
    Allocate(survivals, most, budget.drafts, lengths);
    std::vector<size_t> order(sequences);
    std::iota(order.begin(), order.end(), 0u);
    std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(1 + seed % 5),
                order.end());
    if (seed % 2 == 0) std::reverse(order.begin(), order.end());
    std::vector<double> moved;
    std::vector<int32_t> moved_most, moved_lengths(sequences);
    for (const size_t s : order) {
      const auto own = std::span(survivals).subspan(s * kSlots, kSlots);
      moved.insert(moved.end(), own.begin(), own.end());
      moved_most.push_back(most[s]);
    }
    const Budget again = ChooseBudget(costs, load, moved);
    EXPECT_EQ(again.drafts, budget.drafts);
    EXPECT_EQ(again.tokens, budget.tokens);  // to the bit
    Allocate(moved, moved_most, again.drafts, moved_lengths);
    for (size_t i = 0; i < sequences; ++i) EXPECT_EQ(moved_lengths[i], lengths[order[i]]);
  }
}

TEST(Allocate, TiesGoToTheEarlierSlotThenTheEarlierSequence) {
  const std::vector<double> survivals(9, 0.5);
  const std::vector<int32_t> most(3, 3);
  std::vector<int32_t> lengths(3);
  Allocate(survivals, most, 4, lengths);
  EXPECT_EQ(lengths, (std::vector<int32_t>{2, 1, 1}));
  Allocate(survivals, most, 2, lengths);
  EXPECT_EQ(lengths, (std::vector<int32_t>{1, 1, 0}));
}

TEST(Allocate, KeepsLimitsAndSurvivesNonsense) {
  const std::vector<double> survivals = {NAN, 0.9, 0.8, 0.5, 0.7, 2.0, 0.1, 0.1, 0.1};
  std::vector<int32_t> lengths(3);
  // NaN is no hope, for all behind it too; 0.7 behind 0.5 counts as 0.5.
  Allocate(survivals, std::vector<int32_t>{3, 3, 3}, 4, lengths);
  EXPECT_EQ(lengths, (std::vector<int32_t>{0, 3, 1}));
  Allocate(survivals, std::vector<int32_t>{3, 1, -2}, 100, lengths);
  EXPECT_EQ(lengths, (std::vector<int32_t>{3, 1, 0}));
  Allocate({}, {}, 3, {});
}

// Whether a slot is verified is the same for any confidence in slots behind it.
TEST(Allocate, LaterSlotsDoNotDecideAboutEarlierOnes) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::vector<double> survivals = RandomSurvivals(seed + 7, 4);
    const std::vector<int32_t> most(4, kSlots);
    const auto k = static_cast<int64_t>(seed % 12);
    std::vector<int32_t> lengths(4), changed(4);
    Allocate(survivals, most, k, lengths);
    for (size_t slot = 0; slot < kSlots; ++slot) {
      std::vector<double> other = survivals;
      for (size_t i = slot + 1; i < kSlots; ++i) other[i] = other[i - 1] * TestUniform(seed, 9, 9);
      Allocate(other, most, k, changed);
      EXPECT_EQ(lengths[0] > static_cast<int32_t>(slot), changed[0] > static_cast<int32_t>(slot));
    }
  }
}

TEST(Budget, IsZeroWhereRowsCostAsMuchAsTokens) {
  CostProfile profile;
  for (int64_t r = 1; r <= 64; ++r)
    profile.steps.push_back({.sequences = 1, .rows = r, .seconds = 0.01 * static_cast<double>(r)});
  profile.drafts = {{1, 0.001}};
  const CostTable costs(profile);
  const std::vector<double> survivals(5 * 8, 0.9);
  const StepLoad load = {.sequences = 8, .drafting = 8, .max_drafts = 40};
  const Budget budget = ChooseBudget(costs, load, survivals);
  EXPECT_EQ(budget.drafts, 0);
  EXPECT_LT(budget.gain(), 1);
  EXPECT_EQ(ChooseBudget(costs, load, {}).drafts, 0);
}

TEST(Budget, IsAllWhereRowsAreFree) {
  CostProfile profile;
  profile.steps = {{1, 1, 0.01}, {1, 64, 0.01}};
  profile.drafts = {{1, 0.001}};
  const CostTable costs(profile);
  const std::vector<double> survivals(5 * 8, 0.01);
  StepLoad load = {.sequences = 8, .drafting = 8, .max_drafts = 40};
  EXPECT_EQ(ChooseBudget(costs, load, survivals).drafts, 40);
  load.max_drafts = 7;
  EXPECT_EQ(ChooseBudget(costs, load, survivals).drafts, 7);
}

// A long prompt beside drafts that do not pay: they pay no better for it.
TEST(Budget, PromptsDoNotHideWhatDraftsCost) {
  CostProfile profile;
  profile.steps = {{1, 1, 1.0}, {1, 1000, 1000.0}, {8, 8, 8.0}, {8, 1000, 1000.0}};
  profile.drafts = {{1, 0.1}, {8, 0.8}};
  const CostTable costs(profile);
  const std::vector<double> survivals(5 * 8, 0.9);
  StepLoad load = {.sequences = 8, .drafting = 8, .max_drafts = 40};
  const Budget alone = BudgetOf(costs, load, survivals, 40);
  load.other_rows = 500;
  load.other_samples = 3;
  const Budget beside = BudgetOf(costs, load, survivals, 40);
  EXPECT_LT(alone.gain(), 0.95);
  EXPECT_NEAR(beside.gain(), alone.gain(), 1e-9);
  EXPECT_EQ(ChooseBudget(costs, load, survivals).drafts, 0);
  load.sequences = load.drafting = 0;  // nothing decodes: there is nothing to say
  EXPECT_EQ(ChooseBudget(costs, load, {}).gain(), 1);
}

// Rows of prompts fill a step: the stair that they reach decides.
TEST(Budget, CountsRowsOfPrompts) {
  CostProfile profile;
  profile.graph_rows = {8, 16};
  profile.steps = {{1, 8, 1}, {1, 16, 3}};
  profile.drafts = {{1, 1e-6}};
  const CostTable costs(profile);
  const std::vector<double> survivals(20, 0.5);
  StepLoad load = {.sequences = 4, .drafting = 4, .max_drafts = 20};
  EXPECT_EQ(ChooseBudget(costs, load, survivals).drafts, 4);  // up to the graph of 8 rows
  load.other_rows = 4;
  EXPECT_EQ(ChooseBudget(costs, load, survivals).drafts, 0);  // the next one is too dear
}

}  // namespace
}  // namespace thalweg::spec
