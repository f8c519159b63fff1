#include "sampling/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"

namespace thalweg::sampling {
namespace {

constexpr double kGreedyBelow = 1e-5;

struct Candidate {
  int32_t token;
  double logit;   // after temperature
  double weight;  // exp(logit - max)
};

int32_t ArgMax(std::span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

bool Better(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Tokens within min-p of the best, with their weights.
std::vector<Candidate> WithinMinP(std::span<const float> logits, float best,
                                  const SamplingParams& params) {
  std::vector<Candidate> out;
  for (size_t v = 0; v < logits.size(); ++v) {
    const double logit = static_cast<double>(logits[v]) / params.temperature;
    const double weight = std::exp(logit - static_cast<double>(best) / params.temperature);
    if (weight > 0 && weight >= params.min_p)
      out.push_back({static_cast<int32_t>(v), logit, weight});
  }
  return out;
}

void KeepTopK(int64_t k, std::vector<Candidate>* candidates) {
  if (k <= 0 || k >= static_cast<int64_t>(candidates->size())) return;
  std::nth_element(candidates->begin(), candidates->begin() + k, candidates->end(), Better);
  candidates->resize(static_cast<size_t>(k));
}

// The smallest best-first prefix whose mass reaches p; at least one token.
void KeepTopP(double p, std::vector<Candidate>* candidates) {
  if (p >= 1) return;
  std::sort(candidates->begin(), candidates->end(), Better);
  double total = 0;
  for (const Candidate& c : *candidates) total += c.weight;
  double mass = 0;
  size_t kept = 0;
  while (kept < candidates->size() && mass < p * total) mass += (*candidates)[kept++].weight;
  candidates->resize(std::max<size_t>(kept, 1));
}

int32_t GumbelArgMax(const std::vector<Candidate>& candidates, uint64_t seed, int64_t position) {
  int32_t token = candidates.front().token;
  double best = -INFINITY;
  for (const Candidate& c : candidates) {
    const double value = c.logit + GumbelNoise(seed, position, NoisePurpose::kTarget, c.token);
    if (value < best || (value == best && c.token > token)) continue;
    best = value;
    token = c.token;
  }
  return token;
}

}  // namespace

Status Validate(const SamplingParams& p) {
  const auto bad = [](std::string_view name, double value, std::string_view range) {
    return base::InvalidArgument(fmt::format("{} is {}, but must be {}", name, value, range));
  };
  if (!(p.temperature >= 0) || p.temperature > 100)
    return bad("temperature", p.temperature, "in [0, 100]");
  if (!(p.top_p > 0 && p.top_p <= 1)) return bad("top_p", p.top_p, "in (0, 1]");
  if (!(p.min_p >= 0 && p.min_p <= 1)) return bad("min_p", p.min_p, "in [0, 1]");
  return {};
}

double GumbelNoise(uint64_t seed, int64_t position, NoisePurpose purpose, int32_t token) {
  const auto at = static_cast<uint64_t>(position);
  const base::PhiloxCounter counter = {static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32),
                                       static_cast<uint32_t>(token) / 4,
                                       static_cast<uint32_t>(purpose)};
  const base::PhiloxCounter words = base::Philox4x32(counter, base::PhiloxKeyOf(seed));
  return -std::log(-std::log(base::OpenUnit(words[static_cast<size_t>(token) % 4])));
}

double LogProbability(std::span<const float> logits, int32_t token) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float l : logits) sum += std::exp(static_cast<double>(l) - best);
  return static_cast<double>(logits[static_cast<size_t>(token)]) - best - std::log(sum);
}

Result<Sample> SampleToken(std::span<const float> logits, const SamplingParams& params,
                           int64_t position) {
  const int32_t greedy = ArgMax(logits);
  const float best = logits[static_cast<size_t>(greedy)];
  const auto is_nan = [](float x) { return std::isnan(x); };
  if (!std::isfinite(best) || std::any_of(logits.begin(), logits.end(), is_nan)) {
    return base::Internal(fmt::format("the logits of position {} are not finite", position));
  }
  int32_t token = greedy;
  if (params.temperature >= kGreedyBelow) {
    std::vector<Candidate> candidates = WithinMinP(logits, best, params);
    KeepTopK(params.top_k, &candidates);
    KeepTopP(params.top_p, &candidates);
    token = GumbelArgMax(candidates, params.seed, position);
  }
  return Sample{token, static_cast<float>(LogProbability(logits, token))};
}

}  // namespace thalweg::sampling
