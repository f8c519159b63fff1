// Traffic with the costs of a device and of a processor for the gate, the planner and what they
// learn, in a closed loop: what they decide changes what they see.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "spec/confidence.h"
#include "spec/draft_planner.h"
#include "spec/test_world.h"

namespace thalweg::spec {

inline constexpr int kSlots = 5;

// Seconds of steps of `sequences`: with a row each, with a whole block each, and of drafting.
struct CostLine {
  int64_t sequences = 0;
  double plain = 0, whole = 0, drafting = 0;
};

// Rows in between cost what lies between.
inline CostProfile ProfileOf(const std::vector<CostLine>& lines) {
  CostProfile profile;
  for (const CostLine& line : lines) {
    for (int w = 1; w <= 1 + kSlots; ++w) {
      const double share = static_cast<double>(w - 1) / kSlots;
      profile.steps.push_back({.sequences = line.sequences,
                               .rows = line.sequences * w,
                               .seconds = line.plain + (line.whole - line.plain) * share});
    }
    profile.drafts.push_back({line.sequences, line.drafting});
  }
  return profile;
}

// One H200 with nano, from tokens a second and tokens a step of runs without drafts and with whole
// blocks always: 1.40 and 1.89 ms a step, 1.51 and 2.52, 2.27 and 4.33.
inline CostProfile Device() {
  return ProfileOf({{1, 1.40e-3, 1.54e-3, 0.35e-3},
                    {8, 1.51e-3, 2.02e-3, 0.50e-3},
                    {64, 2.27e-3, 3.53e-3, 0.80e-3}});
}

// Another on which a block is dearer for one sequence, and cheaper for many.
inline CostProfile OtherDevice() {
  return ProfileOf({{1, 1.40e-3, 1.65e-3, 0.35e-3},
                    {8, 1.51e-3, 2.00e-3, 0.45e-3},
                    {64, 2.27e-3, 3.16e-3, 0.70e-3}});
}

// The first one with later kernels: where a run of random text had made the gate so careful that it
// did not begin again for chat.
inline CostProfile LaterDevice() {
  return ProfileOf({{1, 1.07e-3, 1.30e-3, 0.34e-3},
                    {8, 1.31e-3, 2.16e-3, 0.49e-3},
                    {64, 2.02e-3, 3.34e-3, 0.91e-3}});
}

// Two threads of a processor with nano: rows are nearly all that there is to pay for.
inline CostProfile Processor() {
  return ProfileOf({{1, 0.45e-3, 1.35e-3, 0.29e-3},
                    {8, 1.73e-3, 7.03e-3, 1.69e-3},
                    {64, 9.91e-3, 47.8e-3, 12.3e-3}});
}

inline CostProfile ProcessorOfFew() {
  return ProfileOf({{2, 0.61e-3, 1.91e-3, 0.55e-3}, {4, 1.07e-3, 3.64e-3, 0.88e-3}});
}

// Some steps of a load and a kind of text: tokens that a whole block brings on average.
struct Phase {
  int steps = 0;
  size_t sequences = 0;
  double tokens = 0;
};

inline double TokensOf(double acceptance) {
  double tokens = 1, survival = 1;
  for (int k = 0; k < kSlots; ++k) tokens += survival *= acceptance;
  return tokens;
}

inline double AcceptanceFor(double tokens) {
  double low = 0, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (TokensOf(middle) < tokens ? low : high) = middle;
  }
  return low;
}

enum class Policy { kOff, kWhole, kGate };

// Sequences of some hundred tokens, each followed by another. Text has harder and easier stretches;
// confidences are noisy and too high; with few rows of context drafts are worse.
class ClosedLoop {
 public:
  ClosedLoop(const CostProfile& costs, Policy policy, bool variable, uint64_t seed)
      : table_(costs), policy_(policy), planner_(table_, {.variable = variable}), seed_(seed) {}

  void Run(const Phase& phase) {
    while (sequences_.size() > phase.sequences) End();
    while (sequences_.size() < phase.sequences) Begin();
    acceptance_ = AcceptanceFor(phase.tokens);
    tokens_ = seconds_ = late_tokens_ = late_seconds_ = 0;
    opened_at_ = -1;
    openings_ = 0;
    for (int i = 0; i < phase.steps; ++i) {
      const double tokens = tokens_, seconds = seconds_;
      const bool was_open = planner_.open();
      Step();
      if (planner_.open() && opened_at_ < 0) opened_at_ = i;
      if (planner_.open() && !was_open) ++openings_;
      if (2 * i >= phase.steps) late_tokens_ += tokens_ - tokens;
      if (2 * i >= phase.steps) late_seconds_ += seconds_ - seconds;
    }
  }
  // Of the latest phase, and of its second half.
  double tokens() const { return tokens_; }
  double seconds() const { return seconds_; }
  double rate() const { return tokens_ / seconds_; }
  double late_rate() const { return late_tokens_ / late_seconds_; }
  // Steps of the latest phase before drafting was open, -1: never; how often it began again.
  int64_t opened_at() const { return opened_at_; }
  int64_t openings() const { return openings_; }

 private:
  struct Sequence {
    uint64_t id = 0;
    bool decodes = false;
    int64_t left = 0;
    int64_t context = 0;  // rows
    double ease = 0;      // of the stretch, added to the logit of the acceptance
    bool has_block = false;
    std::vector<float> block = {};  // confidences
  };

