#include "sampling/process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace thalweg::sampling {
namespace {

void Forbid(std::span<float> logits, std::span<const int32_t> tokens) {
  for (const int32_t t : tokens) logits[static_cast<size_t>(t)] = -INFINITY;
}

void AddBias(std::span<float> logits, const step::SamplingParams& p) {
  for (const auto& [token, bias] : p.logit_bias) logits[static_cast<size_t>(token)] += bias;
}

void KeepAllowed(std::span<float> logits, std::span<const int32_t> allowed,
                 std::vector<float>* kept) {
  if (allowed.empty()) return;
  kept->clear();
  for (const int32_t t : allowed) kept->push_back(logits[static_cast<size_t>(t)]);
  std::fill(logits.begin(), logits.end(), -INFINITY);
  for (size_t i = 0; i < allowed.size(); ++i) logits[static_cast<size_t>(allowed[i])] = (*kept)[i];
}

void ForbidEnds(std::span<float> logits, const SequenceState& state) {
  if (!state.ends_forbidden()) return;
  if (!state.params().ignore_eos) Forbid(logits, state.params().end_tokens);
  Forbid(logits, state.params().stop_token_ids);
}

void ForbidBadWords(std::span<float> logits, const SequenceState& state) {
  for (const std::vector<int32_t>& word : state.params().bad_words) {
    if (Completes(state.tokens(), word)) logits[static_cast<size_t>(word.back())] = -INFINITY;
  }
}

void Penalise(std::span<float> logits, const SequenceState& state) {
  const step::SamplingParams& p = state.params();
  for (const TokenCount& c : state.counts()) {
    float& logit = logits[static_cast<size_t>(c.token)];
    double l = logit;
    l = l > 0 ? l / p.repetition_penalty : l * p.repetition_penalty;
    l -= p.frequency_penalty * c.output;
    if (c.output > 0) l -= p.presence_penalty;
    logit = static_cast<float>(l);
  }
}

}  // namespace

bool Completes(std::span<const int32_t> history, std::span<const int32_t> word) {
  const std::span<const int32_t> before = word.first(word.size() - 1);
  if (before.size() > history.size()) return false;
  const std::span<const int32_t> last = history.last(before.size());
  return std::equal(before.rbegin(), before.rend(), last.rbegin());
}

Status ProcessLogits(std::span<float> logits, const SequenceState& state,
                     const Processor* processor, std::vector<float>* kept) {
  AddBias(logits, state.params());
  KeepAllowed(logits, state.params().allowed_tokens, kept);
  Forbid(logits, state.params().banned_tokens);
  ForbidEnds(logits, state);
  ForbidBadWords(logits, state);
  Penalise(logits, state);
  if (processor != nullptr && *processor) TW_TRY((*processor)(state.tokens(), logits));
  return {};
}

std::string ExcludingParameters(const SequenceState& state, const Processor* processor) {
  const step::SamplingParams& p = state.params();
  std::vector<std::string_view> names;
  if (!p.allowed_tokens.empty()) names.emplace_back("allowed_token_ids");
  if (!p.banned_tokens.empty()) names.emplace_back("banned_token_ids");
  if (state.ends_forbidden()) names.emplace_back("min_tokens");
  if (!p.bad_words.empty()) names.emplace_back("bad_words");
  if (processor != nullptr && *processor) names.emplace_back("logits_processor");
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace thalweg::sampling
