// What becomes of drafts: blocks behind given text, or behind what the model itself writes, made
// whole, verified whole and greedily, without scheduler or engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/model.h"
#include "spec/calibration.h"

namespace thalweg::tools {

struct ReplayedText {
  int64_t first = 16;         // tokens before the first block
  int64_t stride = 8;         // tokens from one block to the next
  int64_t most_blocks = 400;  // of one document
};

// Blocks behind every stride-th token of a document, whose text goes on as it is (teacher-forced):
// a draft is accepted when it is the target's most probable token behind the text and the drafts
// before it. end_tokens: behind an accepted one nothing is in question. The model has a draft
// module and an open place; errors are those of its steps.
Result<std::vector<spec::VerifiedBlock>> ReplayText(model::Model& model,
                                                    std::span<const int32_t> ids,
                                                    std::span<const int32_t> end_tokens,
                                                    const ReplayedText& options);

struct DraftedAnswer {
  int64_t tokens = 0;  // behind the first, which the prompt's last row brings
  int64_t steps = 0;   // forwards of the target
  std::vector<spec::VerifiedBlock> blocks = {};
};

// The greedy answer of a prompt with whole blocks, up to an end token or max_tokens.
Result<DraftedAnswer> AnswerWithDrafts(model::Model& model, std::span<const int32_t> prompt,
                                       std::span<const int32_t> end_tokens, int64_t max_tokens);

}  // namespace thalweg::tools
