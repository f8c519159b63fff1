#include "spec/law.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sampling/params.h"

namespace thalweg::spec {
namespace {

using sampling::ExpBatch;
using sampling::kExpBatch;

constexpr double kNever = sampling::kLeastExponent;

// Sums the batches in eight lanes, so that the order is one that vectors have too.
class LaneSum {
 public:
  void Add(const ExpBatch& batch) {
    for (size_t i = 0; i < kExpBatch; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) lanes_[lane] += batch[i + lane];
    }
  }
  double total() const {
    double sum = 0;
    for (const double lane : lanes_) sum += lane;
    return sum;
  }

 private:
  static constexpr size_t kLanes = 8;
  std::array<double, kLanes> lanes_ = {};
};

// Fills `left` with p less what `subtract` takes off; whether enough of it is left.
template <typename Subtract>
bool Fill(const Law& target, const Subtract& subtract, std::vector<float>* left) {
  left->resize(target.logits().size());
  LaneSum mass;
  ExpBatch weights;
  for (size_t begin = 0; begin < left->size(); begin += kExpBatch) {
    target.Probabilities(begin, &weights);
    subtract(begin, &weights);
    for (double& w : weights) w = std::max(w, 0.0);
    mass.Add(weights);
    float* out = left->data() + begin;
    const size_t count = std::min(kExpBatch, left->size() - begin);
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(weights[i]);
  }
  return mass.total() > kLeastResidual;
}

}  // namespace

Law::Law(std::span<const float> logits, sampling::Entry best, const step::SamplingParams& params,
         sampling::ChooseBuffers* buffers)
    : logits_(logits),
      best_(best),
      last_(sampling::LastChoice(logits, best, params, buffers)),
      inverse_(params.temperature < sampling::kGreedyBelow ? 1 : 1 / params.temperature) {
  LaneSum sum;
  ExpBatch batch;
  for (size_t begin = 0; begin < logits.size(); begin += kExpBatch) {
    Exponents(begin, &batch);
    sampling::ExpOfNegatives(&batch);
    sum.Add(batch);
  }
  log_sum_ = sampling::Log(sum.total());
}

void Law::Exponents(size_t begin, ExpBatch* batch) const {
  const size_t count = std::min(kExpBatch, logits_.size() - begin);
  const float* logits = logits_.data() + begin;
  const float last = last_.logit;
  const double best = best_.logit;
  // Of those that equal the last one, tokens up to it.
  const auto ties = static_cast<int64_t>(last_.token) - static_cast<int64_t>(begin);
  if (count < kExpBatch) batch->fill(kNever);
  for (size_t i = 0; i < count; ++i) {
    const bool kept = logits[i] > last || (logits[i] == last && static_cast<int64_t>(i) <= ties);
    (*batch)[i] = kept ? (static_cast<double>(logits[i]) - best) * inverse_ : kNever;
  }
}

void Law::Probabilities(size_t begin, ExpBatch* batch) const {
  Exponents(begin, batch);
  for (double& x : *batch) x -= log_sum_;
  sampling::ExpOfNegatives(batch);
}

double Law::Log(int32_t token) const {
  if (!Keeps(token)) return -INFINITY;
  const double logit = logits_[static_cast<size_t>(token)];
  return (logit - best_.logit) * inverse_ - log_sum_;
}

bool ResidualOf(const Law& target, const Law& draft, std::vector<float>* left) {
  ExpBatch other;
  const auto subtract = [&](size_t begin, ExpBatch* weights) {
    draft.Probabilities(begin, &other);
    for (size_t i = 0; i < kExpBatch; ++i) (*weights)[i] -= other[i];
  };
  if (Fill(target, subtract, left)) return true;
  Fill(
      target, [](size_t, ExpBatch*) {}, left);
  return false;
}

bool ResidualOf(const Law& target, int32_t draft, std::vector<float>* left) {
  const auto at = static_cast<size_t>(draft);
  const auto subtract = [&](size_t begin, ExpBatch* weights) {
    if (at >= begin && at < begin + kExpBatch) (*weights)[at - begin] = 0;
  };
  if (Fill(target, subtract, left)) return true;
  Fill(
      target, [](size_t, ExpBatch*) {}, left);
  return false;
}

}  // namespace thalweg::spec
