// Drafting stops where it does not pay and starts where it does, with patience in between; what
// speaks against it is looked at again from time to time; the answers follow from what was observed
// alone.
#include "spec/gate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

// A step whose drafts bring that gain at a load of many; easy text would bring `hope`.
Outlook WithGain(double gain, double hope = 1) {
  return {.budget = {.drafts = 3,
                     .tokens = 100 * gain,
                     .seconds = 1,
                     .plain_seconds = 1,
                     .plain_rate = 100},
          .hope = hope,
          .try_loss = 0.5};
}

// The same of a tenth of the load.
Outlook OtherLoad(double gain) {
  Outlook outlook = WithGain(gain);
  outlook.budget.seconds = outlook.budget.plain_seconds = 0.1;
  outlook.budget.tokens = 10 * gain;
  return outlook;
}

// Steps until the gate changes its mind.
int StepsUntil(LoadGate* gate, bool open, const Outlook& outlook) {
  for (int i = 1; i < 2000; ++i) {
    gate->Step(outlook);
    if (gate->open() == open) return i;
  }
  return -1;
}

// A gate that has closed, and what it was like before.
LoadGate Closed() {
  LoadGate gate;
  StepsUntil(&gate, false, WithGain(0.5));
  return gate;
}

TEST(LoadGate, ClosesWhenWhatIsLostAddsUp) {
  LoadGate gate;
  EXPECT_TRUE(gate.open());
  EXPECT_NEAR(StepsUntil(&gate, false, WithGain(0.5)), 5, 1);  // what the first text may cost
  LoadGate slow;
  EXPECT_NEAR(StepsUntil(&slow, false, WithGain(0.95)), 19, 2);
  LoadGate good;
  EXPECT_EQ(StepsUntil(&good, false, WithGain(1.075)), -1);
  LoadGate hardly;  // less than what a budget does not know
  EXPECT_GT(StepsUntil(&hardly, false, WithGain(1.02)), 30);
}

// A step that takes six times as long and brings three times the tokens loses three steps.
TEST(LoadGate, CountsLossesInPlainSteps) {
  LoadGate gate;
  Outlook dear = WithGain(3);
  dear.budget.seconds = 6;
  EXPECT_EQ(StepsUntil(&gate, false, dear), 1);
}

TEST(LoadGate, ClosesAtOnceWhereEasyTextWouldNotPay) {
  LoadGate gate;
  EXPECT_FALSE(gate.Step(WithGain(0.99, 0.99)).context);
  LoadGate better;
  EXPECT_TRUE(better.Step(WithGain(1.01, 0.99)).context);  // than any text it knows
}

TEST(LoadGate, GainsMakeUpForLosses) {
  LoadGate gate;
  for (int i = 0; i < 200; ++i) {
    gate.Step(WithGain(0.95));
    gate.Step(WithGain(1.25));
  }
  EXPECT_TRUE(gate.open());
}

// A hard stretch of text does not close what has paid; hard text for good does, the sooner the more
// sequences say so, and so does another load at once.
TEST(LoadGate, HalfOfWhatWasGainedMayBeLostAgain) {
  LoadGate gate;
  for (int i = 0; i < 100; ++i) gate.Step(WithGain(2));
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(gate.Step(WithGain(0.8)).draft);
  EXPECT_NEAR(StepsUntil(&gate, false, WithGain(0.8)), 2, 1);
  LoadGate one;
  const auto of_one = [](double gain) {
    Outlook outlook = WithGain(gain);
    outlook.budget.tokens /= 100;
    outlook.budget.plain_rate = 1;
    return outlook;
  };
  for (int i = 0; i < 100; ++i) one.Step(of_one(2));
  for (int i = 0; i < 65; ++i) EXPECT_TRUE(one.Step(of_one(0.8)).draft);
  EXPECT_NEAR(StepsUntil(&one, false, of_one(0.8)), 14, 2);
  LoadGate changed;
  for (int i = 0; i < 100; ++i) changed.Step(WithGain(2));
  Outlook more = WithGain(0.5);
  more.budget.seconds = more.budget.plain_seconds = 2;
  EXPECT_FALSE(changed.Step(more).draft);
  EXPECT_FALSE(changed.open());
}

// What a gate does in many steps after it has closed.
struct Tries {
  std::vector<int64_t> at = {};
  int64_t context = 0;
};

Tries TriesOf(LoadGate* gate, const Outlook& outlook, int64_t steps) {
  Tries tries;
  for (int64_t i = 0; i < steps; ++i) {
    const LoadGate::Answer answer = gate->Step(outlook);
    EXPECT_EQ(answer.draft, answer.few);
    tries.context += answer.context ? 1 : 0;
    if (answer.draft) tries.at.push_back(i);
  }
  return tries;
}

