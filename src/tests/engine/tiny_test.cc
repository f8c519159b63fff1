// The engine is no engine of nano: over tiny-a and tiny-b, whose layers, ratios and windows differ,
// a batch with prefix reuse, overlap and preemption brings what each request brings alone without.
#include <gtest/gtest.h>

#include "engine/rank.h"
#include "exec/model_executor.h"
#include "tests/engine/harness.h"
#include "tests/invariance/checkpoints.h"

namespace thalweg::tests {
namespace {

std::unique_ptr<engine::Engine> Over(const checkpoint::Checkpoint& checkpoint, bool alone) {
  model::ModelOptions model = OptionsFor(kernels::CpuOps(), 2, 6, 512);
  model.checkpoints = 24;
  auto executor = exec::ModelExecutor::Create(checkpoint, model).value();
  sched::SchedulerOptions scheduler;
  engine::DescribeRank(executor->model(), &scheduler);
  scheduler.checkpoint_interval_tokens = 128;
  scheduler.prefix_reuse = !alone;
  scheduler.overlap_depth = alone ? 0 : 2;
  scheduler.preempt_every = alone ? 0 : 7;
  return engine::Engine::Start({}, scheduler, std::move(executor), nullptr).value();
}

// Prefixes of one text, each with an end of its own.
std::vector<engine::GenerateRequest> Requests(const checkpoint::Config& config) {
  std::vector<engine::GenerateRequest> all;
  const std::vector<int32_t> text = SomeText(config, 400, 3);
  for (const int64_t shared : {0, 63, 64, 65, 129, 200, 300, 391}) {
    engine::GenerateRequest r;
    std::vector<int32_t> prompt(text.begin(), text.begin() + shared);
    const auto own = SomeText(config, 5, 40 + static_cast<uint32_t>(shared));
    prompt.insert(prompt.end(), own.begin(), own.end());
    r.prompt = prompt;
    r.seed = static_cast<uint64_t>(shared);
    r.max_tokens = 6;
    r.sampling.temperature = shared % 2 == 0 ? 0 : 1;
    r.sampling.logprobs = 5;
    all.push_back(r);
  }
  return all;
}

void Check(const std::string& name) {
  const checkpoint::Checkpoint& checkpoint = Shipped(name);
  const auto requests = Requests(checkpoint.config());
  const std::vector<Answer> expected = RunEach(*Over(checkpoint, true), requests);
  const auto engine = Over(checkpoint, false);
  // How often it preempts depends on when requests arrive.
  const auto preempted = [&] { return engine->metrics().scheduler.preempted; };
  for (int round = 0; round < 2 || (preempted() == 0 && round < 50); ++round) {
    const std::vector<Answer> actual = RunAll(*engine, requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      EXPECT_EQ(expected[i].tokens.size(), 6u);
      EXPECT_EQ(Difference(expected[i], actual[i]), "") << "request " << i << " round " << round;
    }
  }
  EXPECT_GT(engine->metrics().scheduler.hit_tokens, 0u);
  EXPECT_GT(preempted(), 0u);
}

TEST(Tiny, A) { Check("tiny-a"); }
TEST(Tiny, B) { Check("tiny-b"); }

}  // namespace
}  // namespace thalweg::tests
