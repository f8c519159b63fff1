// Single-pass hyper-connections (model.md 2.1, 2.2).
#pragma once

#include "kernels/cpu/linear.inc.h"
#include "kernels/reference/bodies.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Streams are at most this many in the fast bodies; TargetOps falls back to the reference above it.
constexpr int64_t kMaxStreams = 8;

// X_j = bf16(post_j * y + sum_k comb[k][j] X_k) for sixteen channels.
TW_INLINE void FinishChannels(const HyperFinishParams& p, int64_t row, int64_t c, int64_t left) {
  const int64_t n = p.streams_n;
  BF16* streams = p.streams + row * n * p.hidden + c;
  const F y = LoadFirst(p.update + row * p.hidden + c, left);
  F old[kMaxStreams];
  for (int64_t k = 0; k < n; ++k) old[k] = LoadFirst(streams + k * p.hidden, left);
  for (int64_t j = 0; j < n; ++j) {
    F mixed = Zero();
    for (int64_t k = 0; k < n; ++k) mixed = mixed + Set(p.comb[(row * n + k) * n + j]) * old[k];
    StoreFirst(streams + j * p.hidden, Set(p.post[row * n + j]) * y + mixed, left);
  }
}

// The released count of streams, with everything in registers.
TW_INLINE void FinishRowOf4(const HyperFinishParams& p, int64_t row) {
  constexpr int kN = 4;
  BF16* streams = p.streams + row * kN * p.hidden;
  F comb[kN * kN], post[kN];
  for (int i = 0; i < kN * kN; ++i) comb[i] = Set(p.comb[row * kN * kN + i]);
  for (int i = 0; i < kN; ++i) post[i] = Set(p.post[row * kN + i]);
  for (int64_t c = 0; c + kLanes <= p.hidden; c += kLanes) {
    const F y = LoadBF16(p.update + row * p.hidden + c);
    F old[kN];
    for (int k = 0; k < kN; ++k) old[k] = LoadBF16(streams + k * p.hidden + c);
    for (int j = 0; j < kN; ++j) {
      F mixed = Zero();
      for (int k = 0; k < kN; ++k) mixed = mixed + comb[k * kN + j] * old[k];
      StoreBF16(streams + j * p.hidden + c, post[j] * y + mixed);
    }
  }
}

void HyperFinish(const HyperFinishParams& p) {
  if (p.streams_n > kMaxStreams) return reference::HyperFinish(p);
  const int64_t grain = Most(1, (1 << 15) / (p.streams_n * p.hidden));
  p.stream.team->ParallelFor(p.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (p.streams_n == 4) FinishRowOf4(p, r);
      for (int64_t c = p.streams_n == 4 ? p.hidden / kLanes * kLanes : 0; c < p.hidden;
           c += kLanes) {
        FinishChannels(p, r, c, p.hidden - c);
      }
    }
  });
}

// --- Sinkhorn. ---

TW_INLINE F SumOfRows(F c) { return ((Column<0>(c) + Column<1>(c)) + Column<2>(c)) + Column<3>(c); }
TW_INLINE F SumOfColumns(F c) { return ((Row<0>(c) + Row<1>(c)) + Row<2>(c)) + Row<3>(c); }
TW_INLINE F MaxOfRows(F c) {
  return Max(Max(Column<0>(c), Column<1>(c)), Max(Column<2>(c), Column<3>(c)));
}

// kCount 4x4 matrices at a time: their chains of divisions overlap.
template <int kCount>
TW_INLINE void Sinkhorn4(float* comb, int iters, float eps_value) {
  const F eps = Set(eps_value);
  F c[kCount];
  for (int i = 0; i < kCount; ++i) {
    c[i] = Load(comb + i * kLanes);
    const F e = Exp(c[i] - MaxOfRows(c[i]));
    c[i] = e / SumOfRows(e) + eps;
    c[i] = c[i] / (SumOfColumns(c[i]) + eps);
  }
  for (int step = 1; step < iters; ++step) {
    for (F& m : c) m = m / (SumOfRows(m) + eps);
    for (F& m : c) m = m / (SumOfColumns(m) + eps);
  }
  for (int i = 0; i < kCount; ++i) Store(comb + i * kLanes, c[i]);
}

void NormaliseLines(float* comb, int64_t n, int64_t line_stride, int64_t step, float eps) {
  for (int64_t line = 0; line < n; ++line) {
    float* first = comb + line * line_stride;
    float sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += first[i * step];
    for (int64_t i = 0; i < n; ++i) first[i * step] /= sum + eps;
  }
}

// Any number of streams.
void SinkhornAny(float* comb, int64_t n, int iters, float eps) {
  for (int64_t k = 0; k < n; ++k) {
    float* row = comb + k * n;
    float top = row[0];
    for (int64_t j = 1; j < n; ++j) top = row[j] > top ? row[j] : top;
    float sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += row[j] = Exp1(row[j] - top);
    for (int64_t j = 0; j < n; ++j) row[j] = row[j] / sum + eps;
  }
  NormaliseLines(comb, n, 1, n, eps);
  for (int i = 1; i < iters; ++i) {
    NormaliseLines(comb, n, n, 1, eps);
    NormaliseLines(comb, n, 1, n, eps);
  }
}

