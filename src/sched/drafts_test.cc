// Drafts change how many steps a text takes, and no token of it.
#include "sched/test_bench.h"

namespace thalweg::sched {
namespace {

SchedulerOptions WithDrafts(int64_t depth) {
  SchedulerOptions o = Options();
  o.draft_tokens = 5;
  o.overlap_depth = depth;
  o.checkpoint_interval_tokens = 64;
  return o;
}

class Drafts : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Depths, Drafts, testing::Values(0, 1, 2, 3));

TEST_P(Drafts, BringTheSameTokensInFewerSteps) {
  Bench bench(WithDrafts(GetParam()));
  for (uint64_t i = 1; i <= 4; ++i) bench.Submit(MakeRequest(i, 40 * static_cast<int64_t>(i), 300));
  bench.Run();
  bench.ExpectNaive();
  for (const auto& [number, outcome] : bench.outcomes) EXPECT_EQ(outcome.tokens.size(), 300u);
  const SchedulerStats stats = bench.scheduler.stats();
  EXPECT_LT(stats.plans, 200u);
  EXPECT_GT(stats.accepted, 4u * 150);
  EXPECT_GT(stats.drafted, stats.accepted);
}

// Near the end of the length a plan may find that those before it have brought everything.
TEST_P(Drafts, EndAtTheLength) {
  for (int64_t max_tokens = 1; max_tokens <= 20; ++max_tokens) {
    Bench bench(WithDrafts(GetParam()));
    bench.Submit(MakeRequest(1, 61, max_tokens));
    bench.Run();
    bench.ExpectNaive();
    EXPECT_EQ(bench.outcomes[1].tokens.size(), static_cast<size_t>(max_tokens));
    EXPECT_EQ(bench.outcomes[1].finish, Finish::kLength);
  }
}

// Where a step will end is not known when it is planned: the rank stops at the block's end.
TEST_P(Drafts, LeaveCheckpointsInWhatWasGenerated) {
  Bench bench(WithDrafts(GetParam()));
  bench.Submit(MakeRequest(1, 50, 500));
  bench.Run();
  Request next = MakeRequest(2, 50, 5);
  const std::vector<int32_t>& tokens = bench.outcomes[1].tokens;
  next.prompt.insert(next.prompt.end(), tokens.begin(), tokens.end());
  const int64_t rows = bench.device.rows_run();
  bench.Submit(next);
  bench.Run();
  bench.ExpectNaive();
  EXPECT_GE(bench.outcomes[2].cached_tokens, 448);
  EXPECT_LT(bench.device.rows_run() - rows, 150);
}

// One row each comes first; what is left is shared.
TEST_P(Drafts, ShareTheRowsOfAStep) {
  SchedulerOptions o = WithDrafts(GetParam());
  o.max_rows = 16;
  Bench bench(o);
  for (uint64_t i = 1; i <= 8; ++i)
    bench.Submit(MakeRequest(i, 10, 100, 0, static_cast<int32_t>(i)));
  bench.Run();
  bench.ExpectNaive();
  EXPECT_GT(bench.scheduler.stats().accepted, 100u);
}

// Constrained sequences alone have drafts when those are of forced text.
TEST_P(Drafts, OfForcedTextAreThoseOfConstrainedSequences) {
  SchedulerOptions o = WithDrafts(GetParam());
  o.draft_tokens = 0;
  o.forced_tokens = 11;
  Bench bench(o);
  for (uint64_t i = 1; i <= 2; ++i) {
    Request r = MakeRequest(i, 30, 200, 0, static_cast<int32_t>(i));
    r.sampling.constrained = i == 1;
    bench.Submit(r);
  }
  int64_t most = 0;
  while (bench.Plan() || bench.Advance()) {
    for (const step::SequenceRows& rows : bench.plan.rows) {
      if (rows.known_tokens) continue;
      if (rows.sequence == 1) {
        most = std::max<int64_t>(most, rows.count);
      } else {
        EXPECT_EQ(rows.count, 1);
      }
    }
  }
  EXPECT_EQ(most, 12);
  bench.ExpectNaive();
}

// Where no draft runs, prompts have the rows that drafts would be given: as many plans as without,
// but for a prompt so long that a rank might want to try drafts meanwhile.
TEST(DraftsThatStopped, LeaveTheirRowsToPrompts) {
  const auto plans_with = [](int64_t draft_tokens, bool run, int64_t prompt) {
    SchedulerOptions o = WithDrafts(0);
    o.draft_tokens = draft_tokens;
    o.max_rows = 64;
    Bench bench(o);
    bench.device.set_runs_drafts(run);
    for (uint64_t i = 1; i <= 7; ++i) bench.Submit(MakeRequest(i, 10, 400));
    while (bench.scheduler.stats().plans < 50 && (bench.Plan() || bench.Advance())) {
    }
    const uint64_t before = bench.scheduler.stats().plans;
    bench.Submit(MakeRequest(9, prompt, 1));
    while (!bench.outcomes.contains(9) || bench.outcomes[9].tokens.empty())
      if (!bench.Plan() && !bench.Advance()) break;
    return bench.scheduler.stats().plans - before;
  };
  EXPECT_EQ(plans_with(5, false, 700), plans_with(0, false, 700));
  const uint64_t without = plans_with(0, false, 1000), stopped = plans_with(5, false, 1000);
  EXPECT_GE(stopped, without);
  EXPECT_LE(stopped, without + 1);
  EXPECT_GT(plans_with(5, true, 1000), stopped);
}

}  // namespace
}  // namespace thalweg::sched
