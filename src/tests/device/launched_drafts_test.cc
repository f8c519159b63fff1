// Beside a device that chooses, judges and drafts by itself, requests get the tokens that they get
// step by step: with and without drafts, of one length or by confidence, alone and together, under
// preemption and with a warm cache. Some are bound to masks; for some the host has to sample.
#include <gtest/gtest.h>

#include "engine/rank.h"
#include "exec/model_executor.h"
#include "tests/device/ruled.h"
#include "tests/device/tested.h"
#include "tests/engine/harness.h"

namespace thalweg::tests {
namespace {

using engine::GenerateRequest;

struct Setting {
  bool plain = false;  // as the steps are that it is compared with
  int64_t drafts = 0;
  bool variable = false;
  int64_t sequences = 16;
  int64_t overlap = 1;
  int64_t preempt_every = 0;
};

// An engine over nano on any backend, and what it is made of.
class Rig {
 public:
  explicit Rig(const Setting& setting) {
    checkpoint::LoadFilter filter;
    filter.vision = false;
    checkpoint_ = std::make_unique<checkpoint::Checkpoint>(
        checkpoint::Checkpoint::Open(THALWEG_SOURCE_DIR "/models/nano", filter).value());
    model::ModelOptions options;
    options.ops = setting.plain ? TestedDevice().plain : TestedDevice().device;
    options.team = &team_;
    options.max_rows = 256;
    options.max_sequences = setting.sequences;
    options.max_tokens = 16384;
    options.checkpoints = 8;
    options.graphs = TestedDevice().graphs && !setting.plain;
    auto executor = exec::ModelExecutor::Create(*checkpoint_, options).value();
    EXPECT_TRUE(executor->SetDrafts({.drafts = setting.drafts, .variable = setting.variable}).ok());
    sched::SchedulerOptions scheduler;
    scheduler.context_tokens = 1024;
    engine::DescribeRank(executor->model(), &scheduler);
    scheduler.overlap_depth = setting.overlap;
    scheduler.draft_tokens = setting.drafts;
    scheduler.preempt_every = setting.preempt_every;
    engine_ = engine::Engine::Start({}, scheduler, Ruled(std::move(executor)), nullptr).value();
  }
  engine::Engine& engine() { return *engine_; }

 private:
  base::ThreadTeam team_{1};
  std::unique_ptr<checkpoint::Checkpoint> checkpoint_;
  std::unique_ptr<engine::Engine> engine_;  // last: it uses the others
};

const std::vector<GenerateRequest>& Requests() {
  static const std::vector<GenerateRequest> requests = [] {
    std::vector<GenerateRequest> all;
    const std::vector<int64_t> lengths = {1, 2, 63, 64, 65, 130, 141, 300, 7, 20};
    for (size_t i = 0; i < lengths.size(); ++i) {
      GenerateRequest r;
      r.prompt = SomeTokens(lengths[i], i + 1);
      r.seed = 1000 * (i + 1);
      r.max_tokens = 12 + static_cast<int64_t>(i) * 3;
      r.sampling.temperature = i % 2 == 0 ? 0 : 0.8;
      r.sampling.ignore_eos = i % 3 != 0;
      if (i == 4) r.sampling.top_k = 40;             // the host samples
      if (i == 6) r.sampling.frequency_penalty = 1;  // likewise
      if (i == 8) r.sampling.logprobs = 2;           // likewise
      if (i == 9) r.n = 2;
      all.push_back(r);
    }
    return all;
  }();
  return requests;
}

const std::vector<Answer>& Expected() {
  static const std::vector<Answer> expected = [] {
    Rig rig({.plain = true, .overlap = 0});
    return RunEach(rig.engine(), Requests());
  }();
  return expected;
}

void Check(const Setting& setting) {
  Rig rig(setting);
  for (int round = 0; round < 2; ++round) {  // the second with a warm cache
    const std::vector<Answer> actual = RunAll(rig.engine(), Requests());
    ASSERT_EQ(actual.size(), Expected().size());
    for (size_t i = 0; i < actual.size(); ++i)
      EXPECT_EQ(Difference(Expected()[i], actual[i]), "") << "sequence " << i;
  }
  const sched::SchedulerStats stats = rig.engine().metrics().scheduler;
  EXPECT_EQ(stats.drafted > 0, setting.drafts > 0);
  EXPECT_EQ(stats.accepted > 0, setting.drafts > 0);
}

class LaunchedSteps : public testing::Test {
 protected:
  void SetUp() override {
    if (TestedDevice().device == nullptr) GTEST_SKIP() << TestedDevice().missing;
  }
};

TEST_F(LaunchedSteps, WithoutDrafts) {
  for (const int64_t overlap : {0, 1, 2}) Check({.overlap = overlap});
}

TEST_F(LaunchedSteps, WithDrafts) {
  for (const int64_t drafts : {1, 3, 5}) {
    SCOPED_TRACE(drafts);
    Check({.drafts = drafts, .overlap = drafts % 3 + 1});
  }
}

TEST_F(LaunchedSteps, DraftsByConfidence) { Check({.drafts = 5, .variable = true, .overlap = 2}); }

TEST_F(LaunchedSteps, FewSlots) { Check({.drafts = 5, .sequences = 3}); }

TEST_F(LaunchedSteps, UnderPreemption) { Check({.drafts = 5, .overlap = 2, .preempt_every = 4}); }

}  // namespace
}  // namespace thalweg::tests
