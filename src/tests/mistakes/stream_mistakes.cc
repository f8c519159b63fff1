// Mistakes in the residual streams: hyper-connections and Engram.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/bodies.h"
#include "kernels/reference/elementary.h"
#include "tests/mistakes/mistakes.h"

namespace thalweg::tests {
namespace {

namespace reference = kernels::reference;
using tensor::BF16;
using tensor::ToFloat;

// The first index of comb is the source; here the second one is.
void FinishTransposed(const kernels::HyperFinishParams& p) {
  const int64_t n = p.streams_n;
  std::vector<float> comb(static_cast<size_t>(p.rows * n * n));
  for (int64_t i = 0; i < p.rows * n * n; ++i) {
    const int64_t k = i / n % n;
    comb[static_cast<size_t>(i)] = p.comb[i - i % (n * n) + i % n * n + k];
  }
  kernels::HyperFinishParams wrong = p;
  wrong.comb = comb.data();
  reference::HyperFinish(wrong);
}

// Collapses with the mix that this sublayer predicts instead of the one handed on to it.
void PredictForItself(const kernels::HyperPredictParams& p) {
  reference::HyperPredict(p);
  const std::vector<float> own(p.pre_out, p.pre_out + p.rows * p.streams_n);
  kernels::HyperPredictParams wrong = p;
  wrong.pre_in = own.data();
  reference::HyperPredict(wrong);
}

// sigmoid(x . (w k) / (|x| |k|) ...) without the signed square root.
float GateWithoutRoot(const kernels::EngramGateParams& p, int64_t stream, const BF16* x,
                      const BF16* key) {
  double product = 0;
  for (int64_t c = 0; c < p.hidden; ++c) {
    const int64_t at = stream * p.hidden + c;
    product += double{ToFloat(x[c])} * p.q_weight[at] * p.k_weight[at] * ToFloat(key[c]);
  }
  const auto width = static_cast<double>(p.hidden);
  const double x_mean = reference::SumOfSquares(x, p.hidden) / width + p.norm_eps;
  const double k_mean = reference::SumOfSquares(key, p.hidden) / width + p.norm_eps;
  return reference::Sigmoid(static_cast<float>(product / std::sqrt(x_mean * k_mean * width)));
}

void GateEngramWithoutRoot(const kernels::EngramGateParams& p) {
  const int64_t n = p.streams_n;
  for (int64_t i = 0; i < p.rows * n; ++i) {
    if (p.dead != nullptr && p.dead[i / n] != 0) continue;
    const BF16* keys = p.kv + i / n * (n + 1) * p.hidden;
    BF16* x = p.streams + i * p.hidden;
    const float gate = GateWithoutRoot(p, i % n, x, keys + i % n * p.hidden);
    for (int64_t c = 0; c < p.hidden; ++c)
      x[c] = tensor::ToBF16(ToFloat(x[c]) + gate * ToFloat(keys[n * p.hidden + c]));
  }
}

}  // namespace

void TransposeComb(kernels::Ops* ops) { ops->hyper_finish = FinishTransposed; }
void UseOwnPreMix(kernels::Ops* ops) { ops->hyper_predict = PredictForItself; }
void SkipSignedRoot(kernels::Ops* ops) { ops->engram_gate = GateEngramWithoutRoot; }
void TurnEngramOff(kernels::Ops* ops) {
  ops->engram_gate = [](const kernels::EngramGateParams&) {};
}

}  // namespace thalweg::tests
