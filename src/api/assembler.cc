#include "api/assembler.h"

#include <utility>

#include "api/errors.h"

namespace thalweg::api {

Assembler::Assembler(RequestOutput first, const SamplingParams& params,
                     const text::Tokenizer* tokenizer)
    : output_(std::move(first)),
      kind_(params.output_kind),
      logprobs_(params.logprobs.has_value()),
      unfinished_(params.n),
      cumulative_(static_cast<size_t>(params.n)),
      tokenizer_(tokenizer) {
  output_.outputs.resize(kind_ == OutputKind::kDelta ? 1 : cumulative_.size());
  for (size_t i = 0; i < output_.outputs.size(); ++i) {
    output_.outputs[i].index = static_cast<int>(i);
    if (logprobs_) output_.outputs[i].logprobs.emplace();
  }
}

CompletionOutput& Assembler::SequenceOf(int32_t index) {
  if (kind_ != OutputKind::kDelta) return output_.outputs.at(static_cast<size_t>(index));
  CompletionOutput fresh;
  fresh.index = index;
  if (logprobs_) fresh.logprobs.emplace();
  return output_.outputs.front() = std::move(fresh);
}

Logprob Assembler::ToLogprob(const step::TokenLogprob& value) const {
  Logprob out{.token_id = value.token, .logprob = value.logprob, .rank = value.rank};
  if (tokenizer_ != nullptr) out.decoded_token = tokenizer_->Decode({&value.token, 1}, false);
  return out;
}

PositionLogprobs Assembler::ToPosition(const step::PositionLogprobs& value) const {
  PositionLogprobs out{.chosen = ToLogprob(value.chosen)};
  for (const step::TokenLogprob& one : value.top) out.top.push_back(ToLogprob(one));
  return out;
}

void Assembler::AddTokens(const engine::Output& increment, CompletionOutput* sequence) {
  double& cumulative = cumulative_.at(static_cast<size_t>(increment.index));
  for (const engine::TokenOutput& token : increment.tokens) {
    sequence->token_ids.push_back(token.id);
    if (!logprobs_ || !token.logprobs.has_value()) continue;
    cumulative += static_cast<double>(token.logprobs->chosen.logprob);
    sequence->logprobs->push_back(ToPosition(*token.logprobs));
  }
  if (logprobs_) sequence->cumulative_logprob = cumulative;
  sequence->text += increment.text;
  sequence->reasoning_tokens = increment.reasoning_tokens;
}

void Assembler::AddPromptLogprobs(const engine::Output& increment) {
  if (kind_ == OutputKind::kDelta) output_.prompt_logprobs.reset();
  if (increment.prompt_logprobs.empty() || output_.prompt_logprobs.has_value()) return;
  output_.prompt_logprobs.emplace().emplace_back();  // nothing precedes the first token
  for (const step::PositionLogprobs& one : increment.prompt_logprobs)
    output_.prompt_logprobs->push_back(ToPosition(one));
}

void Assembler::AddEnd(const engine::Output& increment, CompletionOutput* sequence) {
  if (increment.finish == engine::FinishReason::kNone || sequence->finished()) return;
  sequence->finish_reason = engine::FinishReasonName(increment.finish);
  if (increment.stop_string.has_value()) sequence->stop_reason = *increment.stop_string;
  if (increment.stop_token.has_value()) sequence->stop_reason = *increment.stop_token;
  if (!increment.status.ok()) output_.error = ToError(increment.status);
  output_.finished = --unfinished_ == 0;
}

const RequestOutput* Assembler::Add(const engine::Output& increment) {
  CompletionOutput& sequence = SequenceOf(increment.index);
  AddTokens(increment, &sequence);
  AddPromptLogprobs(increment);
  AddEnd(increment, &sequence);
  output_.num_cached_tokens = increment.cached_tokens;
  output_.metrics = {.submitted_at = increment.submitted_at,
                     .admitted_at = increment.admitted_at,
                     .first_token_at = increment.first_token_at,
                     .last_token_at = increment.at};
  return kind_ == OutputKind::kFinalOnly && !output_.finished ? nullptr : &output_;
}

}  // namespace thalweg::api
