// The scheduler's promises one by one: who runs, who waits, what is shared, and how things end.
#include "sched/scheduler.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sched/test_bench.h"

namespace thalweg::sched {
namespace {

TEST(Submit, ErrorsAreTypedAndLeaveNothingBehind) {
  SchedulerOptions o = Options();
  o.context_tokens = 300;
  o.blocks = 4;
  Scheduler s(o);
  EXPECT_EQ(s.Submit(MakeRequest(1, 0, 1)).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(s.Submit(MakeRequest(1, 5, 0)).code(), base::Code::kInvalidArgument);
  EXPECT_EQ(s.Submit(MakeRequest(1, 300, 1)).code(), base::Code::kOutOfRange);
  EXPECT_EQ(s.Submit(MakeRequest(1, 200, 100)).code(), base::Code::kOutOfRange) << "five blocks";
  EXPECT_TRUE(s.idle());
  EXPECT_TRUE(s.Submit(MakeRequest(1, 200, 50)).ok());
  EXPECT_EQ(s.Submit(MakeRequest(1, 5, 1)).code(), base::Code::kInvalidArgument)
      << "a number twice";
  EXPECT_FALSE(s.idle());
}

TEST(Options, ContradictionsAreNamed) {
  SchedulerOptions o = Options();
  EXPECT_TRUE(Scheduler::Check(o).ok());
  o.checkpoint_interval_tokens = 100;
  EXPECT_NE(Scheduler::Check(o).message().find("checkpoint_interval_tokens"), std::string::npos);
  o = Options();
  o.admission_growth = std::nan("");
  EXPECT_FALSE(Scheduler::Check(o).ok());
  o = Options();
  o.reach.encoder_layers = 7;
  EXPECT_FALSE(Scheduler::Check(o).ok());
}

TEST(Plans, DecodeRowsComeFirstAndChunksFillTheBudget) {
  SchedulerOptions o = Options();
  o.overlap_depth = 0;
  o.prefix_reuse = false;
  Bench b(o);
  b.Submit(MakeRequest(1, 10, 50));
  b.Step();
  b.Submit(MakeRequest(2, 600, 5, 0, 1));
  b.Plan();
  EXPECT_EQ(b.RowsOf(1), 1);
  EXPECT_EQ(b.RowsOf(2), 255);
  EXPECT_EQ(b.plan.rows[0].sequence, 1u);
  b.Run();
  b.ExpectNaive();
}

TEST(Plans, NeitherDecodeNorPrefillStarves) {
  for (const int64_t rows : {1, 4, 8}) {
    SchedulerOptions o = Options();
    o.max_rows = rows;
    o.max_sequences = 9;
    o.prefix_reuse = false;
    Bench b(o);
    for (uint64_t i = 1; i <= 8; ++i) b.Submit(MakeRequest(i, 1, 400, 0, static_cast<int32_t>(i)));
    b.Run(60);
    b.Submit(MakeRequest(9, 20, 1, 0, 9));
    std::vector<size_t> before(9);
    for (uint64_t i = 1; i <= 8; ++i) before[i] = b.outcomes[i].tokens.size();
    b.Run(160);
    EXPECT_TRUE(b.outcomes[9].finish.has_value()) << rows << " rows";
    for (uint64_t i = 1; i <= 8; ++i) {
      EXPECT_GE(b.outcomes[i].tokens.size(), before[i] + 5) << rows << " rows";
    }
  }
}

TEST(Plans, NoRowBehindTheEndIsPlannedAhead) {
  SchedulerOptions o = Options();
  o.overlap_depth = 3;
  Bench b(o);
  b.Submit(MakeRequest(1, 3, 2));
  while (b.Plan()) {
  }
  EXPECT_EQ(b.device.rows_run(), 4) << "three of the prompt, one to sample the second token";
  b.Run();
  EXPECT_EQ(b.outcomes[1].finish, Finish::kLength);
  EXPECT_EQ(b.outcomes[1].tokens.size(), 2u);
}

TEST(Plans, TheContextEndsASequence) {
  SchedulerOptions o = Options();
  o.context_tokens = 20;
  Bench b(o);
  b.Submit(MakeRequest(1, 15, 100));
  b.Run();
  EXPECT_EQ(b.outcomes[1].finish, Finish::kContext);
  EXPECT_EQ(b.outcomes[1].tokens.size(), 5u);
}

TEST(Plans, DepthIsKept) {
  for (const int64_t depth : {0, 1, 3}) {
    SchedulerOptions o = Options();
    o.overlap_depth = depth;
    Bench b(o);
    b.Submit(MakeRequest(1, 3, 50));
    int64_t planned = 0;
    while (b.Plan()) ++planned;
    EXPECT_EQ(planned, depth + 1);
    EXPECT_EQ(b.scheduler.plans_in_flight(), depth + 1);
  }
}

TEST(Sharing, ManyWithOnePrefixComputeItOnce) {
  SchedulerOptions o = Options();
  o.max_sequences = 64;
  o.max_rows = 512;
  Bench b(o);
  for (uint64_t i = 1; i <= 64; ++i) {
    Request r = MakeRequest(i, 520, 16, 500, static_cast<int32_t>(i));
    r.decoder_from = 520 - 140;
    b.Submit(r);
  }
  b.Plan();
  EXPECT_EQ(b.scheduler.stats().held, 63);
  b.Run();
  b.ExpectNaive();
  const SchedulerStats stats = b.scheduler.stats();
  EXPECT_EQ(stats.prefill_rows, 520u + 63u * 72u) << "one cold, the others from the branch";
  EXPECT_EQ(b.outcomes[64].cached_tokens, 448);
  EXPECT_EQ(stats.preempted, 0u);
}

TEST(Sharing, TheFirstToBranchOffLeavesACheckpointForTheNext) {
  Bench b(Options());
  for (uint64_t i = 1; i <= 3; ++i) {
    b.Submit(MakeRequest(i, 400, 4, 300, static_cast<int32_t>(i)));
    b.Run();
  }
  b.ExpectNaive();
  // Windows of 16 in six layers: 90 rows before the 256 shared ones end.
  EXPECT_EQ(b.outcomes[2].cached_tokens, 256 - 90);
  EXPECT_EQ(b.outcomes[3].cached_tokens, 256);
}

TEST(Sharing, TheSamePromptAgainRunsItsLastBlockAlone) {
  Bench b(Options());
  for (uint64_t i = 1; i <= 8; ++i) {
    Request r = MakeRequest(i, 300, 4);
    r.sampling.seed = i;
    b.Submit(r);
  }
  b.Run();
  b.ExpectNaive();
  EXPECT_EQ(b.scheduler.stats().prefill_rows, 300u + 7u * (300 - 256));
}

TEST(Sharing, TheSameTruncatedPromptToo) {
  Bench b(Options());
  for (uint64_t i = 1; i <= 8; ++i) {
    Request r = MakeRequest(i, 300, 4);
    r.decoder_from = 160;
    b.Submit(r);
  }
  b.Run();
  b.ExpectNaive();
  EXPECT_EQ(b.scheduler.stats().prefill_rows, 300u + 7u * (300 - 256));
}

TEST(Sharing, PromptsCutElsewhereShareTheEncoder) {
  SchedulerOptions o = Options();
  o.reach.window = 64;
  Bench b(o);
  for (uint64_t i = 1; i <= 4; ++i) {
    Request r = MakeRequest(i, 500 + static_cast<int64_t>(i) * 40, 4, 450, static_cast<int32_t>(i));
    r.decoder_from = static_cast<int64_t>(r.prompt.size()) - 140;
    b.Submit(r);
  }
  b.Run();
  b.ExpectNaive();
  EXPECT_EQ(b.outcomes[2].cached_tokens, 384) << "the last block before the first one's cut";
}

TEST(Sharing, GeneratedTokensAreFoundByTheNextTurn) {
  Bench b(Options());
  b.Submit(MakeRequest(1, 100, 200));
  b.Run();
  Request next = MakeRequest(2, 100, 4);
  next.prompt.insert(next.prompt.end(), b.outcomes[1].tokens.begin(), b.outcomes[1].tokens.end());
  next.prompt.push_back(7);
  b.Submit(next);
  b.Run();
  b.ExpectNaive();
  EXPECT_GT(b.outcomes[2].cached_tokens, 100);
}

TEST(Sharing, WhoMayNotReuseNeitherTakesNorWaits) {
  Bench b(Options());
  b.Submit(MakeRequest(1, 300, 4));
  Request own = MakeRequest(2, 300, 4);
  own.may_reuse = false;
  b.Submit(own);
  Request all_rows = MakeRequest(3, 300, 4);
  all_rows.sampling.prompt_logprobs = 0;
  b.Submit(all_rows);
  Request salted = MakeRequest(4, 300, 4);
  salted.salt = "tenant";
  b.Submit(salted);
  b.Plan();
  EXPECT_EQ(b.scheduler.stats().held, 0);
  b.Run();
  b.ExpectNaive();
  EXPECT_EQ(b.scheduler.stats().prefill_rows, 1200u);
  EXPECT_EQ(b.scheduler.stats().hit_tokens, 0u);
}

TEST(Sharing, AHeldRequestGoesOnWhenItsProducerDies) {
  SchedulerOptions o = Options();
  o.max_rows = 2048;
  Bench b(o);
  b.Submit(MakeRequest(1, 2000, 4));
  b.Submit(MakeRequest(2, 2000, 4));
  b.Plan();
  EXPECT_EQ(b.scheduler.stats().held, 1);
  b.scheduler.Stop(1);
  b.Run();
  EXPECT_EQ(b.outcomes[1].finish, Finish::kCancelled);
  EXPECT_EQ(b.outcomes[2].finish, Finish::kLength);
  b.ExpectNaive();
}

TEST(Sharing, OthersPassTheHeld) {
  Bench b(Options());
  b.Submit(MakeRequest(1, 2000, 4));
  b.Submit(MakeRequest(2, 2000, 4));
  b.Submit(MakeRequest(3, 20, 4, 0, 1));
  b.Run();
  EXPECT_LT(b.outcomes[3].first_plan, b.outcomes[2].first_plan);
}

TEST(Sharing, ALongPromptLeavesMostCheckpointSlotsToOthers) {
  SchedulerOptions o = Options();
  o.checkpoints = 16;
  o.checkpoint_interval_tokens = 64;
  Bench b(o);
  b.Submit(MakeRequest(1, 4000, 1));
  b.Run();
  EXPECT_LE(b.scheduler.stats().checkpoints_used, 16 / 4 + 1);
  EXPECT_GE(b.scheduler.stats().checkpoints_used, 3);
}

TEST(Sharing, IntervalsCostLessThanABlockOfAStep) {
  SchedulerOptions o = Options();
  o.max_rows = 200;
  o.checkpoint_interval_tokens = 256;
  o.overlap_depth = 0;
  Bench b(o);
  b.Submit(MakeRequest(1, 2000, 1));
  int64_t steps = 0;
  for (; b.Plan(); ++steps) {
    EXPECT_TRUE(b.plan.rows[0].start + 200 >= 1984 || b.RowsOf(1) > 200 - 64);
    b.Advance();
  }
  EXPECT_LE(steps, 14);
  EXPECT_GE(b.scheduler.stats().checkpoints_used, 5);
}

TEST(Plans, RowsKeptForPromptsThatCannotBeginAreGivenBack) {
  SchedulerOptions o = Options();
  o.max_rows = 1;
  o.blocks = 4;
  Bench b(o);
  b.Submit(MakeRequest(1, 10, 200));
  b.Submit(MakeRequest(2, 10, 200, 0, 1));
  b.Run();
  b.ExpectNaive();
  EXPECT_EQ(b.outcomes[1].tokens.size(), 200u);
  EXPECT_EQ(b.outcomes[2].tokens.size(), 200u);
}

TEST(Sharing, MissesSayWhy) {
  SchedulerOptions o = Options();
  o.blocks = 8;
  o.checkpoints = 0;
  Bench b(o);
  const auto run = [&b](uint64_t number, int32_t own) {
    b.Submit(MakeRequest(number, 500, 1, 0, own));
    b.Run();
  };
  run(1, 0);
  EXPECT_EQ(b.scheduler.stats().miss_no_block, 1u);
  run(2, 1);
  EXPECT_EQ(b.scheduler.stats().miss_no_block, 2u);
  run(3, 0);
  EXPECT_EQ(b.scheduler.stats().miss_evicted, 1u);
  b.scheduler.DropCache();
  b.Submit(MakeRequest(4, 65, 1));
  b.Run();
  b.Submit(MakeRequest(5, 65, 1));
  b.Run();
  EXPECT_EQ(b.scheduler.stats().miss_no_checkpoint, 1u) << "a block, and too near the beginning";
}

TEST(Memory, WorstCaseAdmissionNeverPreempts) {
  SchedulerOptions o = Options();
  o.blocks = 10;
  o.prefix_reuse = false;
  Bench b(o);
  for (uint64_t i = 1; i <= 6; ++i) b.Submit(MakeRequest(i, 100, 150, 0, static_cast<int32_t>(i)));
  b.Step();
  EXPECT_EQ(b.scheduler.stats().running, 2) << "four blocks each";
  b.Run();
  b.ExpectNaive();
  EXPECT_EQ(b.scheduler.stats().preempted, 0u);
  for (const auto& [number, outcome] : b.outcomes) EXPECT_EQ(outcome.finish, Finish::kLength);
}

TEST(Memory, OptimisticAdmissionPreemptsTheLatestAndLosesNothing) {
  for (const int64_t depth : {0, 1, 3}) {
    SchedulerOptions o = Options();
    o.blocks = 10;
    o.admission_growth = 0;
    o.overlap_depth = depth;
    Bench b(o);
    for (uint64_t i = 1; i <= 6; ++i) {
      b.Submit(MakeRequest(i, 100, 150, 0, static_cast<int32_t>(i)));
    }
    b.Run();
    b.ExpectNaive();
    EXPECT_GT(b.scheduler.stats().preempted, 0u);
    EXPECT_EQ(b.outcomes[1].preempted, 0) << "the first is never the latest";
    for (const auto& [number, outcome] : b.outcomes) {
      EXPECT_EQ(outcome.finish, Finish::kLength);
      EXPECT_EQ(outcome.tokens.size(), 150u);
    }
  }
}

TEST(Priority, HigherRunsFirstAndTakesThePlaceOfLower) {
  SchedulerOptions o = Options();
  o.max_sequences = 1;
  Bench b(o);
  Request low = MakeRequest(1, 100, 50);
  low.priority = -1;
  b.Submit(low);
  b.Run(10);
  b.Submit(MakeRequest(2, 100, 5, 0, 1));
  b.Run(10);
  EXPECT_EQ(b.outcomes[1].preempted, 1);
  EXPECT_EQ(b.outcomes[2].finish, Finish::kLength);
  b.Run();
  b.ExpectNaive();
  EXPECT_EQ(b.outcomes[1].tokens.size(), 50u);
}

TEST(Priority, EqualsDoNotPreemptOneAnother) {
  SchedulerOptions o = Options();
  o.max_sequences = 1;
  Bench b(o);
  for (uint64_t i = 1; i <= 4; ++i) b.Submit(MakeRequest(i, 100, 9, 0, static_cast<int32_t>(i)));
  b.Run();
  EXPECT_EQ(b.scheduler.stats().preempted, 0u);
  for (uint64_t i = 2; i <= 4; ++i)
    EXPECT_GT(b.outcomes[i].first_plan, b.outcomes[i - 1].first_plan);
}

TEST(Priority, AgeingBoundsTheWait) {
  SchedulerOptions o = Options();
  o.max_sequences = 1;
  o.ageing_steps = 16;
  Bench b(o);
  Request low = MakeRequest(1, 10, 5);
  low.priority = -2;
  // A stream of higher ones that would never let it in.
  uint64_t number = 10;
  for (int64_t step = 0; step < 400 && !b.outcomes[1].finish.has_value(); ++step) {
    if (step % 3 == 0) b.Submit(MakeRequest(number++, 10, 5, 0, 1));
    if (step == 1) b.Submit(low);
    b.Step();
  }
  EXPECT_TRUE(b.outcomes[1].finish.has_value());
  EXPECT_EQ(b.outcomes[1].preempted, 0) << "ageing that let it in is not undone";
}

TEST(Ends, StopComesOnceAndStoppingTheUnknownIsHarmless) {
  Bench b(Options());
  b.scheduler.Stop(99);
  b.Submit(MakeRequest(1, 10, 5));
  b.scheduler.Stop(1, Finish::kStopToken);
  b.scheduler.Stop(1);
  b.TakeEvents();
  EXPECT_EQ(b.outcomes[1].finish, Finish::kStopToken);
  EXPECT_TRUE(b.scheduler.idle());
  EXPECT_FALSE(b.Plan());
}

TEST(Ends, AnEndTokenDropsWhatWasPlannedBehindIt) {
  for (const int64_t depth : {0, 1, 3}) {
    SchedulerOptions o = Options();
    o.overlap_depth = depth;
    Bench b(o);
    Request r = MakeRequest(1, 10, 200);
    const auto naive = NaiveTokens(o.reach, r.prompt, 0, 0, 200);
    r.sampling.end_tokens = {naive[7]};
    const auto length = std::find(naive.begin(), naive.end(), naive[7]) - naive.begin() + 1;
    b.Submit(r);
    b.Run();
    EXPECT_EQ(b.outcomes[1].finish, Finish::kEndToken);
    EXPECT_EQ(static_cast<int64_t>(b.outcomes[1].tokens.size()), length);
    EXPECT_LE(b.device.rows_run(), 10 + length - 1 + depth);
  }
}

}  // namespace
}  // namespace thalweg::sched
