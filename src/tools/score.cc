#include "tools/score.h"

#include <algorithm>

#include "sampling/sampler.h"
#include "tools/generate.h"

namespace thalweg::tools {
namespace {

// Adds the log-probabilities that the logits of positions [first, first + rows) give to the tokens
// behind them.
void AddLogprobs(std::span<const int32_t> ids, int64_t first, const model::StepOutput& output,
                 int64_t vocab, DocumentScore* score) {
  for (int64_t i = 0; i < output.rows && first + i + 1 < static_cast<int64_t>(ids.size()); ++i) {
    const std::span<const float> row(output.logits.data() + i * vocab, static_cast<size_t>(vocab));
    const double logprob = sampling::LogProbability(row, ids[static_cast<size_t>(first + i + 1)]);
    score->nll -= logprob;
    score->logprobs.push_back(static_cast<float>(logprob));
    ++score->tokens;
  }
}

}  // namespace

Result<DocumentScore> ScoreDocument(model::Model& model, std::span<const int32_t> ids,
                                    const model::Replay& replay, const LogitSink& sink) {
  TW_ASSIGN(const ScopedSequence sequence, ScopedSequence::Open(model));
  const auto length = static_cast<int64_t>(ids.size());
  const int64_t decoder_from = replay.DecoderFrom(length, model.config());
  DocumentScore score;
  score.first_predicted = decoder_from + 1;
  model::StepOutput output;
  for (int64_t start = 0; start < length;) {
    // A chunk ends at the decoder's first row, so that it runs wholly below or wholly above it.
    const int64_t border = start < decoder_from ? decoder_from : length;
    const int64_t count = std::min(model.options().max_rows, border - start);
    const bool above = start >= decoder_from;
    const model::Chunk chunk{
        .sequence = sequence.id(),
        .tokens = ids.subspan(static_cast<size_t>(start), static_cast<size_t>(count)),
        .decoder_from = decoder_from,
        .logits = above ? model::LogitRows::kAll : model::LogitRows::kNone};
    TW_TRY(model.Step({&chunk, 1}, &output));
    AddLogprobs(ids, start, output, model.config().vocab_size, &score);
    if (sink && above) TW_TRY(sink(start, output.logits, output.rows));
    start += count;
  }
  return score;
}

}  // namespace thalweg::tools
