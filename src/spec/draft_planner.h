// The host's side of speculation, one call a step: how many drafts are verified, for whom blocks
// are drafted, from what earlier steps brought (spec/decoding.md 1.5, 6.4). Counts steps and
// integers; which drafts are verified is decided where the current confidences are (Allocate).
//
// Step t runs blocks that step t - 1 drafted, and drafts the next ones when its tokens are known.
// What step t brought counts from step t + 2 on, even where it is known earlier: the budget of step
// t + 1 must not know the confidences in the drafts that it is about.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "spec/cost_table.h"
#include "spec/gate.h"
#include "spec/smoothing.h"
#include "spec/verification.h"

namespace thalweg::spec {

struct PlannerOptions {
  size_t slots = 5;      // drafts of a block that may be verified
  bool variable = true;  // false: each sequence verifies all of its block, or none does
  std::vector<double> temperatures = {};  // of the calibration; missing ones are 1
};

struct PlannedSequence {
  uint64_t sequence = 0;
  bool decodes = true;      // false: a prompt whose last rows run in this step
  int64_t tokens_left = 0;  // that may still come out, those of this step included; 1 or more
};

struct StepDrafts {
  Budget budget = {};               // drafts to verify in all, and what is expected of the step
  std::vector<int32_t> most = {};   // of each sequence; what the host may count on, with the budget
  std::vector<uint8_t> draft = {};  // whether a block is drafted for it behind this step
  bool context = true;              // rows of the step join the draft module's context
};

// What a step brought for one sequence.
struct DraftOutcome {
  uint64_t sequence = 0;
  int64_t verified = 0;  // Accepted::verified and Accepted::drafts
  int64_t accepted = 0;
  std::span<const float> verified_confidences = {};  // raw; of the block that was verified
  std::span<const float> next_confidences = {};      // raw; of the block drafted behind the step
};

class DraftPlanner {
 public:
  DraftPlanner(CostTable costs, PlannerOptions options);

  // A sequence that begins, or begins again behind a preemption, has no block.
  void Begin(uint64_t sequence);
  void End(uint64_t sequence);

  // Steps are numbered upwards, each planned once. sequences: those that decode, and prompts that
  // end here, all of them begun. other_rows: rows of prompts; max_drafts: rows that are left.
  StepDrafts Plan(uint64_t step, std::span<const PlannedSequence> sequences, int64_t other_rows,
                  int64_t max_drafts);
  // Results of a planned step, in the order of steps; sequences that have ended are passed over.
  void Observe(uint64_t step, std::span<const DraftOutcome> outcomes);

  // For the allocation of the step that was planned last.
  std::span<const double> temperatures() const { return options_.temperatures; }
  std::span<const double> shifts() const { return shift_.shifts(); }
  bool open() const { return load_gate_.open(); }
  const LoadGate::Counts& counts() const { return load_gate_.counts(); }

 private:
  struct Record {
    SurvivalRecord survival;  // begins as the others' is
    uint64_t life = 0;        // which of the sequence's beginnings this is
    SequenceGate gate = {};
    bool has_block = false;
    // Of what `survival` learned last; begun while drafting is closed, it has learned nothing.
    uint64_t learned_step = 0;
    uint64_t stale_step = 0;         // of `stale`; 0: none
    std::vector<double> stale = {};  // survivals of an earlier block
  };
  struct Pending {
    uint64_t step = 0;
    uint64_t sequence = 0;
    // What a sequence drafted before a preemption says nothing behind it: the same anchor may be
    // drafted for again, with the same noise.
    uint64_t life = 0;
    int64_t verified = 0;
    int64_t accepted = 0;
    // It had a block in a step that verified some. Where none is, that says nothing of the drafts.
    bool had_chance = false;
    std::vector<double> verified_confidences = {};  // without shift
    std::vector<float> next_confidences = {};
  };

  // What a step could have, before the gate has spoken.
  struct Prospect {
    StepLoad load = {};
    int64_t decoding = 0;            // of those that a block is drafted for
    bool listens = false;            // somebody's context is of use
    std::vector<double> could = {};  // survivals, if every willing sequence had a block
    std::vector<double> can = {};    // of blocks that are there
  };

  uint64_t LifeOf(uint64_t sequence) const;
  void TakeUpTo(uint64_t step);
  void TakeStep(std::span<const Pending> pending);
  void Take(const Pending& pending);
  void TakeNext(const Pending& pending, Record* record) const;
  int64_t Verified(const Pending& pending) const;
  double Foretold(const Pending& pending, int64_t verified) const;
  void AddSurvivals(const Record& record, uint64_t step, size_t most,
                    std::vector<double>* out) const;
  Prospect Look(uint64_t step, std::span<const PlannedSequence> sequences, StepDrafts* plan);
  const Outlook& OutlookOf(const Prospect& prospect);
  Outlook LookAhead(const Prospect& prospect) const;
  // What a try would be.
  struct Try {
    int64_t sequences = 1, steps = 1, blocks = 1;
    double lost = 0;  // by its drafts, in plain steps
  };
  Try TryOf(StepLoad load, int64_t count, std::span<const double> known) const;
  void ChooseTry(const StepLoad& load, Outlook* outlook) const;
  void Apply(const LoadGate::Answer& answer, uint64_t step, StepDrafts* plan);
  Budget Choose(const StepLoad& load, std::span<const double> survivals) const;

  CostTable costs_;
  PlannerOptions options_;
  ConfidenceShift shift_;
  SurvivalRecord typical_;  // of all sequences
  SurvivalRecord recent_;   // of all blocks, the last few
  Trust trust_ = {};
  LoadGate load_gate_ = {};
  StepLoad looked_at_ = {};  // what `outlook_` is of
  Outlook outlook_ = {};
  bool tried_ = false;       // the blocks that are there are a try's: all of them are verified
  bool tried_text_ = false;  // what is recent is a try's
  uint64_t step_ = 0;        // planned last
  uint64_t lives_ = 0;
  std::unordered_map<uint64_t, Record> records_ = {};
  std::vector<Pending> pending_ = {};  // in the order of steps
};

}  // namespace thalweg::spec
