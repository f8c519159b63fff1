// A prefix hit gives the bits of a cold run, at lengths of the shared prefix from 1 to 600 (all of
// them in the slow test), in compact and in full replay; whole prompts; after eviction and refill.
// And hits do happen.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/rng.h"
#include "tests/engine/harness.h"
#include "tests/engine/sweep.h"

namespace thalweg::tests {
namespace {

using engine::GenerateRequest;

constexpr int64_t kLongest = 600;

GenerateRequest WithPrefix(int64_t shared, int64_t own) {
  return tests::WithPrefix(shared, own, 1000 + static_cast<uint64_t>(shared), 2);
}

std::vector<GenerateRequest> EveryLength(int64_t own, int64_t step, int64_t first) {
  std::vector<GenerateRequest> all;
  for (int64_t shared = first; shared <= kLongest; shared += step)
    all.push_back(WithPrefix(shared, own));
  return all;
}

engine::EngineOptions Options(model::ReplayMode replay) {
  engine::EngineOptions options = NanoOptions();
  options.replay = replay;
  options.cache_tokens = 32768;
  options.cache_checkpoints = 256;
  return options;
}

std::vector<Answer> Cold(model::ReplayMode replay, const std::vector<GenerateRequest>& all) {
  engine::EngineOptions options = Options(replay);
  options.prefix_reuse = false;
  return RunAll(*LoadEngine(options), all);
}

int64_t ExpectSame(const std::vector<Answer>& cold, const std::vector<Answer>& hit) {
  int64_t cached = 0;
  for (size_t i = 0; i < cold.size(); ++i) {
    EXPECT_EQ(Difference(cold[i], hit[i]), "") << "request " << i;
    EXPECT_EQ(cold[i].cached_tokens, 0);
    cached += hit[i].cached_tokens;
  }
  return cached;
}

// Known lengths one after the other, then all at once.
void CheckLengths(model::ReplayMode replay, int64_t own, int64_t first) {
  const std::vector<GenerateRequest> all = EveryLength(own, TheEngineSweep().prefix_step, first);
  const std::vector<Answer> cold = Cold(replay, all);
  const auto engine = LoadEngine(Options(replay));
  RunAll(*engine, {WithPrefix(kLongest, 0)});
  const int64_t cached = ExpectSame(cold, RunEach(*engine, all));
  EXPECT_GT(cached, static_cast<int64_t>(all.size()) * 50);
  ExpectSame(cold, RunAll(*engine, all));
}

TEST(Prefix, LengthsCompact) { CheckLengths(model::ReplayMode::kCompact, 20, 1); }
TEST(Prefix, LengthsFull) { CheckLengths(model::ReplayMode::kFull, 3, 1); }

TEST(Prefix, WholePrompts) {
  for (const auto replay : {model::ReplayMode::kCompact, model::ReplayMode::kFull}) {
    const std::vector<GenerateRequest> all = EveryLength(0, 37, 1);
    const std::vector<Answer> cold = Cold(replay, all);
    const auto engine = LoadEngine(Options(replay));
    ExpectSame(cold, RunEach(*engine, all));
    EXPECT_GT(ExpectSame(cold, RunEach(*engine, all)), 0);
  }
}

// So little room that prefixes come and go, in a random order.
TEST(Prefix, EvictionAndRefill) {
  std::vector<GenerateRequest> all = EveryLength(20, 23, 5);
  for (int64_t i = 0; i < 10; ++i) {
    all.push_back(WithPrefix(0, 0));
    all.back().prompt = SomeTokens(100 + 40 * i, 5000 + static_cast<uint64_t>(i));
  }
  const std::vector<Answer> cold = Cold(model::ReplayMode::kCompact, all);
  engine::EngineOptions options = Options(model::ReplayMode::kCompact);
  options.max_context = 700;
  options.cache_tokens = 1408;
  options.cache_checkpoints = 6;
  const auto engine = LoadEngine(options);
  for (uint32_t round = 0; round < 3; ++round) {
    std::vector<size_t> order(all.size());
    std::iota(order.begin(), order.end(), size_t{0});
    for (size_t i = order.size(); i > 1; --i) {
      const auto draw = base::Philox4x32({round, static_cast<uint32_t>(i), 0, 0}, {5, 5})[0];
      std::swap(order[i - 1], order[draw % i]);
    }
    for (const size_t i : order)
      EXPECT_EQ(Difference(cold[i], RunEach(*engine, {all[i]})[0]), "") << "request " << i;
  }
  EXPECT_GT(engine->metrics().scheduler.evicted_blocks, 100u);
  EXPECT_GT(engine->metrics().scheduler.hit_tokens, 0u);
}

// Tenants do not see each other's prefixes.
TEST(Prefix, SaltsDoNotShare) {
  const auto engine = LoadEngine(Options(model::ReplayMode::kCompact));
  GenerateRequest r = WithPrefix(500, 0);
  r.cache_salt = "one";
  EXPECT_EQ(RunEach(*engine, {r, r})[1].cached_tokens > 0, true);
  r.cache_salt = "two";
  EXPECT_EQ(RunEach(*engine, {r})[0].cached_tokens, 0);
}

// One window of replay is another result: the mode does what it says.
TEST(Prefix, BoundedHitsAreCloseButNotEqual) {
  engine::EngineOptions options = Options(model::ReplayMode::kFull);
  options.exactness = sched::PrefixExactness::kBounded;
  options.cache_checkpoints = 0;
  const std::vector<GenerateRequest> all = EveryLength(20, 60, 250);
  const std::vector<Answer> cold = Cold(model::ReplayMode::kFull, all);
  const auto engine = LoadEngine(options);
  RunAll(*engine, {WithPrefix(kLongest, 0)});
  const std::vector<Answer> hit = RunEach(*engine, all);
  int different = 0;
  for (size_t i = 0; i < all.size(); ++i) different += hit[i] == cold[i] ? 0 : 1;
  EXPECT_GT(different, 0);
  EXPECT_GT(engine->metrics().scheduler.replayed_tokens, 0u);
}

}  // namespace
}  // namespace thalweg::tests
