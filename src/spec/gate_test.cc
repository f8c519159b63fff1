// Drafting stops where it does not pay and starts where it does, with patience in between; what
// speaks against it is looked at again from time to time; the answers follow from what was observed
// alone.
#include "spec/gate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

// A budget whose drafts bring that gain.
Budget WithGain(double gain) {
  return {.drafts = 3, .tokens = gain, .seconds = 1, .plain_seconds = 1, .plain_rate = 1};
}

// Steps until the gate changes its mind.
int StepsUntil(LoadGate* gate, bool open, double gain) {
  for (int i = 1; i < 1000; ++i) {
    gate->Step(WithGain(gain));
    if (gate->open() == open) return i;
  }
  return -1;
}

TEST(LoadGate, ClosesAndOpensWhenWhatIsLostAddsUp) {
  LoadGate gate;
  EXPECT_TRUE(gate.open());
  EXPECT_EQ(StepsUntil(&gate, false, 0.5), 1);
  EXPECT_EQ(StepsUntil(&gate, true, 2), 1);
  EXPECT_NEAR(StepsUntil(&gate, false, 0.95), 5, 1);
  EXPECT_NEAR(StepsUntil(&gate, true, 1.07), 20, 1);    // the second mistake in a row
  EXPECT_EQ(StepsUntil(&gate, false, 1.005), -1);       // enough to go on
  EXPECT_NEAR(StepsUntil(&gate, false, 0.99), 275, 2);  // and half of what that brought
  EXPECT_EQ(StepsUntil(&gate, true, 1.015), -1);        // not enough to start
}

TEST(LoadGate, GainsMakeUpForLosses) {
  LoadGate gate;
  for (int i = 0; i < 200; ++i) {
    gate.Step(WithGain(0.9));
    gate.Step(WithGain(1.1));
  }
  EXPECT_TRUE(gate.open());
}

// A hard stretch of text does not close what has paid; hard text for good does, and so does
// another load at once.
TEST(LoadGate, HalfOfWhatWasGainedMayBeLostAgain) {
  LoadGate gate;
  for (int i = 0; i < 100; ++i) gate.Step(WithGain(2));
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(gate.Step(WithGain(0.8)).draft);
  EXPECT_NEAR(StepsUntil(&gate, false, 0.8), 41, 2);
  LoadGate few;
  for (int i = 0; i < 6; ++i) few.Step(WithGain(1.2));  // 0.6 steps
  EXPECT_NEAR(StepsUntil(&few, false, 0.8), 4, 1);
  LoadGate changed;
  for (int i = 0; i < 100; ++i) changed.Step(WithGain(2));
  const Budget more = {
      .drafts = 3, .tokens = 0.5, .seconds = 0.1, .plain_seconds = 0.1, .plain_rate = 20};
  EXPECT_FALSE(changed.Step(more).draft);
  EXPECT_FALSE(changed.open());
}

// Each try behind steps that write the context, and twice as far from the one before, up to a
// limit.
TEST(LoadGate, TriesAgainSeldomerAndSeldomer) {
  LoadGate gate;
  EXPECT_FALSE(gate.Step(WithGain(0.5)).draft);
  std::vector<int64_t> tries;
  int64_t listened = 0;
  constexpr int64_t kSteps = 100'000;
  for (int64_t i = 1; i < kSteps; ++i) {
    const LoadGate::Answer answer = gate.Step(WithGain(0.5));
    listened += answer.context ? 1 : 0;
    if (answer.draft) tries.push_back(i);
  }
  EXPECT_FALSE(gate.open());
  ASSERT_GE(tries.size(), 8u);
  EXPECT_EQ(listened / LoadGate::kListenSteps, static_cast<int64_t>(tries.size()));
  EXPECT_LT(static_cast<double>(listened), 0.01 * kSteps);
  int64_t before = 0;
  for (size_t i = 1; i < tries.size(); ++i) {
    const int64_t gap = tries[i] - tries[i - 1];
    EXPECT_GE(gap, before);
    EXPECT_LE(gap, LoadGate::kLongestWait + LoadGate::kListenSteps);
    before = gap;
  }
}

// A try that loses ten steps comes no more often than its share of the time allows.
TEST(LoadGate, DearTriesAreRarer) {
  LoadGate gate;
  const Budget dear = {
      .drafts = 3, .tokens = 1, .seconds = 11, .plain_seconds = 1, .plain_rate = 1};
  int64_t step = 0;
  while (!gate.Step(dear).draft || gate.open()) ++step;
  EXPECT_GE(static_cast<double>(step) * LoadGate::kTryShare, 12);
}

