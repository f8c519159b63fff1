// The planner's answers follow from steps that are old enough; drafts pay or are not made: with
// simulated acceptance and costs no load and no drafter is slower than 0.98 of plain decoding, and
// where drafts are good, decoding is as much faster as the costs allow.
#include "spec/draft_planner.h"

#include <gtest/gtest.h>

#include "spec/confidence.h"
#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

// A step costs something by itself and something for each row; the first rows are nearly free.
CostProfile Costs(double base, double row, double free_rows) {
  CostProfile profile;
  for (CostPoint p : StepsToMeasure(64, 512, 5)) {
    const double paid = std::max(0.0, static_cast<double>(p.rows) - free_rows);
    p.seconds = base + row * paid + 0.05 * row * static_cast<double>(p.rows);
    profile.steps.push_back(p);
  }
  for (const int64_t n : {1, 8, 64})
    profile.drafts.push_back({n, 0.03 * base + 0.02 * row * static_cast<double>(n)});
  return profile;
}

// A number of sequences that decode for ever; each draft is accepted with the probability of its
// sequence and slot, and confidences know it up to some noise.
class Traffic {
 public:
  Traffic(const CostProfile& costs, PlannerOptions options, uint64_t seed)
      : costs_(costs), planner_(CostTable(costs), options), seed_(seed) {}

  void Add(double acceptance) {
    acceptance_.push_back(acceptance);
    blocks_.emplace_back();
    planner_.Begin(acceptance_.size());
  }
  void SetAll(double acceptance) { acceptance_.assign(acceptance_.size(), acceptance); }
  void Keep(size_t count) {
    while (acceptance_.size() > count) {
      planner_.End(acceptance_.size());
      acceptance_.pop_back();
      blocks_.pop_back();
    }
  }

  void Step() {
    std::vector<PlannedSequence> sequences;
    for (size_t i = 0; i < acceptance_.size(); ++i)
      sequences.push_back({.sequence = i + 1, .tokens_left = 1000});
    ++step_;
    const StepDrafts plan = planner_.Plan(step_, sequences, 0, 320);
    std::vector<int32_t> lengths(sequences.size());
    std::vector<double> survivals(sequences.size() * 5, 0.0);
    for (size_t i = 0; i < blocks_.size(); ++i)
      Survivals(blocks_[i], planner_.temperatures(), planner_.shifts(),
                std::span(survivals).subspan(i * 5, 5));
    Allocate(survivals, plan.most, plan.budget.drafts, lengths);
    Account(plan, lengths);
    Verify(plan, lengths);
  }

  // Tokens a second over plain decoding's since Reset.
  double Gain() const { return tokens_ / seconds_ / (plain_tokens_ / plain_seconds_); }
  void Reset() { tokens_ = seconds_ = plain_tokens_ = plain_seconds_ = verified_ = drafted_ = 0; }
  double drafted() const { return drafted_; }
  double verified() const { return verified_; }
  const DraftPlanner& planner() const { return planner_; }

 private:
  void Account(const StepDrafts& plan, const std::vector<int32_t>& lengths) {
    const CostTable table(costs_);
    const auto n = static_cast<int64_t>(lengths.size());
    int64_t rows = n, drafting = 0;
    for (const int32_t l : lengths) rows += l;
    for (const uint8_t d : plan.draft) drafting += d;
    seconds_ += table.StepSeconds(n, rows) + table.DraftSeconds(drafting);
    plain_seconds_ += table.StepSeconds(n, n);
    plain_tokens_ += static_cast<double>(n);
    verified_ += static_cast<double>(rows - n);
    drafted_ += static_cast<double>(drafting);
  }

  void Verify(const StepDrafts& plan, const std::vector<int32_t>& lengths) {
    std::vector<DraftOutcome> outcomes;
    std::vector<std::vector<float>> next(lengths.size());
    for (size_t i = 0; i < lengths.size(); ++i) {
      int64_t accepted = 0;
      while (accepted < lengths[i] && Uniform() < acceptance_[i]) ++accepted;
      tokens_ += static_cast<double>(1 + accepted);
      if (plan.draft[i] != 0) {
        for (int k = 0; k < 5; ++k)
          next[i].push_back(static_cast<float>(Logit(acceptance_[i]) + 0.6 * (Uniform() - 0.5)));
      }
      outcomes.push_back({.sequence = i + 1,
                          .verified = lengths[i],
                          .accepted = accepted,
                          .verified_confidences = blocks_[i],
                          .next_confidences = next[i]});
    }
    planner_.Observe(step_, outcomes);
    blocks_ = std::move(next);
  }

  double Uniform() { return TestUniform(seed_, draw_++); }

