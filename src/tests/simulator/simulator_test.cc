// Whatever happens to requests (chunks, overlap, preemption, shared prefixes, cancellation, stop
// strings, failures of steps and sequences), each ends exactly once with the tokens that it gets
// alone, and the scheduler's invariants hold after every event.
#include <gtest/gtest.h>

#include "tests/simulator/simulation.h"

namespace thalweg::tests {
namespace {

TEST(Simulator, EveryHistoryKeepsEveryPromise) {
  SimulationReport sum;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const SimulationReport report = Simulate(seed, 800);
    ASSERT_EQ(report.problem, "") << "seed " << seed << ", step " << report.steps;
    sum.sequences += report.sequences;
    sum.stopped_by_string += report.stopped_by_string;
    sum.cancelled += report.cancelled;
    sum.failed += report.failed;
    sum.stats.preempted += report.stats.preempted;
    sum.stats.hit_tokens += report.stats.hit_tokens;
  }
  // Each kind of history did occur.
  EXPECT_GT(sum.sequences, 3000u);
  EXPECT_GT(sum.stopped_by_string, 100u);
  EXPECT_GT(sum.cancelled, 50u);
  EXPECT_GT(sum.failed, 50u);
  EXPECT_GT(sum.stats.preempted, 300u);
  EXPECT_GT(sum.stats.hit_tokens, 10000u);
}

TEST(Simulator, TheSameSeedIsTheSameHistory) {
  for (uint64_t seed = 50; seed < 53; ++seed) {
    const SimulationReport a = Simulate(seed, 300), b = Simulate(seed, 300);
    EXPECT_EQ(a.steps, b.steps);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.stats.prefill_rows, b.stats.prefill_rows);
  }
}

}  // namespace
}  // namespace thalweg::tests