// What begins again has a context before it has drafts.
TEST(LoadGate, ListensBeforeItDraftsAgain) {
  LoadGate gate;
  while (gate.Step(WithGain(0.5)).draft) {
  }
  for (int64_t i = 0; i < 40; ++i) EXPECT_FALSE(gate.Step(WithGain(0.5)).context);
  EXPECT_FALSE(gate.context());
  int64_t listened = 0;
  while (true) {
    const LoadGate::Answer answer = gate.Step(WithGain(3));
    EXPECT_TRUE(answer.context);
    if (answer.draft) break;
    ++listened;
  }
  EXPECT_EQ(listened, LoadGate::kListenSteps);
  EXPECT_TRUE(gate.open());
}

// Whoever changes its mind for nothing has to be told more clearly, until it stays for a while.
TEST(LoadGate, AsksForMoreAfterMistakes) {
  LoadGate gate;
  std::vector<int> steps;
  for (int i = 0; i < 5; ++i) {
    StepsUntil(&gate, false, 0.5);
    steps.push_back(StepsUntil(&gate, true, 1.12));
  }
  for (size_t i = 1; i < steps.size(); ++i) EXPECT_GT(steps[i], steps[i - 1]);
  for (int64_t i = 0; i < LoadGate::kSettledSteps; ++i) gate.Step(WithGain(1.1));
  StepsUntil(&gate, false, 0.5);
  EXPECT_LE(StepsUntil(&gate, true, 1.12), 3);
}

TEST(SequenceGate, PausesLongerAndLongerAndComesBack) {
  SequenceGate gate;
  for (int i = 0; i < SequenceGate::kIdleBlocks; ++i) {
    EXPECT_TRUE(gate.Step());
    gate.Observe(0);
  }
  for (int64_t pause = SequenceGate::kFirstPause; pause <= 1024; pause *= 2) {
    for (int64_t i = 0; i < std::min(pause, SequenceGate::kLongestPause); ++i)
      EXPECT_FALSE(gate.Step()) << pause;
    EXPECT_TRUE(gate.Step());
    gate.Observe(0);
  }
  while (!gate.Step()) {
  }
  gate.Observe(2);
  EXPECT_FALSE(gate.pausing());
  for (int i = 0; i < SequenceGate::kIdleBlocks - 1; ++i) {
    gate.Observe(0);
    EXPECT_TRUE(gate.Step());
  }
}

TEST(SurvivalRecord, FollowsWhatHappens) {
  SurvivalRecord record(3);
  EXPECT_NEAR(record.survival()[2], std::pow(SurvivalRecord::kUsualAcceptance, 3), 1e-12);
  for (uint32_t i = 0; i < 4000; ++i) {
    const int64_t accepted = TestUniform(1, i) < 0.75 ? (TestUniform(1, i, 1) < 0.5 ? 3 : 1) : 0;
    record.Observe(3, accepted);
    EXPECT_GE(record.survival()[0], record.survival()[1]);
    EXPECT_GE(record.survival()[1], record.survival()[2]);
  }
  EXPECT_NEAR(record.survival()[0], 0.75, 0.25);
  EXPECT_NEAR(record.survival()[2], 0.375, 0.25);
  const double before = record.survival()[2];
  record.Observe(1, 1);  // says nothing of slot 2
  EXPECT_EQ(record.survival()[2], before);
  record.Observe(1, 0);  // says that slot 2 would not have come out
  EXPECT_LT(record.survival()[2], before);
  const double after = record.survival()[2];
  record.Observe(0, 0);
  EXPECT_EQ(record.survival()[2], after);
  for (int i = 0; i < 400; ++i) record.Predict(std::vector<double>{0.9, 0.5, 0.1});
  EXPECT_NEAR(record.survival()[1], 0.5, 1e-6);
}

TEST(SurvivalRecord, LearnsQuicklyAtFirst) {
  SurvivalRecord record(2);
  record.Observe(2, 0);
  EXPECT_NEAR(record.survival()[0], SurvivalRecord::kUsualAcceptance / 2, 1e-12);
  record.Predict(std::vector<double>{0, 0});
  EXPECT_NEAR(record.survival()[0], SurvivalRecord::kUsualAcceptance / 3, 1e-12);
}

}  // namespace
}  // namespace thalweg::spec
