// When drafting itself stops and starts: for a load, where no number of drafts pays for making
// them, and for a sequence whose drafts are not accepted (spec/decoding.md 1.5). Functions of what
// earlier steps brought, counted in steps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/verification.h"

namespace thalweg::spec {

// What the drafts of a sequence have been worth: survival by slot, recent blocks counting most.
// Budgets are chosen from it where no confidences of an earlier step are at hand.
class SurvivalRecord {
 public:
  // Before anything is known drafts are taken to be accepted.
  explicit SurvivalRecord(size_t slots) : survival_(slots, 1.0) {}
  // A verified block. Slots behind those that were verified keep at most the survival of the last.
  void Observe(int64_t verified, int64_t accepted);
  std::span<const double> survival() const { return survival_; }

 private:
  std::vector<double> survival_;
};

// Whether blocks are drafted at all. It takes kPatience steps in a row to change its mind, and
// tries a step with drafts every kLoadProbe steps without.
class LoadGate {
 public:
  static constexpr double kLeastGain = 1.02;  // to start; below 1 it stops
  static constexpr int kPatience = 8;
  static constexpr int64_t kLoadProbe = 256;

  // Once a step, with the budget that the step would have; whether to draft in it.
  bool Step(const Budget& budget);
  bool open() const { return open_; }

 private:
  bool open_ = true;
  int against_ = 0;  // steps in a row that speak for the other state
  int64_t closed_steps_ = 0;
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

 private:
  int idle_blocks_ = 0;
  int64_t pause_ = 0;  // length of the latest; 0: none since drafts were accepted
  int64_t pause_left_ = 0;
};

}  // namespace thalweg::spec
