// The number of ranks changes no bit of what a request gets: engines over 1, 2, 3, 4 and 8 ranks
// (threads), greedy and sampled with seeds, with every rank busy and with most of them idle, with
// copies of experts, a rebalance in the middle, random delays, prefix reuse, overlap, preemption,
// drafts, forced text and custom processors; over nano and both tiny checkpoints. Mistakes are told
// before anything runs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <numeric>
#include <thread>

#include "base/mapped_file.h"
#include "base/rng.h"
#include "engine/rank.h"
#include "engine/ranks.h"
#include "parallel/statistics.h"
#include "tests/engine/harness.h"
#include "tests/invariance/checkpoints.h"

namespace thalweg::tests {
namespace {

using engine::GenerateRequest;

void Season(uint64_t kind, GenerateRequest* r) {
  r->seed = 100 + kind;
  r->sampling.logprobs = 3;
  r->sampling.temperature = kind % 3 == 0 ? 0 : 0.9;
  r->sampling.ignore_eos = kind % 2 == 0;
  if (kind % 4 == 1) r->sampling.top_p = 0.9;
  if (kind % 4 == 2) r->sampling.repetition_penalty = 1.2;
  if (kind % 5 == 4) r->n = 2;
}

// Short and long prompts, some with a prefix in common.
std::vector<GenerateRequest> SomeRequests() {
  std::vector<GenerateRequest> all;
  const std::vector<int64_t> lengths = {1, 63, 65, 141, 200, 333, 7};
  for (size_t i = 0; i < lengths.size(); ++i) {
    GenerateRequest& r = all.emplace_back();
    r.prompt = SomeTokens(lengths[i], i + 1);
    r.max_tokens = 8 + static_cast<int64_t>(i % 5);
    Season(i, &r);
  }
  for (uint64_t i = 0; i < 4; ++i) {
    GenerateRequest& r = all.emplace_back(WithPrefix(200, 20, 50 + i, 9));
    Season(i, &r);
  }
  all[2].sampling.prompt_logprobs = 2;
  return all;
}

engine::EngineOptions Options(int64_t ranks) {
  engine::EngineOptions options = NanoOptions();
  options.numerics = kernels::Numerics::kFast;
  options.cache_tokens = 4096;
  options.max_sequences = 8;
  options.ranks = ranks;
  return options;
}

const std::vector<Answer>& Expected() {
  static const std::vector<Answer> expected = RunEach(*LoadEngine(Options(1)), SomeRequests());
  return expected;
}

void ExpectSame(const std::vector<Answer>& expected, const std::vector<Answer>& actual) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_FALSE(expected[i].tokens.empty());
    EXPECT_EQ(Difference(expected[i], actual[i]), "") << "sequence " << i;
  }
}

void Check(const engine::EngineOptions& options) {
  const auto engine = LoadEngine(options);
  ExpectSame(Expected(), RunAll(*engine, SomeRequests()));
  ExpectSame(Expected(), RunAll(*engine, SomeRequests()));  // with a warm cache
}

TEST(EngineRanks, EveryNumberOfRanks) {
  for (const int64_t ranks : {2, 3, 4, 8}) {
    SCOPED_TRACE(ranks);
    Check(Options(ranks));
  }
}

TEST(EngineRanks, MostOfThemIdle) {
  const auto engine = LoadEngine(Options(3));
  ExpectSame(Expected(), RunEach(*engine, SomeRequests()));
}

// Prompts' rows over groups of ranks, whole ones and those that are left, beside experts over all.
TEST(EngineRanks, PromptsOverSeveralRanks) {
  for (const auto& [ranks, context] : {std::pair<int64_t, int64_t>{2, 2}, {3, 2}, {8, 8}}) {
    SCOPED_TRACE(ranks * 10 + context);
    engine::EngineOptions options = Options(ranks);
    options.context_ranks = context;
    const auto engine = LoadEngine(options);
    ExpectSame(Expected(), RunEach(*engine, SomeRequests()));
    ExpectSame(Expected(), RunAll(*engine, SomeRequests()));  // with a warm cache
    const engine::ContextMetrics metrics = engine->metrics().context;
    EXPECT_GT(metrics.shared_rows, 500u);
    EXPECT_LT(metrics.own_rows, metrics.shared_rows * 2 / static_cast<uint64_t>(context) + 100);
  }
}

TEST(EngineRanks, PromptsOverSeveralRanksBesideEverythingElse) {
  engine::EngineOptions options = Options(4);
  options.context_ranks = 2;
  options.expert_spare = 1;
  options.preempt_every = 3;
  options.overlap = 2;
  options.max_rows = 96;
  options.draft_tokens = 4;
  options.draft_costs = false;
  Check(options);
}

