// Runs of one load have the same steps and tokens, whatever the number of ranks and whether experts
// move; moves come before the same steps each time; predictions are judged at sizes and lengths
// that costs were not measured at.
#include "tools/bench/rank_steps.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "kernels/backends.h"
#include "tools/bench/rank_costs.h"
#include "tools/bench/rank_links.h"
#include "tools/bench/rank_moves.h"
#include "tools/bench/rank_neighbours.h"
#include "tools/bench/rank_validation.h"

namespace thalweg::tools::bench {
namespace {

engine::EngineOptions Nano(int64_t ranks) {
  engine::EngineOptions options;
  options.model = THALWEG_SOURCE_DIR "/models/nano";
  options.ranks = ranks;
  options.threads = static_cast<int>(ranks);
  options.offline = true;
  return options;
}

TEST(RankSteps, StepsAndTokensAreThoseOfEveryRun) {
  const StepsLoad load{.sequences = 4, .prompt = 20, .tokens = 6};
  const auto one = RunRankSteps(Nano(1), load);
  ASSERT_TRUE(one.ok()) << one.status().message();
  ASSERT_EQ(one->steps.size(), 6u);
  for (const TimedStep& step : one->steps) {
    EXPECT_GT(step.us, 0);
    EXPECT_GT(step.busy_us, 0);
  }
  const auto two = RunRankSteps(Nano(2), load);
  ASSERT_TRUE(two.ok()) << two.status().message();
  ASSERT_EQ(two->steps.size(), 6u);
  for (size_t i = 0; i < one->tokens.size(); ++i) {
    const size_t both = std::min(one->tokens[i].size(), two->tokens[i].size());
    ASSERT_GE(both, 6u);
    EXPECT_TRUE(std::equal(one->tokens[i].begin(),
                           one->tokens[i].begin() + static_cast<std::ptrdiff_t>(both),
                           two->tokens[i].begin()));
  }
}

TEST(RankSteps, TheLeastOfEachStepCounts) {
  const std::vector<TimedStep> least = LeastOfRuns(
      {{.steps = {{5, 1, 4}, {7, 0, 3}, {9, 0, 8}}}, {.steps = {{6, 0, 3}, {4, 2, 4}, {9, 3, 8}}}});
  EXPECT_EQ(least, (std::vector<TimedStep>{{5, 1, 3}, {4, 2, 3}, {9, 0, 8}}));
  EXPECT_DOUBLE_EQ(MedianUs(least), 5);
}

TEST(RankSteps, MovesComeBeforeTheSameSteps) {
  engine::EngineOptions options = Nano(2);
  options.expert_spare = 1;
  options.rebalance_window = 40;
  const auto report = MeasureMoves(options, {.sequences = 4, .prompt = 20, .tokens = 40}, 2);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->same_schedule);
  EXPECT_TRUE(report->same_tokens);
  EXPECT_EQ(report->steps, 40);
  ASSERT_FALSE(report->moved.empty());
  EXPECT_GT(report->experts.windows, 0u);
  for (const MovedStep& step : report->moved) {
    EXPECT_GT(step.worked_us, 0);
    EXPECT_GT(step.us, step.worked_us);
    EXPECT_GT(step.still_us, 0);
  }
  EXPECT_NE(ToTable(*report).find("of the median"), std::string::npos);
  EXPECT_EQ(ToJson(*report)["moved"].size(), report->moved.size());
}

TEST(RankSteps, CostsAreMeasuredElsewhereThanTheyAreJudged) {
  const std::vector<int64_t> batches = {1, 2, 4, 8, 16, 32, 64};
  const CostsOptions at = CostsAround(batches, 88);
  EXPECT_EQ(at.batches.front(), 1) << "nothing is smaller";
  for (size_t i = 1; i < at.batches.size(); ++i)
    EXPECT_EQ(std::count(batches.begin(), batches.end(), at.batches[i]), 0) << at.batches[i];
  EXPECT_GT(at.batches.back(), 64);
  EXPECT_LT(at.contexts.front(), 88);
  EXPECT_GT(at.contexts.back(), 88);
}

TEST(RankSteps, ALinkTakesTimeAndOneRankHasNone) {
  LinkMeasurement link(3);
  link.Round();
  EXPECT_GT(link.Link().latency_us, 0);
  EXPECT_GT(link.Link().gb_per_s, 0);
  LinkMeasurement alone(1);
  alone.Round();
  EXPECT_EQ(alone.Link().latency_us, 0);
}

TEST(RankSteps, NeighboursWorkUntilTheyRest) {
  const auto checkpoint = OpenForSteps(Nano(1));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const kernels::Ops* ops = kernels::FindBackend({.name = "cpu"}).value();
  model::ModelOptions sizes;
  sizes.max_sequences = sizes.max_rows = 2;
  sizes.max_tokens = 1024;
  auto rank = LoneRank::Make(*checkpoint, *ops, sizes, true);
  ASSERT_TRUE(rank.ok()) << rank.status().message();
  Neighbour neighbour(std::move(*rank));
  EXPECT_TRUE(neighbour.Decode(2, 40).ok());
  EXPECT_TRUE(neighbour.Decode(1, 200).ok()) << "something else at once";
  EXPECT_TRUE(neighbour.Rest().ok());
  EXPECT_TRUE(neighbour.Rest().ok());
  EXPECT_TRUE(neighbour.Decode(2, 40).ok());
  EXPECT_FALSE(neighbour.Decode(3, 40).ok()) << "it has room for two sequences";
}

TEST(RankSteps, ValidationHasAFigureForEachSizeAndNumberOfRanks) {
  const ValidationLoad load{.cases = {{1, 2}, {2, 2}}, .prompt = 20, .tokens = 8, .repeats = 1};
  const auto validation = Validate(Nano(1), load);
  ASSERT_TRUE(validation.ok()) << validation.status().message();
  ASSERT_EQ(validation->figures.size(), 2u);
  for (const ValidationFigure& figure : validation->figures) {
    EXPECT_GT(figure.PredictedMs(), 0);
    EXPECT_GT(figure.measured_ms, 0);
    EXPECT_GE(figure.turns_ms.size(), 4u);
    EXPECT_EQ(figure.predicted.link_us > 0, figure.of.ranks > 1);
    EXPECT_EQ(figure.predicted.skew_us > 0, figure.of.ranks > 1);
  }
  EXPECT_EQ(ToJson(*validation)["figures"].size(), 2u);
  EXPECT_NE(ToTable(*validation).find("within 10 %"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::tools::bench
