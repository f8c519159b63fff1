// When drafting itself stops and starts: for a load, where no number of drafts pays for making
// them, and for a sequence whose drafts are not accepted (spec/decoding.md 1.5). Functions of what
// earlier steps brought, counted in steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/verification.h"

namespace thalweg::spec {

// What the drafts of a sequence have been worth: survival by slot, what was observed most recently
// counting most. Budgets are chosen from it where no confidences of an earlier step are at hand.
class SurvivalRecord {
 public:
  // Before anything is known each draft is taken to be accepted as often as published of this model
  // (spec/decoding.md 1.8: 70 % of first drafts, 10 % of seventh).
  static constexpr double kUsualAcceptance = 0.72;
  // least_share: what something new counts for at least, once much is known.
  static constexpr double kSequenceShare = 1.0 / 16, kTypicalShare = 1.0 / 256;
  explicit SurvivalRecord(size_t slots, double least_share = kSequenceShare);
  // Where a new sequence begins: with what is known of all, and ready to learn of its own.
  SurvivalRecord ForSequence() const;

  // A verified block. Slots behind those that were verified keep at most the survival of the last.
  void Observe(int64_t verified, int64_t accepted);
  // What confidences say of a block, verified or not: survival by slot.
  void Predict(std::span<const double> survival);
  std::span<const double> survival() const { return survival_; }

 private:
  double NextShare();

  double least_share_;
  std::vector<double> survival_;
  int64_t observations_ = 0;
};

// Whether blocks are drafted at all. It changes its mind when what the present state loses against
// the other adds up to kLoss steps: at once where the difference is large, slowly where it is
// small. Half of what drafts have gained at a load may be lost again first, kMostCredit steps at
// most: text has stretches that are hard to foretell, and a window of context lost costs more than
// they do. To start again it asks for more each time that starting was soon regretted. Closed, it
// costs nothing: the draft module's context is not written either. It tries again now and then,
// less and less often, and never so often that tries take more than kTryShare of the time.
//
// Behind a pause the context begins anew, so that kListenSteps steps write it before blocks are
// drafted: with that many rows a block of the released kind brings nine tenths of what it brings
// with a full window.
class LoadGate {
 public:
  static constexpr double kLeastGain = 1.02;  // to start; below 1 it stops
  static constexpr double kLoss = 0.25;
  static constexpr double kMostLoss = 16;
  static constexpr double kMostCredit = 16;
  static constexpr int64_t kSettledSteps = 256;  // open for so long: it was no mistake
  static constexpr int64_t kListenSteps = 32;
  static constexpr double kListenLoss = 2;  // steps; an upper bound of what listening costs
  static constexpr double kTryShare = 1.0 / 256;
  static constexpr int64_t kLongestWait = 8192;

  struct Answer {
    bool draft = false;    // blocks behind this step
    bool context = false;  // its rows join the draft module's context
  };

  // Once a step, with the budget that the step would have.
  Answer Step(const Budget& budget);
  bool open() const { return open_; }
  // Whether rows of a step without tokens to come (pieces of prompts) join the context.
  bool context() const { return open_ || listening_ > 0; }

 private:
  void Turn();
  void Account(const Budget& budget);
  Answer Closed(const Budget& budget);

  bool open_ = true;
  double loss_ = 0, needed_ = kLoss;  // what has added up (credit below 0), and has to, to open
  double load_ = 0;                   // tokens of a plain step where the credit was earned
  int64_t open_steps_ = 0;
  int64_t listening_ = 0;  // steps that are left
  int64_t wait_ = 0;       // steps until the next try; 0: not known yet
  int64_t least_wait_ = 0;
};

// Whether a block is drafted for one sequence. After kIdleBlocks in a row that brought nothing it
// pauses, 16 steps at first, twice as long after each attempt that fails again, 256 at most.
class SequenceGate {
 public:
  static constexpr int kIdleBlocks = 16;
  static constexpr int64_t kFirstPause = 16;
  static constexpr int64_t kLongestPause = 256;

  // Once for each step in which the sequence could have drafts: whether to make them.
  bool Step();
  // What a block that was drafted brought: drafts that were accepted, 0 when none was verified.
  void Observe(int64_t accepted);
  bool pausing() const { return pause_left_ > 0; }
  // Whether its rows join the draft module's context: before a pause ends.
  bool listens() const { return pause_left_ <= LoadGate::kListenSteps; }

 private:
  int idle_blocks_ = 0;
  int64_t pause_ = 0;  // length of the latest; 0: none since drafts were accepted
  int64_t pause_left_ = 0;
};

}  // namespace thalweg::spec
