// Costs that were made by a rule are found again by the fit, and costs of nano are a file that the
// cluster model takes, whose one rank is the step that was measured.
#include "tools/bench/costs.h"

#include <gtest/gtest.h>

#include "kernels/backends.h"
#include "sim/predict.h"
#include "tools/bench/cost_fit.h"
#include "tools/session.h"

namespace thalweg::tools::bench {
namespace {

TEST(BenchCosts, FitFindsTheRule) {
  std::vector<ExpertSample> samples;
  for (const auto& [touched, entries] :
       std::vector<std::pair<double, double>>{{6, 6}, {45, 48}, {240, 384}, {384, 3072}})
    samples.push_back({touched, entries, 20 + 6 * touched + 0.2 * entries});
  const ExpertFit fit = FitExperts(samples);
  EXPECT_NEAR(fit.fixed_us, 20, 1e-3);
  EXPECT_NEAR(fit.each_us, 6, 1e-4);
  EXPECT_NEAR(fit.row_us, 0.2, 1e-5);
}

TEST(BenchCosts, NoCoefficientIsBelowZero) {
  const std::array<double, 3> fit =
      FitPositive({{{1, 1, 1}, 1}, {{1, 2, 4}, 1.5}, {{1, 3, 9}, 1.7}, {{1, 8, 64}, 1.9}});
  for (const double c : fit) EXPECT_GE(c, 0);
  EXPECT_GT(fit[0] + fit[1], 0);
}

TEST(BenchCosts, NanoIsAFileOfCosts) {
  const kernels::Ops* ops = kernels::FindBackend({.name = "cpu"}).value();
  OpTrace trace(*ops, 6144);
  SessionOptions session_options;
  session_options.folder = THALWEG_SOURCE_DIR "/models/nano";
  session_options.backend = "cpu";
  session_options.ops = &trace.ops();
  session_options.threads = 1;
  const CostsOptions options{.source = "test",
                             .batches = {1, 3},
                             .contexts = {40, 200},
                             .chunks = {8, 32, 64},
                             .steps = 3};
  session_options.max_sequences = 3;
  session_options.max_tokens = CostsTokens(options);
  const Session session = OpenSession(session_options).value();
  const auto json = MeasureCosts(*session.model, trace, options);
  ASSERT_TRUE(json.ok()) << json.status().message();
  const auto costs = sim::ParseCosts(json->dump(), "costs");
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  EXPECT_EQ(costs->decode.layers, 12);
  EXPECT_EQ(costs->prefill.layers, 6);
  EXPECT_GT(costs->prefill.tail_us, 0);
  double attention = 0, between = -1;
  for (const sim::OpCost& op : costs->decode.ops) {
    if (op.op() == "attention") attention = op.At(3, 200);
    if (op.op() == "between") between = op.At(1, 40);
    EXPECT_NE(op.op(), "experts") << "they are apart";
  }
  EXPECT_GT(attention, 0);
  // What ops leave of a whole step: nothing where other work slowed the steps that they are timed
  // in.
  EXPECT_GE(between, 0);
  const sim::Curve& expert = costs->experts.us_of_rows;
  EXPECT_GT(expert.At(1), 0);
  EXPECT_LE(expert.At(16), 16 * expert.At(1) * 1.001) << "as many experts of one row cost no less";
  EXPECT_GT(costs->decode.spread, 0);
}

}  // namespace
}  // namespace thalweg::tools::bench
