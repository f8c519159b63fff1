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

// Where the mask lets the text end, an end token that is ignored would end nothing: it is content,
// and of that the grammar has none left.
void KeepMasked(std::span<float> logits, const TokenMask& mask, const step::SamplingParams& p) {
  if (mask.words.empty()) return;
  for (size_t w = 0; w < mask.words.size(); ++w) {
    const uint32_t word = mask.words[w];
    if (word == ~uint32_t{0}) continue;
    const size_t end = std::min(logits.size(), (w + 1) * 32);
    for (size_t t = w * 32; t < end; ++t) {
      if ((word >> (t % 32) & 1) == 0) logits[t] = -INFINITY;
    }
  }
  if (p.ignore_eos) Forbid(logits, p.end_tokens);
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

Status ProcessLogits(const Row& row, std::vector<float>* kept) {
  const std::span<float> logits = row.logits;
  const SequenceState& state = *row.state;
  AddBias(logits, state.params());
  KeepAllowed(logits, state.params().allowed_tokens, kept);
  Forbid(logits, state.params().banned_tokens);
  KeepMasked(logits, row.mask, state.params());
  ForbidEnds(logits, state);
  ForbidBadWords(logits, state);
  Penalise(logits, state);
  if (row.processor == nullptr || !*row.processor) return {};
  TW_TRY((*row.processor)(state.tokens(), logits));
  KeepMasked(logits, row.mask, state.params());
  return {};
}

std::string ExcludingParameters(const Row& row) {
  const SequenceState& state = *row.state;
  const step::SamplingParams& p = state.params();
  std::vector<std::string_view> names;
  if (!p.allowed_tokens.empty()) names.emplace_back("allowed_token_ids");
  if (!p.banned_tokens.empty()) names.emplace_back("banned_token_ids");
  if (state.ends_forbidden()) names.emplace_back("min_tokens");
  if (!p.bad_words.empty()) names.emplace_back("bad_words");
  if (!row.mask.words.empty()) names.emplace_back("so_args");
  if (row.processor != nullptr && *row.processor) names.emplace_back("logits_processor");
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace thalweg::sampling
