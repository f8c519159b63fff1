#include "sampling/logprobs.h"

#include <algorithm>

#include "sampling/elementary.h"

namespace thalweg::sampling {
namespace {

// 1 + how many tokens come before `entry`.
int32_t RankOf(std::span<const float> logits, Entry entry) {
  int32_t before = 0;
  for (const float l : logits) before += l > entry.logit ? 1 : 0;
  const auto lower = logits.first(static_cast<size_t>(entry.token));
  return 1 + before + static_cast<int32_t>(std::count(lower.begin(), lower.end(), entry.logit));
}

}  // namespace

double LogSumExp(std::span<const float> logits, float best) {
  ExpBatch sums = {};
  const auto top = static_cast<double>(best);
  while (!logits.empty()) {
    const size_t count = std::min(kExpBatch, logits.size());
    ExpBatch weights;
    weights.fill(kLeastExponent);
    for (size_t i = 0; i < count; ++i) weights[i] = static_cast<double>(logits[i]) - top;
    ExpOfNegatives(&weights);
    for (size_t i = 0; i < kExpBatch; ++i) sums[i] += weights[i];
    logits = logits.subspan(count);
  }
  double sum = 0;
  for (const double s : sums) sum += s;
  return Log(sum);
}

void FillLogprobs(std::span<const float> logits, float best, int32_t token, int32_t top,
                  std::vector<Entry>* entries, step::PositionLogprobs* out) {
  const double log_sum = LogSumExp(logits, best);
  const auto logprob = [&](float l) {
    return static_cast<float>(static_cast<double>(l) - static_cast<double>(best) - log_sum);
  };
  const float own = logits[static_cast<size_t>(token)];
  out->chosen = {.token = token,
                 .logprob = logprob(own),
                 .rank = RankOf(logits, {.logit = own, .token = token})};
  out->top.clear();
  if (top <= 0) return;
  TakeBest(logits, top, entries);
  std::sort(entries->begin(), entries->end(), Better);
  for (const Entry& e : *entries) {
    const auto rank = static_cast<int32_t>(out->top.size()) + 1;
    out->top.push_back({.token = e.token, .logprob = logprob(e.logit), .rank = rank});
  }
}

}  // namespace thalweg::sampling
