// Router and experts (model.md 2.6).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/reference/bodies.h"

namespace thalweg::kernels::reference {
namespace {

// sqrt(softplus(z)); the linear branch is where log1p(exp(z)) = z in fp32 anyway (trap 10).
float RouterScore(float z) {
  constexpr float kLinearAbove = 20.0f;
  return std::sqrt(z > kLinearAbove ? z : std::log1p(std::exp(z)));
}

void ChooseExperts(const GateParams& p, int64_t row, const float* score) {
  const bool image = p.row_is_image != nullptr && p.row_is_image[row] != 0;
  const float* bias = image ? p.image_bias : p.bias;
  std::vector<int32_t> order(static_cast<size_t>(p.experts));
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + p.topk, order.end(), [&](int32_t a, int32_t b) {
    const float x = score[a] + bias[a];
    const float y = score[b] + bias[b];
    return x != y ? x > y : a < b;
  });
  std::sort(order.begin(), order.begin() + p.topk);
  float sum = 0;
  for (int64_t i = 0; i < p.topk; ++i) sum += score[order[static_cast<size_t>(i)]];
  for (int64_t i = 0; i < p.topk; ++i) {
    const int32_t expert = order[static_cast<size_t>(i)];
    p.chosen[row * p.topk + i] = expert;
    p.weights[row * p.topk + i] = score[expert] / (sum + 1e-20f) * p.route_scale;
  }
}

// h = silu(min(g, limit)) * clamp(u, -limit, limit) * weight, then bf16 and the quantiser of w2's
// input.
void SwiGlu(const ExpertsParams& p, const BF16* g, const BF16* u, float weight, BF16* h) {
  for (int64_t c = 0; c < p.inner; ++c) {
    const float gate = std::min(ToFloat(g[c]), p.swiglu_limit);
    const float up = std::clamp(ToFloat(u[c]), -p.swiglu_limit, p.swiglu_limit);
    h[c] = tensor::ToBF16(gate * Sigmoid(gate) * up * weight);
  }
  tensor::RoundTripRow(p.quantise, h, p.inner, h);
}

// The feed-forward of one expert for `rows` inputs x [rows, hidden]: out [rows, hidden] in bf16.
void RunExpert(const ExpertsParams& p, const FeedForward& expert, const std::vector<float>& x,
               const std::vector<float>& weight, std::vector<BF16>* out) {
  const auto rows = static_cast<int64_t>(weight.size());
  std::vector<BF16> gate(static_cast<size_t>(rows * p.inner));
  std::vector<BF16> up(gate.size());
  std::vector<BF16> h(gate.size());
  const auto into = [](std::vector<BF16>* target, int64_t width) {
    return [target, width](int64_t r, int64_t o, float v) {
      (*target)[static_cast<size_t>(r * width + o)] = tensor::ToBF16(v);
    };
  };
  MultiplyRows(p.stream, expert.w1, x.data(), rows, into(&gate, p.inner));
  MultiplyRows(p.stream, expert.w3, x.data(), rows, into(&up, p.inner));
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * p.inner;
    SwiGlu(p, gate.data() + at, up.data() + at, weight[static_cast<size_t>(r)], h.data() + at);
  }
  std::vector<float> wide(h.size());
  Widen(h.data(), static_cast<int64_t>(h.size()), wide.data());
  out->resize(static_cast<size_t>(rows * p.hidden));
  MultiplyRows(p.stream, expert.w2, wide.data(), rows, into(out, p.hidden));
}

struct Assignment {
  std::vector<int64_t> rows;
  std::vector<float> weights;
  std::vector<float> x;  // [rows, hidden]
};

Assignment RowsOf(const ExpertsParams& p, int32_t expert) {
  Assignment out;
  for (int64_t i = 0; i < p.rows * p.topk; ++i) {
    if (p.chosen[i] != expert) continue;
    const int64_t row = i / p.topk;
    out.rows.push_back(row);
    out.weights.push_back(p.weights[i]);
    out.x.resize(out.rows.size() * static_cast<size_t>(p.hidden));
    Widen(p.x + row * p.hidden, p.hidden,
          out.x.data() + (out.rows.size() - 1) * static_cast<size_t>(p.hidden));
  }
  return out;
}

void AddShared(const ExpertsParams& p, std::vector<float>* sum) {
  if (p.shared.w1.rows == 0) return;
  std::vector<float> x(sum->size());
  std::vector<BF16> y;
  Widen(p.x, p.rows * p.hidden, x.data());
  RunExpert(p, p.shared, x, std::vector<float>(static_cast<size_t>(p.rows), 1.0f), &y);
  for (size_t i = 0; i < sum->size(); ++i) (*sum)[i] += ToFloat(y[i]);
}

}  // namespace

void Gate(const GateParams& p) {
  std::vector<float> x(static_cast<size_t>(p.rows * p.hidden));
  std::vector<float> score(static_cast<size_t>(p.rows * p.experts));
  Widen(p.x, p.rows * p.hidden, x.data());
  MultiplyRows(p.stream, p.weight, x.data(), p.rows, [&](int64_t r, int64_t e, float z) {
    score[static_cast<size_t>(r * p.experts + e)] = RouterScore(z);
  });
  for (int64_t r = 0; r < p.rows; ++r) ChooseExperts(p, r, score.data() + r * p.experts);
}

void Experts(const ExpertsParams& p) {
  std::vector<float> sum(static_cast<size_t>(p.rows * p.hidden), 0.0f);
  std::vector<BF16> y;
  // Ascending experts: every row adds its own in the same order whatever else is in the batch.
  for (size_t e = 0; e < p.experts.size(); ++e) {
    const Assignment assigned = RowsOf(p, static_cast<int32_t>(e));
    if (assigned.rows.empty()) continue;
    RunExpert(p, p.experts[e], assigned.x, assigned.weights, &y);
    for (size_t i = 0; i < assigned.rows.size(); ++i) {
      float* row = sum.data() + assigned.rows[i] * p.hidden;
      for (int64_t c = 0; c < p.hidden; ++c)
        row[c] += ToFloat(y[i * static_cast<size_t>(p.hidden) + static_cast<size_t>(c)]);
    }
  }
  AddShared(p, &sum);
  for (size_t i = 0; i < sum.size(); ++i) p.out[i] = tensor::ToBF16(sum[i]);
}

}  // namespace thalweg::kernels::reference
