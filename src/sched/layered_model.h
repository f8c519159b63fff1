// A model of hashes in the shape of the real one, for tests: every value is a hash of exactly what
// the real value depends on, so that a wrong or missing window row, block or checkpoint anywhere
// changes the tokens. NaiveTokens is the obvious version of it; Device runs plans.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "cache/reuse.h"
#include "step/plan.h"

namespace thalweg::sched {

// Tokens that a sequence brings when it runs alone, at once and without any cache.
std::vector<int32_t> NaiveTokens(const cache::ReplayReach& reach, std::vector<int32_t> tokens,
                                 int64_t decoder_from, uint64_t seed, int64_t count);

inline constexpr int32_t kVocabulary = 50;

// Executes plans as a rank would, drafts included (some of them wrong), and checks what a rank may
// rely on: rows contiguous, blocks enough, window rows present, nothing written below write_from.
class Device {
 public:
  Device(const cache::ReplayReach& reach, int64_t blocks, int64_t checkpoints);

  // With `fail` the step fails as a whole: it closes and begins, and runs nothing. Whatever is
  // planned for its sequences afterwards runs on nothing.
  step::StepResult Execute(const step::StepPlan& plan, bool fail = false);
  // Whether drafts that a plan has room for run; a rank may find that they do not pay.
  void set_runs_drafts(bool runs) { runs_drafts_ = runs; }
  int64_t rows_run() const { return rows_run_; }
  static constexpr int64_t kSlack = 128;

 private:
  struct Row {
    int64_t position = -1;
    uint64_t value = 0;
  };
  struct Bounded {
    // Of the newest rows, and as many more as rejected drafts may have overwritten.
    std::vector<std::vector<Row>> rings;  // [layer][window + kSlack]
    std::vector<uint64_t> encoded;        // by row % kSlack: first halves of ratio-2 groups
  };
  struct Slot {
    bool open = false;
    bool broken = false;
    step::SequenceStart start;
    int64_t next = 0;  // row
    int32_t newest = 0;
    std::vector<int32_t> blocks;
    Bounded state;
  };
  struct Saved {
    int64_t position = -1;
    int64_t decoder_from = 0;
    Bounded state;
  };

  void Begin(const step::SequenceStart& start);
  void RunRows(const step::StepPlan& plan, const step::SequenceRows& rows,
               step::StepResult* result);
  void RunKnown(Slot* slot, const step::SequenceRows& rows, step::StepResult* result);
  void RunDrafts(Slot* slot, const step::SequenceRows& rows, step::StepResult* result);
  void Save(Slot* slot, const step::SequenceRows& rows, step::SequenceResult* result);
  static step::SampledToken Choose(const Slot& slot, uint64_t output, int64_t position);
  uint64_t RunRow(Slot* slot, int64_t row, int32_t token);
  uint64_t Window(const Slot& slot, int64_t layer, int64_t row) const;
  uint64_t Compressed(const Slot& slot, int64_t row) const;
  void Write(Slot* slot, int64_t row, uint64_t value);

  cache::ReplayReach reach_;
  std::vector<std::vector<uint64_t>> blocks_;  // [block][32 groups of two tokens]
  std::vector<Slot> slots_;
  std::vector<Saved> saved_;
  int64_t rows_run_ = 0;
  bool runs_drafts_ = true;
};

}  // namespace thalweg::sched
