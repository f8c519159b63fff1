// Drafts of the sequences on a rank: made before a step verifies them, judged behind it
// (spec/decoding.md 1, docs/contracts/exec.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "model/model.h"
#include "sampling/sampler.h"
#include "sampling/sequence_state.h"
#include "spec/acceptance.h"
#include "spec/gate.h"

namespace thalweg::exec {

// A sequence that decodes in this step.
struct DraftCandidate {
  int32_t slot = 0;
  kvpool::SequenceId id = {};
  const sampling::SequenceState* state = nullptr;
  int64_t most = 0;  // drafts at most; 1 or more
};

// What a step ran of a candidate: its anchor and the drafts behind it.
struct DraftVerdict {
  size_t candidate = 0;
  std::span<float> logits = {};  // [1 + drafts, vocab] of the target
  sampling::SequenceState* state = nullptr;
  const sampling::Processor* processor = nullptr;
  spec::Accepted accepted = {};  // the answer
};

class Speculation {
 public:
  // Of a model that has a draft module; not owned.
  explicit Speculation(model::Model* model);

  void Begin(int32_t slot, bool seeded);
  // One block for each candidate, and how many drafts of it are verified.
  Status Draft(std::span<const DraftCandidate> candidates);
  // Anchor and drafts of a candidate, to run at its length; the anchor alone where none pays.
  std::span<const int32_t> Block(size_t candidate) const;
  // Judges blocks that ran, over the team; those with a processor on the calling thread, in order.
  // Tokens that come out join the state.
  void Judge(std::span<DraftVerdict> verdicts, sampling::ScratchPool* scratch);

 private:
  struct Slot {
    bool seeded = true;
    spec::SequenceGate gate;
  };
  struct Drafted {
    int32_t slot = 0;
    spec::Rule rule = spec::Rule::kTarget;
    int64_t position = 0;                // of the token behind the anchor
    std::vector<int32_t> block = {};     // anchor, drafts
    std::span<const float> logits = {};  // [block, vocab] of the drafter
  };

  int32_t Choose(const DraftCandidate& candidate, const Drafted& drafted,
                 std::span<const float> logits, int slot);
  void JudgeOne(DraftVerdict* verdict, sampling::Scratch* scratch, spec::LawBuffers* buffers) const;
  Drafted& At(size_t candidate) { return drafted_[candidate]; }

  model::Model* model_;
  std::vector<Slot> slots_;
  std::vector<Drafted> drafted_;  // by candidate; their memory serves again
  std::vector<model::DraftRequest> requests_;
  std::vector<size_t> requested_;  // candidates of requests_
  model::DraftOutput output_;
  spec::LawBuffers buffers_;
};

}  // namespace thalweg::exec