TEST(EngineRanks, MoreRanksForAPromptThanThereAreAreRefused) {
  engine::EngineOptions options = Options(2);
  options.context_ranks = 3;
  EXPECT_EQ(engine::Engine::Load(options).status().message(),
            "--context-ranks 3 of 2 ranks: as many at most; --ranks or mpirun starts more");
  options = Options(1);
  options.context_ranks = 2;
  EXPECT_EQ(engine::Engine::Load(options).status().code(), base::Code::kInvalidArgument);
}

TEST(EngineRanks, CopiesOfExperts) {
  engine::EngineOptions options = Options(3);
  options.expert_spare = 3;
  Check(options);
}

// Experts move while requests run: once each layer that gains by it, then again as texts change.
TEST(EngineRanks, ARebalanceInTheMiddle) {
  for (const int64_t ranks : {2, 3, 4, 8}) {
    SCOPED_TRACE(ranks);
    engine::EngineOptions options = Options(ranks);
    options.expert_spare = ranks == 3 ? 0 : 1;
    options.rebalance_window = 300;
    options.repack = ranks == 4 ? model::Repack::kNever : model::Repack::kAlways;
    const auto engine = LoadEngine(options);
    for (int i = 0; i < 3; ++i) ExpectSame(Expected(), RunAll(*engine, SomeRequests()));
    const engine::ExpertMetrics experts = engine->metrics().experts;
    EXPECT_GT(experts.windows, 0u);
    EXPECT_GT(experts.layers_switched, 0u);
    EXPECT_GT(experts.experts_moved, 0u);
    EXPECT_GT(experts.last_step, 0u);
    EXPECT_LE(experts.last_step, engine->metrics().steps);
    EXPECT_GE(experts.imbalance, 1);
  }
}

TEST(EngineRanks, CountsAreSavedAndPlaceExpertsTheNextTime) {
  const std::string file = testing::TempDir() + "/counts-" + std::to_string(getpid()) + ".json";
  std::remove(file.c_str());
  engine::EngineOptions options = Options(2);
  options.expert_counts = file;
  ExpectSame(Expected(), RunAll(*LoadEngine(options), SomeRequests()));
  const auto counts = parallel::ReadCounts(file);
  ASSERT_TRUE(counts.ok()) << counts.status().ToString();
  EXPECT_GT(counts->rows, 500);
  for (const auto& layer : counts->layers)  // with compact replay the decoder runs fewer
    EXPECT_LE(std::accumulate(layer.begin(), layer.end(), int64_t{0}), 4 * counts->rows);
  // Placed by them, and counted anew on one rank: prompts and seeds are the same, so are rows.
  options.expert_spare = 1;
  ExpectSame(Expected(), RunAll(*LoadEngine(options), SomeRequests()));
  options.ranks = 1;
  ExpectSame(Expected(), RunAll(*LoadEngine(options), SomeRequests()));
  EXPECT_TRUE(parallel::ReadCounts(file).ok());
  std::remove(file.c_str());
}

TEST(EngineRanks, CountsOfAnotherModelAreRefused) {
  engine::EngineOptions options = Options(2);
  options.expert_counts = testing::TempDir() + "/other-" + std::to_string(getpid()) + ".json";
  ASSERT_TRUE(
      base::WriteFile(options.expert_counts, parallel::ToJson(parallel::NoCounts(3, 5))).ok());
  const auto engine = engine::Engine::Load(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.status().message().find("give --expert-counts another file"), std::string::npos)
      << engine.status().ToString();
  std::remove(options.expert_counts.c_str());
}

TEST(EngineRanks, PreemptionOverlapAndSmallChunks) {
  engine::EngineOptions options = Options(2);
  options.preempt_every = 3;
  options.overlap = 2;
  options.max_rows = 48;
  Check(options);
}

TEST(EngineRanks, Drafts) {
  engine::EngineOptions options = Options(2);
  options.draft_tokens = 4;
  options.draft_costs = false;
  Check(options);
}

// Ranks that are late by random times, each behind other steps: nothing depends on who comes first.
TEST(EngineRanks, RandomDelays) {
  std::vector<GenerateRequest> all = SomeRequests();
  for (size_t i = 0; i < all.size(); ++i)
    all[i].logits_processor = [i](std::span<const int32_t> tokens, std::span<float>) {
      const auto draw = base::Philox4x32(
          {static_cast<uint32_t>(tokens.size()), static_cast<uint32_t>(i), 0, 0}, {11, 0});
      std::this_thread::sleep_for(std::chrono::microseconds(draw[0] % 4000));
      return Status();
    };
  for (const int64_t ranks : {2, 3, 8}) {
    SCOPED_TRACE(ranks);
    engine::EngineOptions options = Options(ranks);
    options.rebalance_window = ranks == 3 ? 200 : 0;
    ExpectSame(Expected(), RunAll(*LoadEngine(options), all));
  }
}

