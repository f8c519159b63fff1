// Mistakes in the router and in the experts.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/reference/bodies.h"
#include "kernels/reference/elementary.h"
#include "tests/mistakes/mistakes.h"

namespace thalweg::tests {
namespace {

namespace reference = kernels::reference;
using tensor::BF16;
using tensor::ToFloat;

struct RouterRule {
  bool sigmoid = false;
  bool bias_in_weights = false;
  bool normalise = true;
};

float Score(float z, const RouterRule& rule) {
  return rule.sigmoid ? reference::Sigmoid(z) : std::sqrt(std::log1p(std::exp(z)));
}

void RouteRow(const kernels::GateParams& p, const RouterRule& rule, int64_t row,
              std::vector<float> score) {
  const bool image = p.row_is_image != nullptr && p.row_is_image[row] != 0;
  const float* bias = image ? p.image_bias : p.bias;
  std::vector<float> biased(score);
  for (size_t e = 0; e < biased.size(); ++e) biased[e] += bias[e];
  std::vector<int32_t> order(score.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return biased[static_cast<size_t>(a)] > biased[static_cast<size_t>(b)];
  });
  std::sort(order.begin(), order.begin() + p.topk);
  if (rule.bias_in_weights) score = biased;
  float sum = 1e-20f;
  for (int64_t i = 0; i < p.topk; ++i)
    sum += score[static_cast<size_t>(order[static_cast<size_t>(i)])];
  for (int64_t i = 0; i < p.topk; ++i) {
    const int32_t expert = order[static_cast<size_t>(i)];
    p.chosen[row * p.topk + i] = expert;
    p.weights[row * p.topk + i] =
        score[static_cast<size_t>(expert)] / (rule.normalise ? sum : 1.0f) * p.route_scale;
  }
}

void Route(const kernels::GateParams& p, const RouterRule& rule) {
  std::vector<float> x(static_cast<size_t>(p.hidden));
  std::vector<float> weight(static_cast<size_t>(p.hidden));
  for (int64_t r = 0; r < p.rows; ++r) {
    std::vector<float> score;
    reference::Widen(p.x + r * p.hidden, p.hidden, x.data());
    for (int64_t e = 0; e < p.experts; ++e) {
      reference::DequantiseRow(p.weight, e, weight.data());
      score.push_back(
          Score(static_cast<float>(reference::Dot(x.data(), weight.data(), p.hidden)), rule));
    }
    RouteRow(p, rule, r, std::move(score));
  }
}

std::vector<BF16> Multiply(const kernels::Matrix& w, const std::vector<float>& x) {
  std::vector<BF16> y;
  std::vector<float> weight(x.size());
  for (int64_t o = 0; o < w.rows; ++o) {
    reference::DequantiseRow(w, o, weight.data());
    y.push_back(
        tensor::ToBF16(static_cast<float>(reference::Dot(x.data(), weight.data(), w.cols))));
  }
  return y;
}

// One row through one expert, without any routing weight.
std::vector<BF16> RunExpert(const kernels::ExpertsParams& p, const kernels::FeedForward& expert,
                            const BF16* row) {
  std::vector<float> x(static_cast<size_t>(p.hidden));
  reference::Widen(row, p.hidden, x.data());
  const std::vector<BF16> gate = Multiply(expert.w1, x);
  const std::vector<BF16> up = Multiply(expert.w3, x);
  std::vector<BF16> h(gate.size());
  for (size_t c = 0; c < h.size(); ++c) {
    const float g = std::min(ToFloat(gate[c]), p.swiglu_limit);
    const float u = std::clamp(ToFloat(up[c]), -p.swiglu_limit, p.swiglu_limit);
    h[c] = tensor::ToBF16(g * reference::Sigmoid(g) * u);
  }
  tensor::RoundTripRow(p.quantise, h.data(), p.inner, h.data());
  std::vector<float> wide(h.size());
  reference::Widen(h.data(), p.inner, wide.data());
  return Multiply(expert.w2, wide);
}

void MixWithLateWeights(const kernels::ExpertsParams& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const BF16* row = p.x + r * p.hidden;
    std::vector<float> sum(static_cast<size_t>(p.hidden), 0.0f);
    const auto add = [&](const kernels::FeedForward& expert, float weight) {
      const std::vector<BF16> y = RunExpert(p, expert, row);
      for (size_t c = 0; c < y.size(); ++c) sum[c] += weight * ToFloat(y[c]);
    };
    for (int64_t i = r * p.topk; i < (r + 1) * p.topk; ++i)
      add(p.experts[static_cast<size_t>(p.chosen[i])], p.weights[i]);
    add(p.shared, 1.0f);
    for (int64_t c = 0; c < p.hidden; ++c)
      p.out[r * p.hidden + c] = tensor::ToBF16(sum[static_cast<size_t>(c)]);
  }
}

void MixWithoutClamp(const kernels::ExpertsParams& p) {
  kernels::ExpertsParams wrong = p;
  wrong.swiglu_limit = std::numeric_limits<float>::infinity();
  reference::Experts(wrong);
}

}  // namespace

void WeightBehindDown(kernels::Ops* ops) { ops->experts = MixWithLateWeights; }
void SkipClamp(kernels::Ops* ops) { ops->experts = MixWithoutClamp; }
void BiasInWeights(kernels::Ops* ops) {
  ops->gate = [](const kernels::GateParams& p) { Route(p, {.bias_in_weights = true}); };
}
void SkipNormalisation(kernels::Ops* ops) {
  ops->gate = [](const kernels::GateParams& p) { Route(p, {.normalise = false}); };
}
void UseSigmoidScores(kernels::Ops* ops) {
  ops->gate = [](const kernels::GateParams& p) { Route(p, {.sigmoid = true}); };
}

}  // namespace thalweg::tests
