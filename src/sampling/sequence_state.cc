#include "sampling/sequence_state.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace thalweg::sampling {
namespace {

bool Has(const std::vector<int32_t>& tokens, int32_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

bool CountsPrompt(const step::SamplingParams& p) { return p.repetition_penalty != 1; }

bool CountsOutput(const step::SamplingParams& p) {
  return CountsPrompt(p) || p.frequency_penalty != 0 || p.presence_penalty != 0;
}

bool ChangesLogits(const step::SamplingParams& p) {
  return CountsOutput(p) || !p.logit_bias.empty() || !p.allowed_tokens.empty() ||
         !p.banned_tokens.empty() || !p.bad_words.empty() || p.min_tokens > 0;
}

}  // namespace

SequenceState::SequenceState(step::SamplingParams params, int64_t vocab,
                             std::vector<int32_t> tokens, int64_t prompt_tokens)
    : params_(std::move(params)),
      vocab_(vocab),
      prompt_tokens_(prompt_tokens),
      tokens_(std::move(tokens)),
      changes_logits_(ChangesLogits(params_)) {
  TW_CHECK(prompt_tokens >= 0 && prompt_tokens <= static_cast<int64_t>(tokens_.size()));
  if (!CountsOutput(params_) && params_.thinking_budget < 0) return;
  for (size_t i = 0; i < tokens_.size(); ++i)
    Note(tokens_[i], static_cast<int64_t>(i) >= prompt_tokens);
}

void SequenceState::Append(int32_t token) {
  TW_CHECK(token >= 0 && token < vocab_);
  tokens_.push_back(token);
  Note(token, true);
}

step::TokenEnd SequenceState::EndOf(int32_t token) const {
  if (ends_forbidden()) return step::TokenEnd::kNone;
  if (!params_.ignore_eos && Has(params_.end_tokens, token)) return step::TokenEnd::kEndToken;
  if (Has(params_.stop_token_ids, token)) return step::TokenEnd::kStopToken;
  return step::TokenEnd::kNone;
}

void SequenceState::Note(int32_t token, bool output) {
  if (CountsPrompt(params_) || (output && CountsOutput(params_))) Count(token, output);
  if (params_.thinking_budget < 0) return;
  if (token == params_.think_begin_token) {
    thinking_ = true;
    thought_tokens_ = 0;
  } else if (token == params_.think_end_token) {
    thinking_ = false;
  } else if (thinking_) {
    ++thought_tokens_;
  }
}

void SequenceState::Count(int32_t token, bool output) {
  const auto [place, added] = count_index_.try_emplace(token, counts_.size());
  if (added) counts_.push_back({.token = token});
  counts_[place->second].output += output ? 1 : 0;
}

}  // namespace thalweg::sampling