TEST(EngineRanks, OneRequestAfterAnotherIsSpreadOverRanks) {
  const auto engine = LoadEngine(Options(4));
  RunAll(*engine, SomeRequests());
  const sched::SchedulerStats stats = engine->metrics().scheduler;
  EXPECT_EQ(stats.running, 0);
  EXPECT_EQ(stats.waiting, 0);
  EXPECT_GE(stats.admitted, Expected().size());
}

TEST(EngineRanks, ConstraintsAndProcessorsOnEveryRank) {
  std::vector<GenerateRequest> all;
  for (uint64_t i = 0; i < 6; ++i) {
    GenerateRequest& r = all.emplace_back();
    r.prompt = SomeTokens(20 + static_cast<int64_t>(i), i);
    r.max_tokens = 12;
    r.seed = i;
    if (i % 2 == 0) {
      r.so_args = R"({"type": "regex", "content": "[a-z]{3,8} [0-9]{2}"})";
    } else {
      r.logits_processor = [i](std::span<const int32_t>, std::span<float> logits) {
        logits[40 + i] += 6;
        return Status();
      };
    }
  }
  const std::vector<Answer> expected = RunEach(*LoadEngine(Options(1)), all);
  ExpectSame(expected, RunAll(*LoadEngine(Options(3)), all));
}

// Over a checkpoint without a tokenizer.
class Bare : public exec::Executor {
 public:
  Bare(const checkpoint::Checkpoint& checkpoint, int ranks, sched::SchedulerOptions* scheduler)
      : ranks_(engine::MakeRankThreads(ranks)) {
    engine::EngineOptions options;
    options.threads = 1;
    options.max_sequences = 4;
    options.max_rows = 64;
    options.repack = model::Repack::kNever;
    model_ = ranks_
                 ->Make(options, checkpoint,
                        {.context_tokens = 512, .cache_tokens = 1024, .checkpoints = 16})
                 .value();
    engine::DescribeRank(model_.executor->model(), scheduler);
    scheduler->ranks = ranks;
    scheduler->checkpoint_interval_tokens = 64;
    executor_ =
        std::make_unique<exec::RanksExecutor>(std::move(model_.executor), ranks_->group(), 4);
  }
  void Execute(const step::StepPlan& plan, step::StepResult* result) override {
    executor_->Execute(plan, result);
  }

 private:
  std::unique_ptr<engine::Ranks> ranks_;
  engine::RankModel model_;
  std::unique_ptr<exec::Executor> executor_;
};

std::vector<Answer> OverBare(const std::string& name, int ranks) {
  const checkpoint::Checkpoint& checkpoint = Shipped(name);
  sched::SchedulerOptions scheduler;
  auto executor = std::make_unique<Bare>(checkpoint, ranks, &scheduler);
  const auto engine = engine::Engine::Start({}, scheduler, std::move(executor), nullptr).value();
  std::vector<GenerateRequest> all;
  for (uint64_t i = 0; i < 8; ++i) {
    GenerateRequest& r = all.emplace_back();
    r.prompt =
        SomeText(checkpoint.config(), 1 + 23 * static_cast<int64_t>(i), static_cast<uint32_t>(i));
    r.max_tokens = 6;
    Season(i, &r);
    r.n = 1;
  }
  return RunAll(*engine, all);
}

TEST(EngineRanks, TinyCheckpoints) {
  for (const std::string name : {"tiny-a", "tiny-b"}) {
    SCOPED_TRACE(name);
    const std::vector<Answer> expected = OverBare(name, 1);
    for (const int ranks : {2, 3, 4, 8}) {
      SCOPED_TRACE(ranks);
      ExpectSame(expected, OverBare(name, ranks));
    }
  }
}

std::string ErrorOf(const engine::EngineOptions& options) {
  const auto engine = engine::Engine::Load(options);
  return engine.ok() ? "" : engine.status().ToString();
}

TEST(EngineRanks, MoreRanksThanExpertsAreRefused) {
  EXPECT_NE(ErrorOf(Options(17)).find("17 ranks"), std::string::npos) << ErrorOf(Options(17));
}

TEST(EngineRanks, APlacementForOthersIsRefused) {
  engine::EngineOptions options = Options(2);
  options.expert_placement = testing::TempDir() + "/placement.json";
  const auto shape = parallel::ShapeFor(16, 4, 0);
  ASSERT_TRUE(
      base::WriteFile(options.expert_placement, parallel::ToJson(parallel::InOrder(*shape, 10)))
          .ok());
  const std::string error = ErrorOf(options);
  EXPECT_NE(error.find("make one with thalweg inspect experts --ranks 2"), std::string::npos)
      << error;
}

}  // namespace
}  // namespace thalweg::tests
