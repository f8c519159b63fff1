// Drafts of sequences on a device that draws, judges and drafts by itself: the host knows how many
// rows a step has, and reads what came of them when the next step is made (docs/contracts/exec.md).
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "exec/draft_lengths.h"
#include "exec/speculation.h"
#include "model/model.h"

namespace thalweg::exec {

// A sequence that gets a token from a step, which the device chooses.
struct DeviceDraftEntry {
  int32_t slot = 0;
  uint64_t sequence = 0;
  int64_t position = 0;     // of its newest token, whether or not the host knows that
  bool decodes = false;     // false: a prompt whose last row runs
  int64_t tokens_left = 0;  // that may still come, those of this step included
  int64_t most = 0;         // drafts that this step has room for
};

class DeviceDrafts {
 public:
  // Of a model that has a draft module, on a device that launches steps; not owned.
  DeviceDrafts(model::Model* model, DraftOptions options);
  ~DeviceDrafts();

  // Whether lengths of blocks depend on confidences, which are there when all of a step is done.
  bool needs_confidences() const { return options_.variable; }
  void Begin(int32_t slot, uint64_t sequence);
  void End(int32_t slot);

  // A step that is made now. other_rows: of prompts; room: rows with logits that it may have for
  // drafts.
  void Plan(uint64_t step, std::span<const DeviceDraftEntry> entries, int64_t other_rows,
            int64_t room);
  // Of an entry of that plan: drafts to verify, and whether a block is made behind the step.
  int64_t verify(size_t entry) const { return lengths_.verify[entry]; }
  bool draft(size_t entry) const { return lengths_.draft[entry] != 0; }
  // Whether its rows join the draft module's context.
  bool context() const { return lengths_.context; }

  // The block that is made for a slot stands behind the token at `position`.
  void Stands(int32_t slot, int64_t position);
  // There is no such token: the block counts no more.
  void Drop(int32_t slot) { At(slot).position = -1; }
  // Results of planned steps, in their order: what each entry accepted, that it landed and whether
  // drafts are still to come, then those.
  void Verified(size_t entry, int64_t verified, int64_t accepted);
  void Landed(uint64_t step, bool drafts);
  void Drafted(model::LaunchedDrafts drafts);
  // The newest drafts of a slot.
  std::span<const int32_t> tokens(int32_t slot) const;

 private:
  struct Slot {
    uint64_t sequence = 0;
    int64_t position = -1;                // where the newest block stands; -1: none
    std::vector<float> confidences = {};  // of the newest block that is known here
  };
  struct Outcome {
    int32_t slot = 0;
    uint64_t sequence = 0;
    int64_t verified = 0, accepted = 0;
    std::vector<float> confidences = {};  // of the verified block
    int64_t request = -1;                 // of the drafts behind the step
  };
  struct Step {
    uint64_t number = 0;
    int64_t requests = 0;
    std::vector<Outcome> outcomes = {};  // by entry
  };

  Slot& At(int32_t slot) { return slots_[static_cast<size_t>(slot)]; }
  void NoteStep(uint64_t step, std::span<const DeviceDraftEntry> entries);
  void ObserveOldest();

  model::Model* model_;
  DraftOptions options_;
  std::optional<spec::DraftPlanner> planner_;
  std::vector<Slot> slots_;
  std::vector<LengthEntry> wanted_;
  DraftLengths lengths_;    // of the step planned last
  std::deque<Step> steps_;  // whose results are not all here, oldest first; one is landing
  model::LaunchedDrafts drafts_;
};

}  // namespace thalweg::exec