  double Uniform() { return TestUniform(seed_, draw_++); }

  void Begin() {
    sequences_.push_back({.id = ++ids_, .left = 100 + static_cast<int64_t>(Uniform() * 300)});
    sequences_.back().context = policy_ != Policy::kGate || planner_.open() ? 128 : 0;
    planner_.Begin(sequences_.back().id);
  }
  void End() {
    planner_.End(sequences_.back().id);
    sequences_.pop_back();
  }
  void Renew(size_t i) {
    std::swap(sequences_[i], sequences_.back());
    End();
    Begin();
    std::swap(sequences_[i], sequences_.back());
  }

  StepDrafts PlanStep() {
    ++step_;
    const int64_t room = kSlots * static_cast<int64_t>(sequences_.size());
    if (policy_ != Policy::kGate) return PlanWithoutGate(room);
    std::vector<PlannedSequence> planned;
    for (const Sequence& s : sequences_)
      planned.push_back({.sequence = s.id, .decodes = s.decodes, .tokens_left = s.left});
    return planner_.Plan(step_, planned, 0, room);
  }

  StepDrafts PlanWithoutGate(int64_t room) const {
    StepDrafts plan = {.budget = {.drafts = room}, .context = policy_ == Policy::kWhole};
    for (const Sequence& s : sequences_) {
      const auto most = static_cast<int32_t>(std::min<int64_t>(s.left - 1, kSlots));
      plan.draft.push_back(policy_ == Policy::kWhole && most > 0 ? 1 : 0);
      plan.most.push_back(s.has_block ? most : 0);
    }
    return plan;
  }

  std::vector<int32_t> LengthsOf(const StepDrafts& plan) const {
    std::vector<double> survivals(sequences_.size() * kSlots, 0.0);
    for (size_t i = 0; i < sequences_.size(); ++i)
      Survivals(sequences_[i].block, planner_.temperatures(), planner_.shifts(),
                std::span(survivals).subspan(i * kSlots, kSlots));
    std::vector<int32_t> lengths(sequences_.size());
    Allocate(survivals, plan.most, plan.budget.drafts, lengths);
    return lengths;
  }

  void Step() {
    const StepDrafts plan = PlanStep();
    const std::vector<int32_t> lengths = LengthsOf(plan);
    Pay(plan, lengths);
    std::vector<DraftOutcome> outcomes;
    std::vector<std::vector<float>> old;
    for (Sequence& s : sequences_) old.push_back(std::move(s.block));
    for (size_t i = 0; i < sequences_.size(); ++i)
      outcomes.push_back(Advance(lengths[i], old[i], plan.draft[i] != 0, plan.context, i));
    if (policy_ == Policy::kGate) planner_.Observe(step_, outcomes);
    for (size_t i = 0; i < sequences_.size(); ++i)
      if (sequences_[i].left <= 0) Renew(i);
  }

  // Context alone costs a little.
  void Pay(const StepDrafts& plan, const std::vector<int32_t>& lengths) {
    const auto n = static_cast<int64_t>(lengths.size());
    int64_t rows = n, drafting = 0;
    for (const int32_t l : lengths) rows += l;
    for (const uint8_t d : plan.draft) drafting += d;
    double seconds = table_.StepSeconds(n, rows) + table_.DraftSeconds(drafting);
    if (plan.context && drafting < n) seconds += 0.04 * table_.StepSeconds(n, n);
    seconds_ += seconds * (0.95 + 0.1 * Uniform());
  }

  double AcceptanceOf(const Sequence& s) const {
    const auto rows = static_cast<double>(s.context);
    const double known = rows < 8 ? 0.85 * rows / 8 : std::min(1.0, 0.85 + 0.15 * (rows - 8) / 56);
    return Sigmoid(Logit(acceptance_) + s.ease) * known;
  }

  DraftOutcome Advance(int32_t verified, std::span<const float> block, bool draft, bool context,
                       size_t index) {
    Sequence& s = sequences_[index];
    const double acceptance = AcceptanceOf(s);
    int64_t accepted = 0;
    while (accepted < verified && Uniform() < acceptance) ++accepted;
    tokens_ += static_cast<double>(1 + accepted);
    s.left -= 1 + accepted;
    s.decodes = true;
    s.context = context ? s.context + 1 + accepted : 0;
    if (Uniform() < 1.0 / 25) s.ease = 1.6 * Uniform() - 0.8;
    s.has_block = draft;
    s.block.clear();
    for (int k = 0; draft && k < kSlots; ++k)
      s.block.push_back(static_cast<float>(Logit(AcceptanceOf(s)) + 0.6 + 2 * (Uniform() - 0.5)));
    return {.sequence = s.id,
            .verified = verified,
            .accepted = accepted,
            .verified_confidences = block,
            .next_confidences = s.block};
  }

  CostTable table_;
  Policy policy_;
  DraftPlanner planner_;
  uint64_t seed_;
  uint32_t draw_ = 0;
  uint64_t step_ = 0, ids_ = 0;
  double acceptance_ = 0;
  std::vector<Sequence> sequences_ = {};
  double tokens_ = 0, seconds_ = 0, late_tokens_ = 0, late_seconds_ = 0;
  int64_t opened_at_ = -1, openings_ = 0;
};

}  // namespace thalweg::spec
