// Single-pass manifold-constrained hyper-connections (model.md 2.1, 2.2), embedding, taps and the
// last collapse.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/bodies.h"

namespace thalweg::kernels::reference {
namespace {

// u = bf16(sum_j mix_j X_j).
void CollapseRow(const BF16* streams, const float* mix, int64_t n, int64_t hidden, BF16* out) {
  for (int64_t c = 0; c < hidden; ++c) {
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += mix[j] * ToFloat(streams[j * hidden + c]);
    out[c] = tensor::ToBF16(sum);
  }
}

// Divides each row (stride 1) or column (stride n) of comb by its sum + eps.
void NormaliseLines(float* comb, int64_t n, int64_t line_stride, int64_t step, float eps) {
  for (int64_t line = 0; line < n; ++line) {
    float* first = comb + line * line_stride;
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += first[i * step];
    for (int64_t i = 0; i < n; ++i) first[i * step] /= sum + eps;
  }
}

void SoftmaxRows(float* comb, int64_t n, float eps) {
  for (int64_t k = 0; k < n; ++k) {
    float* row = comb + k * n;
    const float top = *std::max_element(row, row + n);
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += row[j] = std::exp(row[j] - top);
    for (int64_t j = 0; j < n; ++j) row[j] = row[j] / sum + eps;
  }
}

// "iters" = the initial softmax and column pass, then iters - 1 row and column passes.
void Sinkhorn(float* comb, int64_t n, int iters, float eps) {
  SoftmaxRows(comb, n, eps);
  NormaliseLines(comb, n, 1, n, eps);
  for (int i = 1; i < iters; ++i) {
    NormaliseLines(comb, n, n, 1, eps);
    NormaliseLines(comb, n, 1, n, eps);
  }
}

void PredictRow(const HyperPredictParams& p, int64_t row, float* x, float* mix) {
  const int64_t n = p.streams_n;
  const int64_t width = n * p.hidden;
  Widen(p.streams + row * width, width, x);
  const auto mean = static_cast<float>(SumOfSquares(x, width) / static_cast<double>(width));
  const float rr = 1.0f / std::sqrt(mean + p.norm_eps);
  for (int64_t i = 0; i < 2 * n + n * n; ++i) {
    mix[i] = static_cast<float>(Dot(p.fn + i * width, x, width)) * rr;
  }
  float* comb = p.comb + row * n * n;
  for (int64_t j = 0; j < n; ++j) {
    p.pre_out[row * n + j] = Sigmoid(mix[j] * p.scale[0] + p.base[j]) + p.hc_eps;
    p.post[row * n + j] = 2.0f * Sigmoid(mix[n + j] * p.scale[1] + p.base[n + j]);
  }
  for (int64_t i = 0; i < n * n; ++i) comb[i] = mix[2 * n + i] * p.scale[2] + p.base[2 * n + i];
  Sinkhorn(comb, n, p.sinkhorn_iters, p.hc_eps);
}

}  // namespace

void Embed(const EmbedParams& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    const BF16* source = p.table + p.ids[r] * p.hidden;
    for (int64_t j = 0; j < p.streams_n; ++j) {
      std::copy_n(source, p.hidden, p.streams + (r * p.streams_n + j) * p.hidden);
      p.pre_mix[r * p.streams_n + j] = j == 0 ? 1.0f : 0.0f;
    }
  }
}

void HyperFinish(const HyperFinishParams& p) {
  const int64_t n = p.streams_n;
  p.stream.team->ParallelFor(p.rows, 8, [&](int64_t begin, int64_t end) {
    std::vector<float> old(static_cast<size_t>(n));
    for (int64_t r = begin; r < end; ++r) {
      BF16* streams = p.streams + r * n * p.hidden;
      const float* comb = p.comb + r * n * n;
      for (int64_t c = 0; c < p.hidden; ++c) {
        const float y = ToFloat(p.update[r * p.hidden + c]);
        for (int64_t k = 0; k < n; ++k)
          old[static_cast<size_t>(k)] = ToFloat(streams[k * p.hidden + c]);
        for (int64_t j = 0; j < n; ++j) {
          float mixed = 0;
          for (int64_t k = 0; k < n; ++k) mixed += comb[k * n + j] * old[static_cast<size_t>(k)];
          streams[j * p.hidden + c] = tensor::ToBF16(p.post[r * n + j] * y + mixed);
        }
      }
    }
  });
}

void HyperPredict(const HyperPredictParams& p) {
  const int64_t n = p.streams_n;
  p.stream.team->ParallelFor(p.rows, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> x(static_cast<size_t>(n * p.hidden));
    std::vector<float> mix(static_cast<size_t>(2 * n + n * n));
    std::vector<BF16> collapsed(static_cast<size_t>(p.hidden));
    for (int64_t r = begin; r < end; ++r) {
      PredictRow(p, r, x.data(), mix.data());
      CollapseRow(p.streams + r * n * p.hidden, p.pre_in + r * n, n, p.hidden, collapsed.data());
      BF16* normed = p.normed + r * p.hidden;
      RmsNorm(collapsed.data(), p.norm_weight, p.hidden, p.norm_eps, normed);
      tensor::RoundTripRow(p.quantise, normed, p.hidden, p.normed_quantised + r * p.hidden);
    }
  });
}

void Collapse(const CollapseParams& p) {
  std::vector<BF16> row(static_cast<size_t>(p.hidden));
  for (int64_t r = 0; r < p.rows; ++r) {
    CollapseRow(p.streams + r * p.streams_n * p.hidden, p.pre_mix + r * p.streams_n, p.streams_n,
                p.hidden, row.data());
    if (p.collapsed != nullptr) std::copy_n(row.data(), p.hidden, p.collapsed + r * p.hidden);
    RmsNorm(row.data(), p.norm_weight, p.hidden, p.norm_eps, p.normed + r * p.hidden);
  }
}

void Tap(const TapParams& p) {
  for (int64_t r = 0; r < p.rows; ++r) {
    BF16* out = p.out + r * p.out_stride;
    for (int64_t c = 0; c < p.hidden; ++c) {
      float sum = 0;
      for (int64_t j = 0; j < p.streams_n; ++j) {
        sum += ToFloat(p.streams[(r * p.streams_n + j) * p.hidden + c]);
      }
      out[c] = tensor::ToBF16(sum / static_cast<float>(p.streams_n));
    }
    tensor::RoundTripRow(p.quantise, out, p.hidden, p.out_quantised + r * p.out_stride);
  }
}

}  // namespace thalweg::kernels::reference
