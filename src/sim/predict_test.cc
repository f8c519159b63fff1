// A prediction is the sum of its parts; one rank is the sum of its ops; more work, slower links and
// more uneven routing never make a step faster; ranks of a prompt share it evenly.
#include "sim/predict.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace thalweg::sim {
namespace {

Costs SomeCosts() {
  Costs costs;
  costs.decode.layers = 3;
  costs.decode.ops.emplace_back(
      "projections", std::vector<OpCost::Point>{{1, 1000, 50}, {8, 1000, 60}, {64, 1000, 150}});
  costs.decode.ops.emplace_back(
      "attention",
      std::vector<OpCost::Point>{{1, 1000, 10}, {64, 1000, 300}, {1, 9000, 40}, {64, 9000, 900}});
  costs.experts = {.fixed_us = 5, .us_of_rows = Curve({{1, 2}, {16, 4}, {128, 20}})};
  costs.prefill = {.layers = 2, .fixed_us = 10, .row_us = 3, .position_us = 0.0005, .tail_us = 700};
  return costs;
}

Cluster SomeCluster(int64_t ranks) {
  Cluster c;
  c.model = {.hidden = 1024, .experts = 64, .topk = 4, .kv_bytes = 890};
  c.costs = SomeCosts();
  c.counts = ZipfCounts(2, 64, 0);
  c.node_ranks = 4;
  c.in_node = {.latency_us = 1, .gb_per_s = 200};
  c.between_nodes = {.latency_us = 4, .gb_per_s = 25};
  c.decode = {.ranks = ranks, .batches = {1, 8, 64}, .context = 5000};
  c.prefill = {.ranks = ranks, .prompts = {512, 4096, 16384}, .step_rows = 2048};
  return c;
}

std::vector<Prediction> PredictionsOf(const Cluster& cluster) {
  auto predictions = Predict(cluster);
  EXPECT_TRUE(predictions.ok()) << predictions.status().message();
  return predictions.ok() ? *predictions : std::vector<Prediction>();
}

TEST(SimPredict, OneRankIsTheSumOfItsOps) {
  Cluster c = SomeCluster(1);
  c.decode.batches = {1};
  c.prefill.prompts = {100};
  const auto both = PredictionsOf(c);
  ASSERT_EQ(both.size(), 2u);
  // Halfway between the contexts: 50 + 25; four experts of one row in each of three layers.
  EXPECT_DOUBLE_EQ(both[0].dense_us, 75);
  EXPECT_DOUBLE_EQ(both[0].experts_us, 3 * (5 + 4 * 2));
  EXPECT_EQ(both[0].link_us, 0);
  EXPECT_EQ(both[0].imbalance, 1);
  EXPECT_DOUBLE_EQ(both[0].step_us, 75 + 39);
  EXPECT_DOUBLE_EQ(both[1].dense_us, 10 + 100 * 3 + 0.0005 * 99 * 100 / 2);
  EXPECT_EQ(both[1].other_us, 700);
}

TEST(SimPredict, PartsAddUp) {
  for (const int64_t ranks : {1, 2, 3, 8, 16}) {
    for (const Prediction& p : PredictionsOf(SomeCluster(ranks))) {
      EXPECT_NEAR(p.dense_us + p.experts_us + p.skew_us + p.link_us + p.other_us, p.step_us,
                  1e-9 * p.step_us);
      const double tokens = p.phase == "decode" ? static_cast<double>(ranks * p.batch)
                                                : static_cast<double>(p.prompt);
      EXPECT_NEAR(p.tokens_per_s, tokens / p.step_us * 1e6, 1e-6 * p.tokens_per_s);
      EXPECT_GE(p.imbalance, 1);
      EXPECT_EQ(p.link_us > 0, ranks > 1);
    }
  }
}

TEST(SimPredict, MoreWorkTakesLonger) {
  for (const int64_t ranks : {1, 4, 16}) {
    const auto p = PredictionsOf(SomeCluster(ranks));
    for (const size_t i : {1, 2, 4, 5}) EXPECT_GT(p[i].step_us, p[i - 1].step_us) << ranks;
    Cluster longer = SomeCluster(ranks);
    longer.decode.context = 8000;
    EXPECT_GT(PredictionsOf(longer)[1].step_us, p[1].step_us);
  }
}

TEST(SimPredict, LinksOverlapAndNodes) {
  Cluster c = SomeCluster(8);
  const double base = PredictionsOf(c)[2].link_us;
  c.between_nodes.gb_per_s /= 2;
  EXPECT_GT(PredictionsOf(c)[2].link_us, base);
  c = SomeCluster(8);
  c.node_ranks = 8;
  EXPECT_LT(PredictionsOf(c)[2].link_us, base) << "all ranks in one node";
  c = SomeCluster(8);
  c.overlap = 1;
  EXPECT_EQ(PredictionsOf(c)[2].link_us, 0);
}

TEST(SimPredict, RanksWaitForTheSlowest) {
  Cluster c = SomeCluster(2);
  const Prediction even = PredictionsOf(c)[1];
  EXPECT_EQ(even.skew_us, 0);
  c.costs.decode.spread = 0.1;
  const Prediction uneven = PredictionsOf(c)[1];
  EXPECT_NEAR(uneven.skew_us, 0.1 * uneven.dense_us / std::sqrt(std::numbers::pi), 1e-3);
  EXPECT_EQ(uneven.experts_us, even.experts_us);
  c.costs.experts.spread = 0.1;
  EXPECT_GT(PredictionsOf(c)[1].experts_us, even.experts_us);
  c.decode.ranks = 8;
  EXPECT_GT(PredictionsOf(c)[1].skew_us, uneven.skew_us) << "the slowest of more";
  c.decode.ranks = 1;
  EXPECT_EQ(PredictionsOf(c)[1].skew_us, 0);
}

TEST(SimPredict, UnevenRoutingCostsAndReplicasHelp) {
  Cluster even = SomeCluster(16), uneven = SomeCluster(16);
  uneven.counts = ZipfCounts(2, 64, 1.2);
  const Prediction a = PredictionsOf(even)[2], b = PredictionsOf(uneven)[2];
  EXPECT_GT(b.imbalance, a.imbalance);
  EXPECT_GT(b.experts_us, a.experts_us);
  uneven.spare = 4;
  EXPECT_LT(PredictionsOf(uneven)[2].imbalance, b.imbalance);
}

TEST(SimPredict, RanksOfAPromptShareItEvenly) {
  const double one = PredictionsOf(SomeCluster(1))[5].dense_us;
  for (const int64_t ranks : {2, 4, 8}) {
    const double share = one / static_cast<double>(ranks);
    // Within 3 % of an equal share, beside what each step costs every rank.
    EXPECT_NEAR(PredictionsOf(SomeCluster(ranks))[5].dense_us, share, 0.03 * share + 8 * 10);
  }
}

TEST(SimPredict, WhatCannotBeIsAnError) {
  const auto more_ranks_than_experts = Predict(SomeCluster(65));
  ASSERT_FALSE(more_ranks_than_experts.ok());
  EXPECT_NE(more_ranks_than_experts.status().message().find("64 experts"), std::string::npos);
}

TEST(SimPredict, DraftsBringTokensAndRows) {
  Cluster c = SomeCluster(4);
  const Prediction plain = PredictionsOf(c)[1];
  c.decode.rows_per_sequence = 6;
  c.decode.tokens_per_step = 3.5;
  c.decode.draft_us = 40;
  const Prediction drafted = PredictionsOf(c)[1];
  EXPECT_EQ(drafted.other_us, 40);
  EXPECT_GT(drafted.step_us, plain.step_us + 40);
  EXPECT_NEAR(drafted.tokens_per_s_per_user, 3.5 / drafted.step_us * 1e6, 1e-6);
}

}  // namespace
}  // namespace thalweg::sim
