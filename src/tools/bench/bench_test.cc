// Property: every op can be timed at any shape and its figures come out finite and in the published
// form; hostile sizes are refused before memory is taken; whole steps of made-up layers run and
// account for their time.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "kernels/backends.h"
#include "tools/bench/kernel.h"
#include "tools/bench/layers.h"
#include "tools/bench/shapes.h"
#include "tools/bench/step_cost.h"
#include "tools/bench/synthetic.h"
#include "tools/bench/trace.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kSmallGauge = int64_t{1} << 20;

std::filesystem::path Data(const char* name) {
  return std::filesystem::path(THALWEG_SOURCE_DIR) / "tests/data" / name;
}

BenchShape TinyShape() {
  Result<BenchShape> shape = ParseShape("nano", Data("tiny-a/model"));
  EXPECT_TRUE(shape.ok()) << shape.status().ToString();
  return std::move(shape).value();
}

KernelBenchOptions Quick(std::string op) {
  return {.op = std::move(op),
          .rows = {1, 3},
          .seconds = 0,
          .context = 300,
          .memory_bytes = int64_t{1} << 30,
          .gauge_bytes = kSmallGauge};
}

struct Outcome {
  Status status;
  std::vector<KernelFigure> figures;
};

Outcome RunKernel(const kernels::Ops& ops, const BenchShape& shape,
                  const KernelBenchOptions& options) {
  const base::ThreadTeam team(2);
  Outcome outcome;
  outcome.status = BenchKernel(ops, team, shape, options, [&](const KernelFigure& figure) {
    outcome.figures.push_back(figure);
  });
  return outcome;
}

