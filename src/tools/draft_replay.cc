#include "tools/draft_replay.h"

#include <algorithm>
#include <utility>

#include "sampling/best_first.h"
#include "tools/generate.h"

namespace thalweg::tools {
namespace {

// A block behind `anchor`, drafted and verified at a sequence's end.
struct Verified {
  spec::VerifiedBlock block = {};
  std::vector<int32_t> tokens = {};  // that come out, the last one the target's own
  bool ended = false;                // with an end token
};

class Verifier {
 public:
  Verifier(model::Model& model, std::span<const int32_t> end_tokens)
      : model_(model), end_tokens_(end_tokens) {}

  // The sequence is left with the rows of anchor and drafts.
  Result<Verified> Run(kvpool::SequenceId id, int32_t anchor) {
    const model::DraftRequest request{.sequence = id, .token = anchor};
    TW_TRY(model_.Draft({&request, 1}, &drafts_));
    std::vector<int32_t> rows = {anchor};
    rows.insert(rows.end(), drafts_.tokens.begin(), drafts_.tokens.end());
    const model::Chunk chunk{
        .sequence = id, .tokens = rows, .logits = model::LogitRows::kAll, .draft_context = true};
    TW_TRY(model_.Step({&chunk, 1}, &output_));
    Verified out;
    out.block.raw = drafts_.confidence;
    Walk(&out);
    return out;
  }

  Result<int32_t> First(kvpool::SequenceId id, std::span<const int32_t> prompt) {
    TW_TRY(Prefill(model_, id, prompt, 0, &output_));
    return Best(0);
  }

 private:
  int32_t Best(size_t row) const {
    const auto vocab = static_cast<size_t>(model_.config().vocab_size);
    return sampling::Summarise(std::span(output_.logits).subspan(row * vocab, vocab)).best.token;
  }
  bool Ends(int32_t token) const {
    return std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
  }

  void Walk(Verified* out) const {
    const size_t drafts = drafts_.tokens.size();
    size_t k = 0;
    for (; k <= drafts; ++k) {
      out->tokens.push_back(Best(k));
      const bool accepted = k < drafts && drafts_.tokens[k] == out->tokens.back();
      out->ended = Ends(out->tokens.back());
      out->block.accepted += accepted ? 1 : 0;
      if (!accepted || out->ended) break;
    }
    const bool cut = out->ended && out->block.accepted == static_cast<int64_t>(k) + 1;
    out->block.verified = cut ? out->block.accepted : static_cast<int64_t>(drafts);
  }

  model::Model& model_;
  std::span<const int32_t> end_tokens_;
  model::DraftOutput drafts_;
  model::StepOutput output_;
};

}  // namespace

Result<std::vector<spec::VerifiedBlock>> ReplayText(model::Model& model,
                                                    std::span<const int32_t> ids,
                                                    std::span<const int32_t> end_tokens,
                                                    const ReplayedText& options) {
  std::vector<spec::VerifiedBlock> blocks;
  TW_ASSIGN(const ScopedSequence sequence, ScopedSequence::Open(model));
  Verifier verifier(model, end_tokens);
  model::StepOutput output;
  const auto block = model.config().dspark_block_size;
  const auto last =
      std::min(static_cast<int64_t>(ids.size()), model.config().max_position_embeddings - block);
  int64_t done = 0;
  for (int64_t at = options.first; at < last; at += options.stride) {
    TW_TRY(Prefill(model, sequence.id(),
                   ids.subspan(static_cast<size_t>(done), static_cast<size_t>(at - done)), 0,
                   &output));
    done = at;
    TW_ASSIGN(Verified verified, verifier.Run(sequence.id(), ids[static_cast<size_t>(at)]));
    blocks.push_back(std::move(verified.block));
    TW_TRY(model.pool().Truncate(sequence.id(), at));
    if (static_cast<int64_t>(blocks.size()) >= options.most_blocks) break;
  }
  return blocks;
}

Result<DraftedAnswer> AnswerWithDrafts(model::Model& model, std::span<const int32_t> prompt,
                                       std::span<const int32_t> end_tokens, int64_t max_tokens) {
  DraftedAnswer answer;
  TW_ASSIGN(const ScopedSequence sequence, ScopedSequence::Open(model));
  Verifier verifier(model, end_tokens);
  TW_ASSIGN(int32_t anchor, verifier.First(sequence.id(), prompt));
  bool ended = std::find(end_tokens.begin(), end_tokens.end(), anchor) != end_tokens.end();
  while (!ended && answer.tokens + 1 < max_tokens) {
    const int64_t start = model.pool().length(sequence.id());
    TW_ASSIGN(Verified verified, verifier.Run(sequence.id(), anchor));
    const auto came = static_cast<int64_t>(verified.tokens.size());
    TW_TRY(model.pool().Truncate(sequence.id(), start + came));
    anchor = verified.tokens.back();
    ended = verified.ended;
    answer.tokens += came;
    ++answer.steps;
    answer.blocks.push_back(std::move(verified.block));
  }
  return answer;
}

}  // namespace thalweg::tools
