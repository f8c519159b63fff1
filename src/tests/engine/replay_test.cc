// Exact replay on the real model: prefixes so long that a hit without a checkpoint is replayed (a
// window for every layer), and checkpoints that replayed sequences left, give the bits of a cold
// run.
#include <gtest/gtest.h>

#include "tests/engine/harness.h"

namespace thalweg::tests {
namespace {

engine::GenerateRequest Branching(int64_t shared, int64_t own, uint64_t seed) {
  engine::GenerateRequest r;
  std::vector<int32_t> prompt = SomeTokens(shared, 4);
  const std::vector<int32_t> rest = SomeTokens(own, seed);
  prompt.insert(prompt.end(), rest.begin(), rest.end());
  r.prompt = prompt;
  r.max_tokens = 3;
  r.sampling.temperature = 0;
  r.sampling.ignore_eos = true;
  r.sampling.logprobs = 20;
  return r;
}

// The first leaves no checkpoint that the others could use: the second is replayed.
void CheckReplay(model::ReplayMode replay, int64_t checkpoints) {
  engine::EngineOptions options = NanoOptions();
  options.replay = replay;
  options.cache_tokens = 16384;
  options.cache_checkpoints = checkpoints;
  options.checkpoint_interval = 16384;
  const std::vector<engine::GenerateRequest> all = {Branching(1900, 200, 1), Branching(1900, 20, 2),
                                                    Branching(1900, 33, 3), Branching(1900, 20, 4)};
  const auto engine = LoadEngine(options);
  const std::vector<Answer> hit = RunEach(*engine, all);
  options.prefix_reuse = false;
  const std::vector<Answer> cold = RunEach(*LoadEngine(options), all);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(Difference(cold[i], hit[i]), "") << "request " << i;
    EXPECT_EQ(hit[i].cached_tokens > 0, i > 0);
  }
  EXPECT_GT(engine->metrics().scheduler.replayed_tokens, 0u);
}

TEST(Replay, Full) { CheckReplay(model::ReplayMode::kFull, 64); }
TEST(Replay, FullWithoutCheckpoints) { CheckReplay(model::ReplayMode::kFull, 0); }
TEST(Replay, Compact) { CheckReplay(model::ReplayMode::kCompact, 64); }
TEST(Replay, CompactWithoutCheckpoints) { CheckReplay(model::ReplayMode::kCompact, 0); }

}  // namespace
}  // namespace thalweg::tests