std::vector<std::string> Keys(const base::Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

TEST(Bench, EveryOpHasFigures) {
  for (const kernels::Ops* ops :
       {&kernels::ReferenceOps(), &kernels::CpuOps(), &kernels::CpuOps(kernels::Numerics::kFast)}) {
    const Outcome outcome = RunKernel(*ops, TinyShape(), Quick("all"));
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    std::set<std::string> seen;
    for (const KernelFigure& f : outcome.figures) {
      seen.insert(f.op);
      EXPECT_GT(f.seconds, 0) << f.op;
      EXPECT_GT(f.gb_per_s, 0) << f.op;
      EXPECT_GE(f.gflop_per_s, 0) << f.op;
      EXPECT_GT(f.limit_gb_per_s, 0) << f.op;
      EXPECT_GT(f.limit_gflop_per_s, 0) << f.op;
      EXPECT_TRUE(std::isfinite(f.share)) << f.op;
      EXPECT_EQ(f.numerics, NumericsName(ops->numerics));
    }
    for (const OpEntry& entry : AllOps()) EXPECT_TRUE(seen.contains(std::string(entry.name)));
  }
}

TEST(Bench, KernelJsonHasThePublishedKeys) {
  const Outcome outcome = RunKernel(kernels::CpuOps(), TinyShape(), Quick("moe_ffn"));
  ASSERT_EQ(outcome.figures.size(), 2u) << outcome.status.ToString();
  const std::vector<std::string> keys = {
      "op",       "shape",       "rows",           "numerics",          "threads", "seconds",
      "gb_per_s", "gflop_per_s", "limit_gb_per_s", "limit_gflop_per_s", "share"};
  EXPECT_EQ(Keys(ToJson(outcome.figures.front())), keys);
  EXPECT_EQ(ToJson(outcome.figures[1])["rows"], 3);
  EXPECT_EQ(ToJson(outcome.figures[1])["threads"], 2);
}

TEST(Bench, AProductOfAnyShape) {
  Result<BenchShape> shape = ParseShape("64x96", "");
  ASSERT_TRUE(shape.ok());
  shape->cold = false;  // thousands of copies of so small a matrix
  for (const std::string op : {"linear", "moe_ffn", "head"}) {
    KernelBenchOptions options = Quick(op);
    options.experts_per_call = 2;
    const Outcome outcome = RunKernel(kernels::CpuOps(), *shape, options);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    EXPECT_EQ(outcome.figures.size(), op == "linear" ? 6u : 2u);
  }
  EXPECT_FALSE(RunKernel(kernels::CpuOps(), *shape, Quick("attention")).status.ok());
}

TEST(Bench, WhatDoesNotFitIsRefused) {
  KernelBenchOptions options = Quick("head");
  options.memory_bytes = 1 << 20;
  BenchShape released;
  released.config = ReleasedConfig();
  EXPECT_EQ(RunKernel(kernels::CpuOps(), released, options).status.code(),
            base::Code::kResourceExhausted);
  options = Quick("markov");
  options.memory_bytes = 16 << 20;
  options.rows = {65536};
  EXPECT_EQ(RunKernel(kernels::CpuOps(), TinyShape(), options).status.code(),
            base::Code::kResourceExhausted);
  EXPECT_EQ(RunKernel(kernels::CpuOps(), TinyShape(), Quick("nothing")).status.code(),
            base::Code::kInvalidArgument);
}

TEST(Bench, HostileOptionValues) {
  for (const char* text : {"", "x", "32x", "x32", "0x32", "-32x32", "33x32", "32x32x32",
                           "9223372036854775808x32", "32x524288", "RELEASED", "1e2x32", " 32x32"}) {
    EXPECT_FALSE(ParseShape(text, "").ok()) << text;
  }
  EXPECT_FALSE(ParseShape("nano", "/nonexistent").ok());
  for (const char* text :
       {"", ",", "1,", ",1", "0", "-1", "1;2", "9", "1,2,x", "99999999999999999999", "1 "}) {
    EXPECT_FALSE(ParseCounts(text, "rows", 8).ok()) << text;
  }
  EXPECT_EQ(*ParseCounts("1,8,8", "rows", 8), (std::vector<int64_t>{1, 8, 8}));
  std::string many = "1";
  for (int i = 0; i < 64; ++i) many += ",1";
  EXPECT_FALSE(ParseCounts(many, "rows", 8).ok());
}

TEST(Bench, TheReleasedConfigIsThePublishedOne) {
  Result<checkpoint::Config> published = checkpoint::Config::Load(Data("released_config.json"));
  ASSERT_TRUE(published.ok());
  published->vision = {};
  EXPECT_EQ(checkpoint::ToJson(ReleasedConfig()), checkpoint::ToJson(*published));
}

TEST(Bench, CostsOfTheReleaseAreThePublishedOnes) {
  const checkpoint::Config c = ReleasedConfig();
  Cost step = HeadCost(c, 1);
  for (int layer = 0; layer < c.num_hidden_layers; ++layer) {
    step = step + LayerCost(c, layer, {1, 8191, true}, 6);
  }
  EXPECT_NEAR(step.bytes, 13.1e9, 0.2e9);  // 13.1 GB and 36 GFLOP at a context of 8192
  EXPECT_NEAR(step.flops, 36e9, 1e9);
  EXPECT_NEAR(ExpectedExperts(384, 6, 8), 45.5, 0.1);
}

LayersBenchOptions QuickLayers() {
  return {.layers = 8,
          .batches = {1, 3},
          .context = 200,
          .prompt = 40,
          .steps = 2,
          .per_op = true,
          .memory_bytes = int64_t{1} << 30,
          .gauge_bytes = kSmallGauge};
}

// Steps with drafts of every width, and what they would bring.
TEST(Bench, StepsWithDraftsOfMadeUpLayers) {
  const base::ThreadTeam team(1);
  LayersBenchOptions options = QuickLayers();
  options.per_op = false;
  options.acceptance = 3.51;
  std::vector<std::string> notes;
  const auto figures = BenchLayers(TinyShape().config, kernels::CpuOps(), team, options,
                                   [&](const std::string& note) { notes.push_back(note); });
  ASSERT_TRUE(figures.ok()) << figures.status().ToString();
  int64_t drafted = 0;
  for (const ModelFigure& f : *figures) {
    if (!f.phase.starts_with("drafts ")) continue;
    ++drafted;
    EXPECT_GT(f.tokens_per_s * f.ms_per_step / 1e3, static_cast<double>(f.batch)) << f.phase;
  }
  EXPECT_EQ(drafted, 2 * TinyShape().config.dspark_block_size);
  EXPECT_NE(notes.back().find("times the speed without"), std::string::npos);
}

TEST(Bench, StepsOfMadeUpLayers) {
  const base::ThreadTeam team(2);
  const auto figures = BenchLayers(TinyShape().config, kernels::CpuOps(), team, QuickLayers(),
                                   [](const std::string&) {});
  ASSERT_TRUE(figures.ok()) << figures.status().ToString();
  std::set<std::string> phases;
  double shares = 0;
  for (const ModelFigure& f : *figures) {
    phases.insert(f.phase);
    EXPECT_GT(f.ms_per_step, 0) << f.phase;
    EXPECT_GT(f.tokens_per_s, 0) << f.phase;
    if (f.phase.starts_with("op ") && f.batch == 1) shares += f.share;
  }
  EXPECT_NEAR(shares, 1, 1e-9);
  for (const char* phase : {"decode", "decode layers", "decode head", "prefill encoder",
                            "op attention", "op index_select", "op experts", "op hyper_predict"}) {
    EXPECT_TRUE(phases.contains(phase)) << phase;
  }
  const std::vector<std::string> keys = {"phase",        "layers",      "batch", "context",
                                         "tokens_per_s", "ms_per_step", "share", "launches"};
  for (const base::Json& row : ToJson(*figures)) EXPECT_EQ(Keys(row), keys);
}

TEST(Bench, AnyNumberOfLayersIsAValidModel) {
  for (int64_t layers = 1; layers <= 40; ++layers) {
    const auto plan = PlanSynthetic(ReleasedConfig(), layers, 6, int64_t{64} << 30);
    ASSERT_TRUE(plan.ok()) << layers << ": " << plan.status().ToString();
    EXPECT_EQ(plan->config.num_hidden_layers, layers);
  }
  EXPECT_FALSE(PlanSynthetic(ReleasedConfig(), 40, 384, int64_t{64} << 30).ok());
  EXPECT_FALSE(PlanSynthetic(ReleasedConfig(), 1, 0, 0).ok());
}

}  // namespace
}  // namespace thalweg::tools::bench
