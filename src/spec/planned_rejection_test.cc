// The whole of a step in small: planner, survivals, allocation and rejection sampling together give
// the target's law to sequences that come and go, though their confidences are chosen to betray as
// much of the drafts as they may.
#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "spec/confidence.h"
#include "spec/draft_planner.h"
#include "spec/test_law.h"

namespace thalweg::spec {
namespace {

using sampling::SequenceState;

constexpr int kSlots = 3;
constexpr size_t kSequences = 3;

// Steps of rows that are dear at once, or in stairs: budgets from nothing to everything.
CostProfile Costs() {
  CostProfile profile;
  for (int64_t s = 1; s <= static_cast<int64_t>(kSequences); ++s) {
    for (int64_t r = s; r <= 12; ++r) {
      const double stair = 0.5 * static_cast<double>((r + 2) / 3);
      profile.steps.push_back({s, r, 1 + stair + 0.02 * static_cast<double>(r)});
    }
    profile.drafts.push_back({s, 0.01});
  }
  return profile;
}

// Slot k knows the drafts before it and what stands before the block.
std::vector<float> BetrayingConfidences(std::span<const int32_t> history, const ToyBlock& block) {
  std::vector<float> raw;
  int32_t before = history.back();
  for (const int32_t token : block.tokens) {
    raw.push_back(before % 2 == 0 ? 4.0f : -3.0f + static_cast<float>(before));
    before = token;
  }
  return raw;
}

struct Running {
  uint64_t number = 0;
  step::SamplingParams params = {};
  std::unique_ptr<SequenceState> state = nullptr;
  ToyBlock block = {};
  std::vector<float> confidences = {};
};

class Service {
 public:
  explicit Service(World* world, bool variable)
      : w_(*world), planner_(CostTable(Costs()), {.slots = kSlots, .variable = variable}) {
    for (Running& r : running_) Begin(&r);
  }

  std::vector<int64_t> Run(int64_t sequences) {
    while (finished_ < sequences) Step();
    return counts_;
  }
  int64_t verified() const { return verified_; }
  int64_t without() const { return without_; }

 private:
  void Begin(Running* r) {
    *r = {.number = ++begun_, .params = w_.params};
    r->params.seed = r->number * 0x9e3779b97f4a7c15u;
    r->state = std::make_unique<SequenceState>(r->params, kVocab, kPrompt, 1);
    planner_.Begin(r->number);
  }

  void Step() {
    std::vector<PlannedSequence> sequences;
    for (const Running& r : running_)
      sequences.push_back({.sequence = r.number, .tokens_left = 1 + kSlots});
    const StepDrafts plan = planner_.Plan(++step_, sequences, 0, 9);
    std::vector<double> survivals(kSequences * kSlots, 0.0);
    for (size_t i = 0; i < kSequences; ++i)
      Survivals(running_[i].confidences, planner_.temperatures(), planner_.shifts(),
                std::span(survivals).subspan(i * kSlots, kSlots));
    std::vector<int32_t> lengths(kSequences);
    Allocate(survivals, plan.most, plan.budget.drafts, lengths);
    std::vector<DraftOutcome> outcomes;
    std::vector<std::vector<float>> old(kSequences);
    for (size_t i = 0; i < kSequences; ++i) {
      Running& r = running_[i];
      const int64_t accepted = Verify(&r, lengths[i]);
      old[i] = r.confidences;
      DraftNext(&r, plan.draft[i] != 0);
      outcomes.push_back({r.number, lengths[i], accepted, old[i], r.confidences});
    }
    planner_.Observe(step_, outcomes);
    for (Running& r : running_) FinishWhenDone(&r);
  }

  int64_t Verify(Running* r, int32_t length) {
    verified_ += length;
    without_ += length == 0 ? 1 : 0;
    const auto n = static_cast<size_t>(length);
    const std::vector<int32_t> history(r->state->tokens().begin(), r->state->tokens().end());
    ToyRows rows = RunTarget(&w_.target, history, r->block.tokens, n + 1);
    return Accept({.logits = rows.logits,
                   .rows = length + 1,
                   .drafts = std::span(r->block.tokens).first(n),
                   .draft_logits = std::span(r->block.logits).first(n * kVocab),
                   .position = static_cast<int64_t>(history.size()),
                   .rule = Rule::kRejection},
                  r->state.get(), &scratch_, &buffers_)
        .drafts;
  }

  void DraftNext(Running* r, bool draft) {
    r->block = {};
    r->confidences.clear();
    if (!draft) return;
    const std::vector<int32_t> history(r->state->tokens().begin(), r->state->tokens().end());
    r->block = Draft(&w_.drafter, history, r->params, kSlots, Rule::kRejection, &buffers_);
    r->confidences = BetrayingConfidences(history, r->block);
  }

  void FinishWhenDone(Running* r) {
    if (r->state->tokens().size() < 1 + kDepth) return;
    size_t number = 0;
    for (size_t i = 0; i < kDepth; ++i)
      number = number * kVocab + static_cast<size_t>(r->state->tokens()[1 + i]);
    ++counts_[number];
    ++finished_;
    planner_.End(r->number);
    Begin(r);
  }

  World& w_;
  DraftPlanner planner_;
  std::array<Running, kSequences> running_ = {};
  sampling::Scratch scratch_;
  LawBuffers buffers_ = {};
  std::vector<int64_t> counts_ = std::vector<int64_t>(kVocab * kVocab * kVocab, 0);
  uint64_t begun_ = 0, step_ = 0;
  int64_t finished_ = 0, verified_ = 0, without_ = 0;
};

TEST(PlannedRejection, FollowsTheTargetsLaw) {
  for (const bool variable : {true, false}) {
    World w(21, 0.4, {.temperature = 1});
    Service service(&w, variable);
    ExpectPasses(Judge(service.Run(60000), Product(&w)));
    EXPECT_GT(service.verified(), 20000);
    if (!variable) continue;
    EXPECT_GT(service.without(), 20000);  // budgets do leave some out
  }
}

}  // namespace
}  // namespace thalweg::spec