  CostProfile costs_;
  DraftPlanner planner_;
  uint64_t seed_;
  uint32_t draw_ = 0;
  uint64_t step_ = 0;
  std::vector<double> acceptance_ = {};
  std::vector<std::vector<float>> blocks_ = {};
  double tokens_ = 0, seconds_ = 0, plain_tokens_ = 0, plain_seconds_ = 0;
  double verified_ = 0, drafted_ = 0;
};

TEST(DraftPlanner, NoLoadAndNoDrafterIsSlowerThanWithout) {
  // Rows nearly free (a large device), dear (a small processor), dear behind the first 32.
  for (const CostProfile& costs : {Costs(1, 0.005, 0), Costs(1, 0.5, 0), Costs(1, 0.1, 32)}) {
    for (const double acceptance : {0.0, 0.3, 0.8, 0.95}) {
      for (const size_t sequences : {1u, 8u, 64u}) {
        for (const bool variable : {true, false}) {
          Traffic traffic(costs, {.variable = variable}, 4);
          for (size_t i = 0; i < sequences; ++i) traffic.Add(acceptance);
          const int steps = sequences == 64 ? 400 : 1500;
          for (int i = 0; i < steps; ++i) traffic.Step();
          EXPECT_GE(traffic.Gain(), 0.98)
              << acceptance << " of " << sequences << (variable ? " variable" : " fixed");
        }
      }
    }
  }
}

TEST(DraftPlanner, GoodDraftsPayWhereRowsAreCheap) {
  Traffic traffic(Costs(1, 0.005, 0), {}, 5);
  traffic.Add(0.9);
  for (int i = 0; i < 500; ++i) traffic.Step();
  EXPECT_GT(traffic.Gain(), 3.5);  // 4.7 tokens a step, for the price of drafting
}

TEST(DraftPlanner, StopsForALoadAndComesBack) {
  Traffic traffic(Costs(1, 0.4, 16), {}, 6);
  traffic.Add(0.8);
  for (int i = 0; i < 50; ++i) traffic.Step();
  EXPECT_GT(traffic.Gain(), 1.5);
  for (int i = 0; i < 47; ++i) traffic.Add(0.8);
  for (int i = 0; i < 60; ++i) traffic.Step();
  EXPECT_FALSE(traffic.planner().open());
  traffic.Reset();
  for (int i = 0; i < 200; ++i) traffic.Step();
  EXPECT_LE(traffic.drafted(), 2 * 48);  // a try
  EXPECT_GE(traffic.Gain(), 0.98);
  traffic.Keep(1);
  for (int i = 0; i < 20 + LoadGate::kListenSteps; ++i) traffic.Step();
  EXPECT_TRUE(traffic.planner().open());
  traffic.Reset();
  for (int i = 0; i < 50; ++i) traffic.Step();
  EXPECT_GT(traffic.Gain(), 1.5);
}

// Drafting costs a third of a step here, rows next to nothing: what stretches of hard text lose is
// less than what the rest gains.
TEST(DraftPlanner, HardStretchesDoNotEndWhatPays) {
  CostProfile costs = Costs(1, 0.002, 0);
  for (DraftPoint& p : costs.drafts) p.seconds = 0.36;
  Traffic traffic(costs, {.variable = false}, 8);
  traffic.Add(0.85);
  int open = 0;
  for (int i = 0; i < 1500; ++i) {
    if (i % 60 == 0) traffic.SetAll(0.85);
    if (i % 60 == 40) traffic.SetAll(0.15);
    traffic.Step();
    open += traffic.planner().open() ? 1 : 0;
  }
  EXPECT_GT(open, 1400);
  EXPECT_GT(traffic.Gain(), 1.6);
}

TEST(DraftPlanner, ASequenceWithoutLuckIsSpared) {
  Traffic traffic(Costs(1, 0.02, 0), {}, 7);
  for (int i = 0; i < 4; ++i) traffic.Add(0.9);
  traffic.Add(0.0005);
  for (int i = 0; i < 200; ++i) traffic.Step();
  traffic.Reset();
  for (int i = 0; i < 400; ++i) traffic.Step();
  EXPECT_GE(traffic.drafted(), 4 * 400);
  EXPECT_LE(traffic.drafted(), 4 * 400 + 12);
  EXPECT_GT(traffic.verified(), 4 * 400 * 3);
}

