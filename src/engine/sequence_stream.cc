#include "engine/sequence_stream.h"

#include <utility>

#include "base/check.h"

namespace thalweg::engine {
namespace {

FinishReason ReasonOf(sched::Finish finish) {
  switch (finish) {
    case sched::Finish::kEndToken:
    case sched::Finish::kStopToken: return FinishReason::kStop;
    case sched::Finish::kLength:
    case sched::Finish::kContext: return FinishReason::kLength;
    case sched::Finish::kCancelled: return FinishReason::kCancelled;
    case sched::Finish::kError: return FinishReason::kError;
  }
  return FinishReason::kError;
}

}  // namespace

SequenceStream::SequenceStream(RecordRef record, int32_t index, const text::Tokenizer* tokenizer)
    : record_(std::move(record)),
      matcher_(record_->stop, record_->include_stop),
      thinking_(record_->starts_thinking) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer, record_->skip_special_tokens);
  output_.index = index;
  output_.prompt_tokens = record_->prompt_tokens;
  output_.submitted_at = record_->submitted_at;
}

bool SequenceStream::OnAdmitted(int64_t cached_tokens, double at) {
  // After a preemption the sequence finds its own tokens: that is no saving to report.
  if (std::exchange(admitted_, true)) return false;
  output_.cached_tokens = cached_tokens;
  output_.admitted_at = at;
  return true;
}

void SequenceStream::OnPromptStart(uint64_t number) {
  prompt_step_ = number;
  if (output_.output_tokens == 0) prompt_logprobs_.clear();
}

void SequenceStream::OnPromptLogprobs(uint64_t number,
                                      const std::vector<step::PositionLogprobs>& positions) {
  if (number < prompt_step_ || output_.output_tokens > 0) return;
  prompt_logprobs_.insert(prompt_logprobs_.end(), positions.begin(), positions.end());
}

void SequenceStream::CountReasoning(int32_t token) {
  if (record_->think_begin_token < 0) return;
  if (token == record_->think_begin_token || token == record_->think_end_token) {
    thinking_ = token == record_->think_begin_token;
  } else if (thinking_) {
    ++output_.reasoning_tokens;
  }
}

// An end or stop token is part of the text only where stop strings are, too.
void SequenceStream::AddText(const step::SampledToken& token) {
  if (!decoder_.has_value()) return;
  if (token.end != step::TokenEnd::kNone && !record_->include_stop) return;
  const bool may_stop = output_.output_tokens > record_->min_tokens;
  output_.text += matcher_.Push(decoder_->Push(token.token), may_stop);
}

void SequenceStream::OnToken(const step::SampledToken& token, double at) {
  TW_CHECK(!ended());
  if (output_.output_tokens++ == 0) {
    output_.first_token_at = at;
    output_.prompt_logprobs = std::exchange(prompt_logprobs_, {});
  }
  output_.tokens.push_back({.id = token.token});
  if (record_->wants_logprobs) output_.tokens.back().logprobs = token.logprobs;
  CountReasoning(token.token);
  AddText(token);
  output_.at = at;
  has_news_ = true;
  if (token.end == step::TokenEnd::kStopToken) output_.stop_token = token.token;
  if (matcher_.found().has_value()) End(FinishReason::kStop, at);
}

void SequenceStream::OnFinished(sched::Finish finish, const Status& status, double at) {
  TW_CHECK(!ended());
  const FinishReason reason = ReasonOf(finish);
  const bool natural = reason == FinishReason::kStop || reason == FinishReason::kLength;
  output_.status = status;
  if (decoder_.has_value()) {
    const bool may_stop = natural && output_.output_tokens > record_->min_tokens;
    output_.text += matcher_.Push(decoder_->Flush(), may_stop);
  }
  End(reason, at);
}

void SequenceStream::End(FinishReason reason, double at) {
  output_.text += matcher_.Flush();
  output_.finish = reason;
  if (const std::optional<size_t> found = matcher_.found()) {
    output_.finish = FinishReason::kStop;
    output_.stop_string = record_->stop.text(*found);
    output_.stop_token.reset();
  }
  output_.at = at;
  has_news_ = true;
}

Output SequenceStream::Take() {
  Output out = std::move(output_);
  output_ = Output();
  output_.index = out.index;
  output_.finish = out.finish;
  output_.prompt_tokens = out.prompt_tokens;
  output_.cached_tokens = out.cached_tokens;
  output_.output_tokens = out.output_tokens;
  output_.reasoning_tokens = out.reasoning_tokens;
  output_.submitted_at = out.submitted_at;
  output_.admitted_at = out.admitted_at;
  output_.first_token_at = out.first_token_at;
  has_news_ = false;
  return out;
}

}  // namespace thalweg::engine
