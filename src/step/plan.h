// One engine step as data: what the control plane orders, and what the data plane answers
// (docs/contracts/step.md). Integers and parameters only; step/codec.h makes bytes of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "step/sampling_params.h"

namespace thalweg::step {

// Where a sequence begins on the rank. It gives the slot (pool sequence, sampler state, newest
// token) to a sequence. Nothing of an earlier owner may be seen through it.
struct SequenceStart {
  int32_t slot = 0;
  uint64_t sequence = 0;  // unique for the life of the engine
  // Everything known: the prompt, then, after a preemption, what was generated before it.
  std::vector<int32_t> tokens = {};
  int64_t prompt_tokens = 0;
  int64_t end_tokens = 0;  // its length when it ends by length: the last token is never run
  SamplingParams sampling = {};

  // What is taken from the cache. Rows run from `start` on; block table entries come with the first
  // rows of the sequence, shared ones included.
  int64_t start = 0;
  int32_t restore_checkpoint = -1;  // >= 0: bounded state of `start` tokens is loaded from it
  int64_t encoder_floor = 0;        // encoder layers have no window rows below
  int64_t decoder_floor = 0;        // likewise decoder layers and draft stages
  int64_t decoder_from = 0;         // rows below run the encoder only (model/replay.h)
  int64_t write_from = 0;           // compressed rows below are shared: never written
};

// Rows of one sequence in a step: contiguous, ascending.
struct SequenceRows {
  int32_t slot = 0;
  uint64_t sequence = 0;
  // Absolute position of the first row. With drafts it may lie further on, behind what steps under
  // way bring: the rank knows where the sequence is.
  int64_t start = 0;
  int32_t count = 0;  // with drafts the most there may be, and none at the end of the sequence
  // true: ids are SequenceStart::tokens at these positions. false: the newest token sampled for the
  // slot, which the control plane may not know yet, and behind it count - 1 tokens that the rank
  // drafts.
  bool known_tokens = true;
  bool sample = false;           // sample the token at position start + count
  int32_t save_checkpoint = -1;  // >= 0: bounded state is copied there when the step is done
  // With drafts, what is saved has just so many rows: the step runs no row behind, and where fewer
  // were accepted nothing is saved. 0: whatever the rows end with.
  int64_t save_at = 0;
  int32_t new_blocks_begin = 0;  // into StepPlan::blocks: appended to the block table before
  int32_t new_blocks_count = 0;
};

struct StepPlan {
  uint64_t number = 0;                     // 1, 2, ...: steps execute in this order
  std::vector<int32_t> closes = {};        // slots given back, before anything else
  std::vector<SequenceStart> starts = {};  // then these begin
  std::vector<SequenceRows> rows = {};     // then these run, in one forward
  std::vector<int32_t> blocks = {};

  int64_t RowCount() const {
    int64_t n = 0;
    for (const SequenceRows& r : rows) n += r.count;
    return n;
  }
  // Empty again, with the memory it has.
  void Clear() {
    closes.clear();
    starts.clear();
    rows.clear();
    blocks.clear();
  }
};

struct TokenLogprob {
  int32_t token = 0;
  float logprob = 0;  // natural log, of the untouched logits
  int32_t rank = 0;   // 1: the most probable; ties by id
};

// Log-probabilities at one position: of the token that is there, then of the best.
struct PositionLogprobs {
  TokenLogprob chosen = {};
  std::vector<TokenLogprob> top = {};  // most probable first
};

enum class TokenEnd : uint8_t {
  kNone,
  kEndToken,   // one of SamplingParams::end_tokens
  kStopToken,  // one of SamplingParams::stop_token_ids
};

// One token that was chosen.
struct SampledToken {
  int32_t token = 0;
  TokenEnd end = TokenEnd::kNone;
  bool forced = false;             // by the thinking budget
  PositionLogprobs logprobs = {};  // filled when asked for
};

// What one entry of StepPlan::rows brought. The rank answers for every entry, in order.
struct SequenceResult {
  int32_t slot = 0;
  uint64_t sequence = 0;
  int32_t tokens_begin = 0;  // into StepResult::tokens, in the order of the text: accepted drafts,
  int32_t tokens_count = 0;  // then one more
  int32_t drafted = 0;       // drafts that were run
  bool fulfilled = false;  // behind them no token at all: the constraint is met, nothing may follow
  bool saved = true;       // the checkpoint that the plan asked for
  std::vector<PositionLogprobs> prompt_logprobs = {};  // of the prompt tokens of these rows
  Status status = {};  // of this sequence alone: logits not finite, its processor failed
};

struct StepResult {
  uint64_t number = 0;
  Status status = {};  // the step as a whole; an error: none of its rows happened
  std::vector<SequenceResult> sequences = {};
  std::vector<SampledToken> tokens = {};
  double execute_seconds = 0;

  std::span<const SampledToken> TokensOf(const SequenceResult& r) const {
    return std::span(tokens).subspan(static_cast<size_t>(r.tokens_begin),
                                     static_cast<size_t>(r.tokens_count));
  }
  // Of one entry at a time: its tokens stand together.
  void Append(SequenceResult* r, SampledToken token) {
    if (r->tokens_count == 0) r->tokens_begin = static_cast<int32_t>(tokens.size());
    ++r->tokens_count;
    tokens.push_back(std::move(token));
  }
  // Empty again, with the memory it has.
  void Clear() {
    status = {};
    sequences.clear();
    tokens.clear();
  }
};

}  // namespace thalweg::step