void Sinkhorn(float* comb, int64_t n, int64_t rows, int iters, float eps) {
  int64_t r = 0;
  if (n == 4) {
    for (; r + 4 <= rows; r += 4) Sinkhorn4<4>(comb + r * 16, iters, eps);
    for (; r < rows; ++r) Sinkhorn4<1>(comb + r * 16, iters, eps);
    return;
  }
  for (; r < rows; ++r) SinkhornAny(comb + r * n * n, n, iters, eps);
}

// --- Coefficients and collapse. ---

// From the products m of one row: pre and post mixes, and the matrix before Sinkhorn.
void Coefficients(const HyperPredictParams& p, int64_t row, const float* product, float rr) {
  const int64_t n = p.streams_n;
  for (int64_t j = 0; j < n; ++j) {
    const float pre = product[j] * rr * p.scale[0] + p.base[j];
    const float post = product[n + j] * rr * p.scale[1] + p.base[n + j];
    const F both = Sigmoid(LoadFirst(&pre, 1) + SwapPairs(LoadFirst(&post, 1)));
    p.pre_out[row * n + j] = both.part[0][0] + p.hc_eps;
    p.post[row * n + j] = 2.0f * both.part[0][1];
  }
  for (int64_t i = 0; i < n * n; ++i) {
    p.comb[row * n * n + i] = product[2 * n + i] * rr * p.scale[2] + p.base[2 * n + i];
  }
}

// u = bf16(sum_j mix_j X_j).
void CollapseRow(const BF16* streams, const float* mix, int64_t n, int64_t hidden, BF16* out) {
  for (int64_t c = 0; c < hidden; c += kLanes) {
    F sum = Zero();
    for (int64_t j = 0; j < n; ++j) {
      sum = sum + Set(mix[j]) * LoadFirst(streams + j * hidden + c, hidden - c);
    }
    StoreFirst(out + c, sum, hidden - c);
  }
}

constexpr int64_t kPredictRows = 8;  // that share one pass over fn

// Rows [begin, begin + rows), rows <= kPredictRows.
void PredictRows(const HyperPredictParams& p, int64_t begin, int64_t rows) {
  const int64_t n = p.streams_n;
  const int64_t width = n * p.hidden;
  const int64_t mixes = 2 * n + n * n;
  float* wide = ScratchFloats(Slot::kInput, kPredictRows * PaddedWidth(width));
  float* product = ScratchFloats(Slot::kMix, kPredictRows * mixes);
  auto* collapsed = static_cast<BF16*>(Scratch(Slot::kRow, p.hidden * 2));
  const float* x[kPredictRows];
  for (int64_t r = 0; r < rows; ++r) {
    x[r] = wide + r * PaddedWidth(width);
    WidenRow(p.streams + (begin + r) * width, width, wide + r * PaddedWidth(width));
  }
  const Matrix fn = {WeightFormat::kF32, p.fn, nullptr, mixes, width};
  Multiply(fn, 0, mixes, x, rows, product, mixes);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t r = begin + i;
    const BF16* streams = p.streams + r * width;
    Coefficients(p, r, product + i * mixes,
                 InverseRms(SumOfSquares(streams, width), width, p.norm_eps));
    CollapseRow(streams, p.pre_in + r * n, n, p.hidden, collapsed);
    BF16* normed = p.normed + r * p.hidden;
    RmsNorm(collapsed, p.norm_weight, p.hidden, p.norm_eps, normed);
    RoundTrip(p.quantise, normed, p.hidden, p.normed_quantised + r * p.hidden);
  }
  Sinkhorn(p.comb + begin * n * n, n, rows, p.sinkhorn_iters, p.hc_eps);
}

void HyperPredict(const HyperPredictParams& p) {
  const int64_t work = (2 * p.streams_n + p.streams_n * p.streams_n) * p.streams_n * p.hidden;
  const int64_t grain = Most(1, kWorkWorthAThread / Most(1, work));
  p.stream.team->ParallelFor(p.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += kPredictRows) {
      PredictRows(p, r, Least(kPredictRows, end - r));
    }
  });
}

void Collapse(const CollapseParams& p) {
  auto* kept = static_cast<BF16*>(Scratch(Slot::kRow, p.hidden * 2));
  for (int64_t r = 0; r < p.rows; ++r) {
    BF16* row = p.collapsed != nullptr ? p.collapsed + r * p.hidden : kept;
    CollapseRow(p.streams + r * p.streams_n * p.hidden, p.pre_mix + r * p.streams_n, p.streams_n,
                p.hidden, row);
    RmsNorm(row, p.norm_weight, p.hidden, p.norm_eps, p.normed + r * p.hidden);
  }
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
