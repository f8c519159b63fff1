#include "sampling/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace thalweg::sampling {
namespace {

Status Bad(std::string_view name, double value, std::string_view range) {
  return base::InvalidArgument(fmt::format("{} is {}, but must be {}", name, value, range));
}

// NaN is in no range.
Status InClosed(std::string_view name, double value, double least, double most) {
  if (value >= least && value <= most) return {};
  return Bad(name, value, fmt::format("in [{}, {}]", least, most));
}

Status InHalfOpen(std::string_view name, double value, double above, double most) {
  if (value > above && value <= most) return {};
  return Bad(name, value, fmt::format("in ({}, {}]", above, most));
}

Status TokenKnown(std::string_view name, int64_t token, int64_t vocab) {
  if (token >= 0 && token < vocab) return {};
  return base::InvalidArgument(
      fmt::format("{} has token {}, but tokens are 0 to {}", name, token, vocab - 1));
}

Status NotMore(std::string_view name, size_t size, size_t most) {
  if (size <= most) return {};
  return base::InvalidArgument(
      fmt::format("{} has {} entries, but may have {} at most", name, size, most));
}

Status CheckTokens(std::string_view name, std::span<const int32_t> tokens, size_t most,
                   int64_t vocab) {
  TW_TRY(NotMore(name, tokens.size(), most));
  for (const int32_t t : tokens) TW_TRY(TokenKnown(name, t, vocab));
  return {};
}

Status CheckShape(const step::SamplingParams& p) {
  TW_TRY(InClosed("temperature", p.temperature, 0, kMaxTemperature));
  TW_TRY(InHalfOpen("top_p", p.top_p, 0, 1));
  TW_TRY(InClosed("min_p", p.min_p, 0, 1));
  TW_TRY(InHalfOpen("repetition_penalty", p.repetition_penalty, 0, kMaxRepetitionPenalty));
  TW_TRY(InClosed("frequency_penalty", p.frequency_penalty, -kMaxPenalty, kMaxPenalty));
  TW_TRY(InClosed("presence_penalty", p.presence_penalty, -kMaxPenalty, kMaxPenalty));
  TW_TRY(InClosed("logprobs", p.logprobs, -1, step::kMaxLogprobs));
  return InClosed("prompt_logprobs", p.prompt_logprobs, -1, step::kMaxLogprobs);
}

Status CheckBias(const step::SamplingParams& p, int64_t vocab) {
  TW_TRY(NotMore("logit_bias", p.logit_bias.size(), kMaxLogitBias));
  std::unordered_set<int32_t> seen;
  for (const auto& [token, bias] : p.logit_bias) {
    TW_TRY(TokenKnown("logit_bias", token, vocab));
    if (!(bias >= -kMaxBias && bias <= kMaxBias))
      return Bad(fmt::format("logit_bias of token {}", token), bias, "in [-100, 100]");
    if (!seen.insert(token).second)
      return base::InvalidArgument(fmt::format("logit_bias has token {} twice", token));
  }
  return {};
}

Status CheckBadWords(const step::SamplingParams& p, int64_t vocab) {
  TW_TRY(NotMore("bad_words", p.bad_words.size(), kMaxBadWords));
  for (const std::vector<int32_t>& word : p.bad_words) {
    if (word.empty()) return base::InvalidArgument("bad_words has a word without tokens");
    TW_TRY(CheckTokens("a word of bad_words", word, kMaxBadWordTokens, vocab));
  }
  return {};
}

Status CheckEnds(const step::SamplingParams& p, int64_t vocab) {
  TW_TRY(CheckTokens("end_tokens", p.end_tokens, kMaxStopTokens, vocab));
  TW_TRY(CheckTokens("stop_token_ids", p.stop_token_ids, kMaxStopTokens, vocab));
  if (p.min_tokens >= 0) return {};
  return base::InvalidArgument(
      fmt::format("min_tokens is {}, but must be 0 or more", p.min_tokens));
}

Status CheckThinking(const step::SamplingParams& p, int64_t vocab) {
  if (p.thinking_budget < 0) return {};
  TW_TRY(TokenKnown("thinking_budget needs think_begin_token, which", p.think_begin_token, vocab));
  TW_TRY(TokenKnown("thinking_budget needs think_end_token, which", p.think_end_token, vocab));
  if (p.think_begin_token != p.think_end_token) return {};
  return base::InvalidArgument(
      fmt::format("think_begin_token and think_end_token are both {}", p.think_end_token));
}

using TokenSet = std::unordered_set<int32_t>;

// Tokens that can never be chosen, whatever comes before.
TokenSet AlwaysExcluded(const step::SamplingParams& p) {
  TokenSet out(p.banned_tokens.begin(), p.banned_tokens.end());
  for (const std::vector<int32_t>& word : p.bad_words) {
    if (word.size() == 1) out.insert(word[0]);
  }
  return out;
}

TokenSet WithEnds(TokenSet out, const step::SamplingParams& p) {
  if (!p.ignore_eos) out.insert(p.end_tokens.begin(), p.end_tokens.end());
  out.insert(p.stop_token_ids.begin(), p.stop_token_ids.end());
  return out;
}

bool ExcludesAll(const TokenSet& excluded, const step::SamplingParams& p, int64_t vocab) {
  if (p.allowed_tokens.empty()) return static_cast<int64_t>(excluded.size()) >= vocab;
  return std::all_of(p.allowed_tokens.begin(), p.allowed_tokens.end(),
                     [&](int32_t t) { return excluded.contains(t); });
}

Status CheckSomethingLeft(const step::SamplingParams& p, int64_t vocab) {
  const std::string_view from = p.allowed_tokens.empty() ? "the vocabulary" : "allowed_token_ids";
  TokenSet excluded = AlwaysExcluded(p);
  if (ExcludesAll(excluded, p, vocab)) {
    return base::InvalidArgument(fmt::format(
        "banned_token_ids and bad_words exclude every token of {}; nothing could be sampled",
        from));
  }
  if (p.min_tokens > 0 && ExcludesAll(WithEnds(std::move(excluded), p), p, vocab)) {
    return base::InvalidArgument(
        fmt::format("min_tokens is {}, but every token of {} is banned, an end token or a stop "
                    "token, so none could come before",
                    p.min_tokens, from));
  }
  return {};
}

}  // namespace

Status Validate(const step::SamplingParams& p, int64_t vocab) {
  const auto all = static_cast<size_t>(vocab);
  TW_TRY(CheckShape(p));
  TW_TRY(CheckBias(p, vocab));
  TW_TRY(CheckTokens("allowed_token_ids", p.allowed_tokens, all, vocab));
  TW_TRY(CheckTokens("banned_token_ids", p.banned_tokens, all, vocab));
  TW_TRY(CheckBadWords(p, vocab));
  TW_TRY(CheckEnds(p, vocab));
  TW_TRY(CheckThinking(p, vocab));
  return CheckSomethingLeft(p, vocab);
}

}  // namespace thalweg::sampling
