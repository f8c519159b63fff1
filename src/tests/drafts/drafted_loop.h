// The simplest loop with drafts: sequences that decode together on one model, blocks drafted,
// verified, accepted and rolled back, without scheduler or engine.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "spec/acceptance.h"
#include "spec/calibration.h"
#include "spec/draft_block.h"
#include "tools/generate.h"
#include "tools/session.h"

namespace thalweg::tests {

struct DraftedSequence {
  DraftedSequence(tools::ScopedSequence s, sampling::SequenceState st)
      : sequence(std::move(s)), state(std::move(st)) {}

  tools::ScopedSequence sequence;
  sampling::SequenceState state;
  spec::Rule rule = spec::Rule::kTarget;
  int64_t max_tokens = 0;
  bool ended = false;
  spec::DraftBlock block = {};
  std::vector<sampling::RowSample> samples = {};   // all that came out
  std::vector<spec::VerifiedBlock> verified = {};  // blocks that were verified
  int64_t steps = 0;                               // target forwards behind the prompt's

  int64_t tokens_left() const { return max_tokens - static_cast<int64_t>(samples.size()); }
};

class DraftedLoop {
 public:
  // Drafts of a sequence to verify in a step; the loop keeps them within what is left.
  using Lengths = std::function<int64_t(size_t sequence, int64_t step)>;

  // drafts: whether blocks are made at all. The session outlives the loop.
  DraftedLoop(tools::Session* session, bool drafts) : session_(*session), drafts_(drafts) {}

  // What becomes of each block before it is verified; nothing by default.
  void SetSpoiler(std::function<void(spec::DraftBlock*)> spoil) { spoil_ = std::move(spoil); }
  // Prefills, draws the first token, drafts the first block.
  Status Add(std::span<const int32_t> prompt, const step::SamplingParams& params, spec::Rule rule,
             int64_t max_tokens);
  // One forward over all that have not ended; false: all have.
  Result<bool> Step(const Lengths& lengths);
  Status Run(const Lengths& lengths);
  const std::deque<DraftedSequence>& sequences() const { return sequences_; }

 private:
  std::span<float> Logits(size_t first_row, size_t rows);
  void Take(DraftedSequence* s, spec::Accepted accepted);
  Status Verify(const std::vector<size_t>& live, std::span<const std::vector<int32_t>> chunks);
  Status DraftFor(const std::vector<size_t>& live);
  void KeepBlock(DraftedSequence* s, size_t request, const model::DraftOutput& output);

  tools::Session& session_;
  bool drafts_;
  std::function<void(spec::DraftBlock*)> spoil_ = {};
  std::deque<DraftedSequence> sequences_ = {};
  model::StepOutput output_ = {};
  model::DraftOutput draft_output_ = {};
  sampling::Scratch scratch_;
  spec::LawBuffers buffers_ = {};
};

}  // namespace thalweg::tests