// Two planners with the same history but for one step: what that step brought is in the plan for
// the second step behind it, not in that for the next.
TEST(DraftPlanner, WhatAStepBroughtCountsFromTheSecondBehindIt) {
  const CostProfile costs = Costs(1, 0.3, 0);
  DraftPlanner a(CostTable(costs), {}), b(CostTable(costs), {});
  const std::vector<PlannedSequence> sequences = {{.sequence = 1, .tokens_left = 100},
                                                  {.sequence = 2, .tokens_left = 100}};
  for (DraftPlanner* p : {&a, &b}) {
    p->Begin(1);
    p->Begin(2);
  }
  const std::vector<float> high(5, 6.0f), low(5, -6.0f);
  const auto observe = [&](DraftPlanner* p, uint64_t step, const std::vector<float>& next) {
    p->Observe(step, std::vector<DraftOutcome>{
                         {.sequence = 1, .verified_confidences = high, .next_confidences = next},
                         {.sequence = 2, .verified_confidences = high, .next_confidences = next}});
  };
  for (uint64_t step = 1; step <= 5; ++step) {
    EXPECT_EQ(a.Plan(step, sequences, 0, 100).budget.drafts,
              b.Plan(step, sequences, 0, 100).budget.drafts);
    observe(&a, step, high);
    observe(&b, step, step == 5 ? low : high);
  }
  const StepDrafts next_a = a.Plan(6, sequences, 0, 100), next_b = b.Plan(6, sequences, 0, 100);
  EXPECT_EQ(next_a.budget.drafts, next_b.budget.drafts);
  EXPECT_EQ(next_a.draft, next_b.draft);
  observe(&a, 6, high);
  observe(&b, 6, high);
  EXPECT_GT(a.Plan(7, sequences, 0, 100).budget.drafts, 0);
  EXPECT_EQ(b.Plan(7, sequences, 0, 100).budget.drafts, 0);
}

// What came before a preemption is not known behind it.
TEST(DraftPlanner, ASequenceThatBeginsAgainIsNew) {
  const CostProfile costs = Costs(1, 0.3, 0);
  const std::vector<PlannedSequence> sequences = {{.sequence = 1, .tokens_left = 100}};
  const std::vector<float> low(5, -9.0f);
  std::vector<int64_t> budgets;
  for (const bool preempted : {false, true}) {
    DraftPlanner planner(CostTable(costs), {});
    planner.Begin(1);
    planner.Plan(1, sequences, 0, 100);
    planner.Observe(1, std::vector<DraftOutcome>{{.sequence = 1, .next_confidences = low}});
    if (preempted) {
      planner.End(1);
      planner.Begin(1);
    }
    planner.Plan(2, sequences, 0, 100);
    budgets.push_back(planner.Plan(3, sequences, 0, 100).budget.drafts);
  }
  EXPECT_EQ(budgets[0], 0);
  EXPECT_GT(budgets[1], 0);
}

TEST(DraftPlanner, KeepsWhatTheHostCountsOn) {
  DraftPlanner planner(CostTable(Costs(1, 0.001, 0)), {.slots = 3});
  planner.Begin(1);
  planner.Begin(2);
  planner.Begin(3);
  const std::vector<PlannedSequence> sequences = {
      {.sequence = 1, .tokens_left = 2},
      {.sequence = 2, .tokens_left = 50},
      {.sequence = 3, .decodes = false, .tokens_left = 50}};
  StepDrafts plan = planner.Plan(1, sequences, 40, 100);
  EXPECT_EQ(plan.most, (std::vector<int32_t>{0, 0, 0}));  // no blocks yet
  EXPECT_EQ(plan.budget.drafts, 0);
  EXPECT_EQ(plan.draft, (std::vector<uint8_t>{1, 1, 1}));
  plan = planner.Plan(2, sequences, 0, 100);
  EXPECT_EQ(plan.most, (std::vector<int32_t>{1, 3, 3}));
  EXPECT_EQ(plan.budget.drafts, 7);
  EXPECT_EQ(planner.Plan(3, sequences, 0, 2).budget.drafts, 2);
  const std::vector<PlannedSequence> last = {{.sequence = 1, .tokens_left = 1}};
  plan = planner.Plan(4, last, 0, 100);
  EXPECT_EQ(plan.most[0], 0);
  EXPECT_EQ(plan.draft[0], 0);  // nobody would verify them
  // A preemption: its block is gone.
  planner.End(2);
  planner.Begin(2);
  plan = planner.Plan(5, std::vector<PlannedSequence>{{.sequence = 2, .tokens_left = 50}}, 0, 9);
  EXPECT_EQ(plan.most[0], 0);
  EXPECT_EQ(planner.Plan(6, {}, 30, 9).budget.drafts, 0);
  planner.Observe(6, std::vector<DraftOutcome>{{.sequence = 99}});  // has ended
  planner.Plan(9, {}, 0, 0);
}

}  // namespace
}  // namespace thalweg::spec
