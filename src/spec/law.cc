#include "spec/law.h"

#include <algorithm>
#include <cmath>

#include "sampling/elementary.h"
#include "sampling/params.h"

namespace thalweg::spec {
namespace {

double Exp(double x) {
  return x < sampling::kLeastExponent ? 0 : sampling::ExpOfNegative(std::min(x, 0.0));
}

// Logarithm of a weight, for a race; -inf where there is none.
float LogOf(double weight) {
  constexpr double kLeastWeight = 1e-290;  // Log wants normal numbers
  return weight < kLeastWeight ? -INFINITY : static_cast<float>(sampling::Log(weight));
}

// Fills logs with those of Weight(token) over what the target keeps; whether enough is left.
template <typename Weight>
bool Fill(const Law& target, const Weight& weight, std::vector<float>* logs) {
  logs->assign(target.logits().size(), -INFINITY);
  double mass = 0;
  for (size_t v = 0; v < logs->size(); ++v) {
    const auto token = static_cast<int32_t>(v);
    if (!target.Keeps(token)) continue;
    const double w = weight(token);
    if (w <= 0) continue;
    mass += w;
    (*logs)[v] = LogOf(w);
  }
  return mass > kLeastResidual;
}

}  // namespace

Law::Law(std::span<const float> logits, sampling::Entry best, const step::SamplingParams& params,
         sampling::ChooseBuffers* buffers)
    : logits_(logits),
      best_(best),
      last_(sampling::LastChoice(logits, best, params, buffers)),
      inverse_(params.temperature < sampling::kGreedyBelow ? 1 : 1 / params.temperature) {
  double sum = 0;
  sampling::ExpBatch batch;
  for (size_t begin = 0; begin < logits.size(); begin += sampling::kExpBatch) {
    const size_t end = std::min(logits.size(), begin + sampling::kExpBatch);
    size_t count = 0;
    batch.fill(sampling::kLeastExponent);
    for (size_t v = begin; v < end; ++v) {
      if (!Keeps(static_cast<int32_t>(v))) continue;
      batch[count++] = (static_cast<double>(logits[v]) - best.logit) * inverse_;
    }
    sampling::ExpOfNegatives(&batch);
    for (size_t i = 0; i < count; ++i) sum += batch[i];
  }
  log_sum_ = sampling::Log(sum);
}

double Law::Log(int32_t token) const {
  if (!Keeps(token)) return -INFINITY;
  const double logit = logits_[static_cast<size_t>(token)];
  return (logit - best_.logit) * inverse_ - log_sum_;
}

bool ResidualOf(const Law& target, const Law& draft, std::vector<float>* logs) {
  return Fill(
      target, [&](int32_t token) { return Exp(target.Log(token)) - Exp(draft.Log(token)); }, logs);
}

bool ResidualOf(const Law& target, int32_t draft, std::vector<float>* logs) {
  return Fill(
      target, [&](int32_t token) { return token == draft ? 0 : Exp(target.Log(token)); }, logs);
}

}  // namespace thalweg::spec
