#include "tests/drafts/drafted_loop.h"

#include <algorithm>
#include <utility>

namespace thalweg::tests {

std::span<float> DraftedLoop::Logits(size_t first_row, size_t rows) {
  const auto vocab = static_cast<size_t>(session_.config().vocab_size);
  return std::span(output_.logits).subspan(first_row * vocab, rows * vocab);
}

void DraftedLoop::Take(DraftedSequence* s, spec::Accepted accepted) {
  for (sampling::RowSample& sample : accepted.samples) s->samples.push_back(std::move(sample));
  s->ended = s->samples.back().end != step::TokenEnd::kNone || s->tokens_left() == 0;
}

Status DraftedLoop::Add(std::span<const int32_t> prompt, const step::SamplingParams& params,
                        spec::Rule rule, int64_t max_tokens) {
  TW_ASSIGN(tools::ScopedSequence sequence, tools::ScopedSequence::Open(*session_.model));
  DraftedSequence& s = sequences_.emplace_back(
      std::move(sequence),
      sampling::SequenceState(params, session_.config().vocab_size, {prompt.begin(), prompt.end()},
                              static_cast<int64_t>(prompt.size())));
  s.rule = rule;
  s.max_tokens = max_tokens;
  TW_TRY(tools::Prefill(*session_.model, s.sequence.id(), prompt, 0, &output_));
  spec::Accepted first = spec::Accept({.logits = Logits(0, 1),
                                       .rows = 1,
                                       .position = static_cast<int64_t>(prompt.size()),
                                       .rule = rule},
                                      &s.state, &scratch_, &buffers_);
  TW_TRY(first.status);
  Take(&s, std::move(first));
  return s.ended ? Status() : DraftFor({sequences_.size() - 1});
}

Result<bool> DraftedLoop::Step(const Lengths& lengths) {
  std::vector<size_t> live;
  std::vector<std::vector<int32_t>> chunks;
  for (size_t i = 0; i < sequences_.size(); ++i) {
    DraftedSequence& s = sequences_[i];
    if (s.ended) continue;
    const int32_t anchor = s.state.tokens().back();
    const int64_t position = session_.model->pool().length(s.sequence.id());
    const int64_t most = std::min(lengths(i, s.steps), s.tokens_left() - 1);
    const auto drafts = s.block.For(i + 1, position, anchor, static_cast<size_t>(most));
    std::vector<int32_t>& tokens = chunks.emplace_back(1, anchor);
    tokens.insert(tokens.end(), drafts.begin(), drafts.end());
    live.push_back(i);
  }
  if (live.empty()) return false;
  TW_TRY(Verify(live, chunks));
  std::erase_if(live, [&](size_t i) { return sequences_[i].ended; });
  TW_TRY(DraftFor(live));
  return true;
}

Status DraftedLoop::Run(const Lengths& lengths) {
  while (true) {
    TW_ASSIGN(const bool more, Step(lengths));
    if (!more) return {};
  }
}

Status DraftedLoop::Verify(const std::vector<size_t>& live,
                           std::span<const std::vector<int32_t>> chunks) {
  std::vector<model::Chunk> batch;
  for (size_t c = 0; c < live.size(); ++c)
    batch.push_back({.sequence = sequences_[live[c]].sequence.id(),
                     .tokens = chunks[c],
                     .logits = model::LogitRows::kAll});
  TW_TRY(session_.model->Step(batch, &output_));
  size_t row = 0;
  for (size_t c = 0; c < live.size(); ++c) {
    DraftedSequence& s = sequences_[live[c]];
    const size_t rows = chunks[c].size();
    const auto start = static_cast<int64_t>(s.state.tokens().size()) - 1;
    const auto drafts = std::span(chunks[c]).subspan(1);
    const auto vocab = static_cast<size_t>(session_.config().vocab_size);
    const bool laws = s.rule == spec::Rule::kRejection;
    spec::Accepted accepted = spec::Accept(
        {.logits = Logits(row, rows),
         .rows = static_cast<int64_t>(rows),
         .drafts = drafts,
         .draft_logits =
             std::span<const float>(s.block.logits).first(laws ? drafts.size() * vocab : 0),
         .position = start + 1,
         .rule = s.rule},
        &s.state, &scratch_, &buffers_);
    TW_TRY(accepted.status);
    row += rows;
    ++s.steps;
    const auto made = static_cast<int64_t>(accepted.samples.size());
    if (!drafts.empty())
      s.verified.push_back({s.block.confidences, accepted.verified, accepted.drafts});
    Take(&s, std::move(accepted));
    TW_TRY(session_.model->pool().Truncate(s.sequence.id(), start + made));
  }
  return {};
}

Status DraftedLoop::DraftFor(const std::vector<size_t>& live) {
  if (!drafts_ || live.empty()) return {};
  std::vector<model::DraftRequest> requests;
  for (const size_t i : live)
    requests.push_back({sequences_[i].sequence.id(), sequences_[i].state.tokens().back()});
  TW_TRY(session_.model->Draft(requests, &draft_output_));
  for (size_t r = 0; r < live.size(); ++r) {
    DraftedSequence& s = sequences_[live[r]];
    s.block = {.sequence = live[r] + 1,
               .position = session_.model->pool().length(s.sequence.id()),
               .anchor = s.state.tokens().back()};
    KeepBlock(&s, r, draft_output_);
  }
  return {};
}

// The model's chain is greedy: with a temperature, slots behind the first are drawn from logits
// that follow the most probable token before them. Any draft will do.
void DraftedLoop::KeepBlock(DraftedSequence* s, size_t request, const model::DraftOutput& output) {
  const auto slots = static_cast<size_t>(session_.config().dspark_block_size);
  const auto vocab = static_cast<size_t>(session_.config().vocab_size);
  const auto logits = std::span(output.logits).subspan(request * slots * vocab, slots * vocab);
  const auto confidence = std::span(output.confidence).subspan(request * slots, slots);
  s->block.confidences.assign(confidence.begin(), confidence.end());
  if (s->rule == spec::Rule::kRejection) s->block.logits.assign(logits.begin(), logits.end());
  for (size_t k = 0; k < slots; ++k) {
    const auto drawn = spec::DrawDraft(logits.subspan(k * vocab, vocab), s->state.params(),
                                       s->block.position + 1 + static_cast<int64_t>(k),
                                       static_cast<int>(k), s->rule, &buffers_);
    TW_CHECK(drawn.ok());
    s->block.tokens.push_back(*drawn);
  }
  if (spoil_) spoil_(&s->block);
}

}  // namespace thalweg::tests
