// Exact replay on the real model: prefixes so long that a hit without a checkpoint is replayed (a
// window for every layer), and checkpoints that replayed sequences left, give the bits of a cold
// run.
#include <gtest/gtest.h>

#include "tests/engine/harness.h"

namespace thalweg::tests {
namespace {

// The first leaves no checkpoint that the others could use: the second is replayed.
void CheckReplay(model::ReplayMode replay, int64_t checkpoints) {
  engine::EngineOptions options = NanoOptions();
  options.replay = replay;
  options.cache_tokens = 16384;
  options.cache_checkpoints = checkpoints;
  options.checkpoint_interval = 16384;
  const std::vector<engine::GenerateRequest> all = {
      WithPrefix(1900, 200, 1, 3), WithPrefix(1900, 20, 2, 3), WithPrefix(1900, 33, 3, 3),
      WithPrefix(1900, 20, 4, 3)};
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
