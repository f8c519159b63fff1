// Which drafts of a block come out, and which token follows them (spec/decoding.md 1.6). A sequence
// gets exactly the law of its plain decoding, whatever was drafted; under kTarget it gets the very
// tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "sampling/sampler.h"
#include "spec/law.h"

namespace thalweg::spec {

enum class Rule {
  // The token of each row is drawn as plain decoding draws it; a draft is accepted when it is that
  // token. The result is a function of the sequence alone: drafts, their number and the scheduler
  // change how many tokens a step brings, never which. Greedy decoding is a case of it.
  kTarget,
  // A draft from q is accepted with probability min(1, p / q), and what is drawn otherwise makes up
  // the difference. More drafts are accepted; which tokens come depends on what was drafted.
  kRejection,
};

// A request that was given a seed by its user keeps its tokens with speculation on, off, fixed or
// variable; for greedy ones the rules are the same, and the first is cheaper.
Rule RuleFor(const step::SamplingParams& params, bool seeded);

// The draw of the draft for `position`, as slot 0, 1, ... of its block; logits: [vocab] of the
// drafter, at the sequence's temperature and truncations. Under kTarget it has the noise of the
// target's own draw there, so similar laws give equal tokens. Under kRejection the noise belongs to
// (position, slot) alone: a position is drafted again behind every anchor before it, and budgets
// come from confidences in older drafts, so a draw that used the same noise again would not be
// independent of what decides whether it is verified. kInternal: logits are not finite.
Result<int32_t> DrawDraft(std::span<const float> logits, const step::SamplingParams& params,
                          int64_t position, int slot, Rule rule, LawBuffers* buffers);

// One sequence's block in a step: the anchor and the drafts behind it went through the target, row
// by row.
struct VerifyBlock {
  std::span<float> logits = {};  // [rows, vocab], of the target; rows that are read are changed
  int64_t rows = 0;              // 1 or more; the first is the anchor's
  // drafts[k] is for the token behind row k; at most `rows` of them. With fewer than rows the row
  // behind the last has a token of its own (the bonus).
  std::span<const int32_t> drafts = {};
  // The first of them came with certainty, as a function of the history (forced text).
  int64_t certain = 0;
  // [drafts - certain, vocab]: the drafter's, from which DrawDraft drew the others under
  // kRejection. Empty: they came with certainty, too (an argmax).
  std::span<const float> draft_logits = {};
  std::span<const sampling::TokenMask> masks =
      {};                                          // empty, or one for each row that can be reached
  const sampling::Processor* processor = nullptr;  // may be null
  int64_t position = 0;                            // of the token behind the anchor's row
  Rule rule = Rule::kTarget;
};

struct Accepted {
  // Tokens that come out, in order; the last may be without a token (fulfilled).
  std::vector<sampling::RowSample> samples = {};
  int64_t drafts = 0;  // of them, those that were drafted
  // Drafts whose fate is known, for calibration and planning: all that were there, or, where the
  // sequence ends with an accepted one, those up to it.
  int64_t verified = 0;
  // Of the row behind the samples, where it failed; what came before is as good as ever.
  Status status = {};
};

// state: the history up to the anchor; the tokens that come out join it. Each row is processed with
// the drafts before it as history, as plain decoding would: penalties, bias, bad words, min_tokens,
// thinking budget, masks. The block ends at the first draft that is not accepted, at a token that
// ends the sequence (nothing behind it comes out), or with the rows. Drafts end before the first
// that is no token of the vocabulary: a placeholder.
Accepted Accept(const VerifyBlock& block, sampling::SequenceState* state,
                sampling::Scratch* scratch, LawBuffers* buffers);

// Drafts before the first that is no token.
int64_t UsableDrafts(std::span<const int32_t> drafts, int64_t vocab);

}  // namespace thalweg::spec