// Each try behind steps that write the context, as often as its price allows, and less often the
// longer nothing has come of it.
TEST(LoadGate, TriesWhetherTextHasBecomeEasy) {
  LoadGate gate = Closed();
  const Tries tries = TriesOf(&gate, WithGain(0.5, 2), 100'000);
  EXPECT_FALSE(gate.open());
  ASSERT_GE(tries.at.size(), 100u);
  EXPECT_EQ(tries.context, static_cast<int64_t>(tries.at.size()) *
                               (LoadGate::kShortListenSteps + 1 + LoadGate::kResultSteps));
  EXPECT_GT(tries.at[1] - tries.at[0], 300);
  EXPECT_LT(tries.at[1] - tries.at[0], 450);
  EXPECT_GT(2 * (tries.at.back() - tries.at[tries.at.size() - 2]), 3 * (tries.at[1] - tries.at[0]));
  const double lost = 0.5 + LoadGate::kListenCost * LoadGate::kShortListenSteps;
  EXPECT_LE(static_cast<double>(tries.at.size()) * lost, LoadGate::kTryShare * 100'000);
}

TEST(LoadGate, DearTriesAreRarerAndHopelessOnesAreNotMade) {
  LoadGate cheap = Closed(), dear = Closed(), hopeless = Closed();
  Outlook more = WithGain(0.5, 2);
  more.try_loss = 8;
  const size_t made = TriesOf(&cheap, WithGain(0.5, 2), 10'000).at.size();
  EXPECT_LT(TriesOf(&dear, more, 10'000).at.size(), made / 2);
  const Tries none = TriesOf(&hopeless, WithGain(0.5, 1.05), 10'000);
  EXPECT_TRUE(none.at.empty());
  EXPECT_EQ(none.context, 0);
}

// What closed it does not open it by being said again; what a try finds does, and another load.
TEST(LoadGate, OpensForNewsAlone) {
  LoadGate gate = Closed();
  for (int i = 0; i < 50; ++i) gate.Step(WithGain(1.5, 1));
  EXPECT_FALSE(gate.open());
  int steps = 0;
  for (; !gate.Step(WithGain(0.5, 2)).draft; ++steps) ASSERT_LT(steps, 400);
  EXPECT_LE(StepsUntil(&gate, true, WithGain(1.5, 2)), 2);
  LoadGate other = Closed();
  Outlook few = WithGain(1.5);
  few.budget.seconds = few.budget.plain_seconds = 0.1;
  few.budget.tokens = 15;
  EXPECT_NEAR(StepsUntil(&other, true, few), LoadGate::kOpeningPrice / 0.35, 1);
}

// What begins again has a context before it has drafts; behind a try it has some already.
TEST(LoadGate, ListensBeforeItDraftsAgain) {
  for (const double gain : {1.2, 1.5}) {
    LoadGate gate = Closed();
    Outlook few = WithGain(gain);
    few.budget.seconds = few.budget.plain_seconds = 0.1;
    few.budget.tokens = 10 * gain;
    while (!gate.open()) gate.Step(few);
    int64_t listened = 1;
    for (; true; ++listened) {
      const LoadGate::Answer answer = gate.Step(few);
      EXPECT_TRUE(answer.context);
      if (answer.draft) break;
    }
    EXPECT_EQ(listened,
              gain > LoadGate::kClearGain ? LoadGate::kShortListenSteps : LoadGate::kListenSteps);
  }
}

// Whoever changes its mind for nothing has to be told more clearly, until it stays for a while.
TEST(LoadGate, AsksForMoreAfterMistakes) {
  LoadGate gate = Closed();
  const Outlook few = OtherLoad(1.5);
  std::vector<int> steps;
  for (int i = 0; i < 8; ++i) {
    steps.push_back(StepsUntil(&gate, true, few));
    ASSERT_GT(steps.back(), 0);
    StepsUntil(&gate, false, WithGain(0.5));
  }
  EXPECT_GT(steps.back(), 4 * steps.front());
  StepsUntil(&gate, true, few);
  for (int64_t i = 0; i < LoadGate::kSettledSteps; ++i) gate.Step(OtherLoad(1.1));
  StepsUntil(&gate, false, WithGain(0.5));
  EXPECT_LE(StepsUntil(&gate, true, few), steps.front());
}

// What was regretted is forgotten by and by, and the fewest steps that a mistake can come after are
// as many as that takes: the gate cannot be fooled more often, whatever it is told.
TEST(LoadGate, ForgetsMistakesWhileClosed) {
  LoadGate gate = Closed();
  for (int i = 0; i < 9; ++i) {
    ASSERT_GT(StepsUntil(&gate, true, OtherLoad(1.5)), 0);
    StepsUntil(&gate, false, WithGain(0.5));
  }
  LoadGate later = gate;
  const int soon = StepsUntil(&gate, true, OtherLoad(1.5));
  for (int64_t i = 0; i < 6 * LoadGate::kSettledSteps; ++i) later.Step(WithGain(0.5));
  EXPECT_GT(soon, 100);
  EXPECT_LE(StepsUntil(&later, true, OtherLoad(1.5)), LoadGate::kOpeningPrice / 0.35 + 1);
}

TEST(LoadGate, LiarsFoolItRarely) {
  LoadGate gate = Closed();
  int mistakes = 0;
  constexpr int kSteps = 50'000;
  for (int i = 0; i < kSteps; ++i) {
    const bool was_open = gate.open();
    gate.Step(gate.open() ? WithGain(0.5) : OtherLoad(1.3));
    mistakes += was_open && !gate.open() ? 1 : 0;
  }
  const double first = std::log2(LoadGate::kMostLoss / LoadGate::kLoss);  // until that holds it
  EXPECT_LE(mistakes, kSteps / LoadGate::kSettledSteps + first + 1);
}

// A batch that fills up passes through every load: none of them opens it on the way.
TEST(LoadGate, LoadsThatPassDoNotOpenIt) {
  LoadGate gate = Closed();
  for (int wave = 0; wave < 50; ++wave) {
    for (int i = 0; i < 4; ++i) gate.Step(OtherLoad(1.6));
    for (int i = 0; i < 60; ++i) gate.Step(WithGain(0.9));
  }
  EXPECT_FALSE(gate.open());
  EXPECT_EQ(gate.counts().openings, 0);
}

// What is lost for good, in plain steps, when the gate is told `told` wherever it could begin again
// and drafts bring `true_gain` as soon as it has.
double Lost(double told, double true_gain, int64_t steps) {
  LoadGate gate;
  double lost = 0;
  bool trying = false;
  for (int64_t i = 0; i < steps; ++i) {
    const Outlook outlook = gate.open()  ? WithGain(true_gain, 2)
                            : i % 3 != 0 ? OtherLoad(told)
                                         : WithGain(told, 2);
    const LoadGate::Answer answer = gate.Step(outlook);
    if (answer.few && !trying) lost += outlook.try_loss + LoadGate::kTryOverhead;
    trying = answer.few;
    if (answer.draft && !answer.few) lost += 1 - true_gain;
    if (answer.context && !answer.draft) lost += LoadGate::kListenCost;
  }
  return lost;
}

// Whatever it is told: the share of the time, what was there at first, and one opening.
TEST(LoadGate, LosesNoMoreThanItsShare) {
  constexpr int64_t kSteps = 20'000;
  const double opening =
      LoadGate::kNewCredit + 2 * LoadGate::kLoss + LoadGate::kListenCost * LoadGate::kListenSteps;
  const double most = static_cast<double>(kSteps) * LoadGate::kTryShare + LoadGate::kFirstAccount +
                      opening + LoadGate::kMostAccount;
  for (const double told : {0.5, 1.2, 1.5, 2.0, 3.0})
    for (const double gain : {0.3, 0.7, 0.9, 0.99})
      EXPECT_LE(Lost(told, gain, kSteps), most) << told << " told, " << gain;
}

// However often it was wrong, one try that finds text as easy as it can be is enough.
TEST(LoadGate, OneTryOfEasyTextIsEnough) {
  LoadGate gate = Closed();
  for (int i = 0; i < 6; ++i) {
    ASSERT_GT(StepsUntil(&gate, true, OtherLoad(1.5)), 0);
    StepsUntil(&gate, false, WithGain(0.5, 2));
  }
  while (!gate.Step(WithGain(0.5, 2)).draft) ASSERT_FALSE(gate.open());
  EXPECT_LE(StepsUntil(&gate, true, WithGain(1.9, 2)), LoadGate::kResultSteps + 8);
}

// Tries whose openings are regretted become as rare as what they lose asks for.
TEST(LoadGate, MistakesMakeTriesRarer) {
  LoadGate honest = Closed(), fooled = Closed();
  const Tries seldom = TriesOf(&honest, WithGain(0.5, 2), 20'000);
  int tries = 0;
  bool drafted = false;
  for (int i = 0; i < 20'000; ++i) {
    const LoadGate::Answer answer =
        fooled.Step(fooled.open() ? WithGain(0.6, 2) : WithGain(drafted ? 1.9 : 0.5, 2));
    tries += answer.few && !drafted ? 1 : 0;
    drafted = answer.few || (drafted && fooled.context());
  }
  EXPECT_LT(tries, 0.8 * static_cast<double>(seldom.at.size()));
  EXPECT_GT(tries, 10);
}

TEST(Trust, FollowsWhatComesOfWhatIsForetold) {
  Trust trust;
  EXPECT_EQ(trust.factor(), 1);
  for (int i = 0; i < 20; ++i) trust.Observe(1, 2, 0.5);
  EXPECT_NEAR(trust.factor(), 0.29, 0.03);
  trust.Observe(64, 128, 96);  // many blocks at once outweigh what was before
  EXPECT_NEAR(trust.factor(), 0.7, 0.05);
  for (int i = 0; i < 200; ++i) trust.Observe(1, 1, 3);
  EXPECT_EQ(trust.factor(), Trust::kMost);
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

TEST(SurvivalRecord, DoubtMakesNewsCount) {
  SurvivalRecord record(2);
  for (int i = 0; i < 100; ++i) record.Observe(2, 0);
  SurvivalRecord doubted = record;
  doubted.Doubt();
  record.Observe(2, 2);
  doubted.Observe(2, 2);
  EXPECT_NEAR(record.survival()[0], SurvivalRecord::kSequenceShare, 0.02);
  EXPECT_NEAR(doubted.survival()[0], 1.0 / 6, 0.02);
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
