// Interrupted at every point and at every depth of overlap - cancelled, preempted, failed - what
// goes on goes on to the same tokens, and what ends ends once.
#include <gtest/gtest.h>

#include <functional>

#include "sched/test_bench.h"

namespace thalweg::sched {
namespace {

// A fixed piece of work, interrupted after `steps` plans and results by `interrupt`.
void RunInterrupted(const SchedulerOptions& o, int64_t calls,
                    const std::function<void(Bench*)>& interrupt, Bench* b) {
  for (uint64_t i = 1; i <= 3; ++i) {
    Request r = MakeRequest(i, 150, 20, 100, static_cast<int32_t>(i));
    r.sampling.seed = i;
    b->Submit(r);
  }
  for (int64_t call = 0; call < calls; ++call) {
    // As far ahead as possible on even calls, catching up on odd ones.
    if (call % (o.overlap_depth + 2) == 0 || !b->Plan()) b->Advance();
  }
  interrupt(b);
  b->Run();
  EXPECT_TRUE(b->scheduler.idle());
  b->ExpectNaive();
}

class Interrupted : public testing::TestWithParam<int64_t> {
 protected:
  SchedulerOptions TightOptions() const {
    SchedulerOptions o = Options();
    o.max_rows = 64;
    o.overlap_depth = GetParam();
    return o;
  }
};

TEST_P(Interrupted, CancellingAtEveryPointHurtsNobodyElse) {
  const SchedulerOptions o = TightOptions();
  for (int64_t calls = 0; calls < 60; ++calls) {
    for (const uint64_t victim : {1u, 2u, 3u}) {
      Bench b(o);
      RunInterrupted(
          o, calls, [victim](Bench* x) { x->scheduler.Stop(victim); }, &b);
      for (uint64_t i = 1; i <= 3; ++i) {
        ASSERT_TRUE(b.outcomes[i].finish.has_value());
        EXPECT_TRUE(i == victim || b.outcomes[i].tokens.size() == 20u) << calls;
      }
    }
  }
}

TEST_P(Interrupted, AFailedStepEndsItsSequencesAlone) {
  const SchedulerOptions o = TightOptions();
  for (int64_t calls = 0; calls < 60; ++calls) {
    Bench b(o);
    std::vector<uint64_t> hit;
    const auto fail = [&hit](Bench* x) {
      x->Advance();
      if (!x->Plan(true)) return;
      for (const step::SequenceRows& r : x->plan.rows) hit.push_back(r.sequence);
    };
    RunInterrupted(o, calls, fail, &b);
    for (uint64_t i = 1; i <= 3; ++i) {
      const bool failed = std::find(hit.begin(), hit.end(), i) != hit.end();
      // One that had ended by its length when the step failed has no row in it.
      ASSERT_EQ(b.outcomes[i].finish, failed ? Finish::kError : Finish::kLength) << calls;
      EXPECT_EQ(b.outcomes[i].status.ok(), !failed);
    }
  }
}

// A higher request that needs the only free slot at every point: preemption everywhere.
TEST_P(Interrupted, PreemptingAtEveryPointChangesNoToken) {
  SchedulerOptions o = TightOptions();
  o.max_sequences = 3;
  int preempted = 0;
  for (int64_t calls = 0; calls < 60; ++calls) {
    Bench b(o);
    const auto push = [](Bench* x) {
      Request high = MakeRequest(9, 40, 3, 0, 5);
      high.priority = 5;
      x->Submit(high);
    };
    RunInterrupted(o, calls, push, &b);
    for (uint64_t i = 1; i <= 3; ++i) {
      EXPECT_EQ(b.outcomes[i].tokens.size(), 20u);
      preempted += b.outcomes[i].preempted;
    }
    EXPECT_EQ(b.outcomes[9].tokens.size(), 3u);
  }
  EXPECT_GT(preempted, 10);
}

TEST_P(Interrupted, ForcedPreemptionChangesNoToken) {
  SchedulerOptions o = TightOptions();
  for (uint64_t every = 1; every <= 6; ++every) {
    o.preempt_every = every;
    Bench b(o);
    RunInterrupted(
        o, 0, [](Bench*) {}, &b);
    EXPECT_GT(b.scheduler.stats().preempted, 0u);
  }
}

INSTANTIATE_TEST_SUITE_P(Depths, Interrupted, testing::Values(0, 1, 2, 3));

}  // namespace
}  // namespace thalweg::sched
