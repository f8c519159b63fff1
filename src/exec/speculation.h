// Drafts of the sequences on a rank: made behind a step from the tokens that it brought, verified
// by the next one (spec/decoding.md 1, docs/contracts/spec.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "exec/forced_drafts.h"
#include "exec/token_masks.h"
#include "model/model.h"
#include "sampling/sampler.h"
#include "sampling/sequence_state.h"
#include "spec/acceptance.h"
#include "spec/cost_table.h"
#include "spec/draft_block.h"
#include "spec/draft_planner.h"

namespace thalweg::exec {

struct DraftOptions {
  int64_t drafts = 0;     // of a block, at most; 0: the draft module is not used
  bool forced = false;    // forced text of constrained sequences is drafted
  bool always = false;    // forced text whether it pays or not
  bool variable = false;  // how many are verified depends on confidences and costs
  // What steps cost; nothing: every block is made and verified whole.
  std::optional<spec::CostProfile> costs = {};
  std::vector<double> temperatures = {};  // of the calibration, by slot
};

// A sequence that brings a token in this step.
struct DraftEntry {
  int32_t slot = 0;
  uint64_t sequence = 0;
  kvpool::SequenceId id = {};
  sampling::SequenceState* state = nullptr;
  const sampling::Processor* processor = nullptr;
  TokenMasks* masks = nullptr;  // of a constrained sequence
  bool decodes = false;         // false: a prompt whose last row runs
  int64_t tokens_left = 0;      // that may still come, those of this step included
  int64_t most = 0;             // drafts that this step has room for
};

class Speculation {
 public:
  // Of a model that has a draft module, if it is used; not owned.
  Speculation(model::Model* model, DraftOptions options);
  ~Speculation();

  void Begin(int32_t slot, uint64_t sequence, bool seeded);
  void End(int32_t slot);

  // Which drafts the step verifies. other_rows: of prompts.
  void Plan(uint64_t step, std::span<const DraftEntry> entries, int64_t other_rows);
  // Of an entry of that plan: its anchor and the drafts behind it. The anchor alone is an ordinary
  // decode row.
  std::span<const int32_t> Block(size_t entry) const { return runs_[entry].block; }
  // Whether rows of the step join the draft module's context.
  bool draft_context() const { return draft_context_; }
  // Judges blocks of more than the anchor, over the team; logits: [rows, vocab] of each entry,
  // empty where nothing is to be judged. Tokens that come out join the states.
  void Judge(std::span<const DraftEntry> entries, std::span<const std::span<float>> logits,
             sampling::ScratchPool* scratch);
  spec::Accepted& accepted(size_t entry) { return runs_[entry].accepted; }
  // Drafts for the next step. goes_on: of each entry, whether another token may follow.
  Status DraftNext(std::span<const DraftEntry> entries, std::span<const uint8_t> goes_on);

 private:
  struct Slot {
    uint64_t sequence = 0;
    bool seeded = true;
    spec::DraftBlock block = {};
  };
  // An entry in the step under way.
  struct Run {
    std::vector<int32_t> block = {};      // anchor, drafts to verify
    std::vector<float> confidences = {};  // of the whole block that there was
    std::span<const float> logits = {};   // of the drafter, for the drafts to verify
    spec::Rule rule = spec::Rule::kTarget;
    int64_t position = 0;  // of the token behind the anchor
    int64_t certain = 0;   // drafts to verify that are forced text
    bool draft = true;     // make a block behind the step
    spec::Accepted accepted = {};
  };

  Slot& At(const DraftEntry& e) { return slots_[static_cast<size_t>(e.slot)]; }
  void ReadBlock(const DraftEntry& entry, Run* run);
  void PlanForced(std::span<const DraftEntry> entries, int64_t other_rows);
  void Settle(const DraftEntry& entry, size_t index);
  void ChooseLengths(uint64_t step, std::span<const DraftEntry> entries, int64_t other_rows);
  void JudgeOne(const DraftEntry& entry, std::span<float> logits, Run* run,
                sampling::Scratch* scratch, spec::LawBuffers* buffers) const;
  void Request(const DraftEntry& entry, size_t index);
  void NoteStep(size_t entries);
  void StoreBlocks(std::span<const DraftEntry> entries);
  void Observe(std::span<const DraftEntry> entries);

  model::Model* model_;
  DraftOptions options_;
  std::optional<spec::DraftPlanner> planner_;
  std::vector<Slot> slots_;
  ForcedDrafts forced_;
  uint64_t step_ = 0;
  bool draft_context_ = true;
  bool decodes_alone_ = true;  // no rows of prompts in the step
  std::vector<Run> runs_;      // by entry; their memory serves again
  std::vector<int32_t> most_, lengths_;
  std::vector<ForcedDrafts::Asked> asked_;
  std::vector<model::DraftRequest> requests_;
  std::vector<size_t> requested_;  // entries of requests_
  model::DraftOutput output_;
  spec::LawBuffers buffers_;
};

}  // namespace thalweg::exec
