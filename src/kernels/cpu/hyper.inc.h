// Single-pass hyper-connections (model.md 2.1, 2.2).
#pragma once

#include <bit>

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

TW_INLINE int64_t MixesOf(int64_t streams_n) { return (2 + streams_n) * streams_n; }

// From the products m of one row: pre and post mixes, and the matrix before Sinkhorn.
void Coefficients(const HyperPredictParams& p, int64_t row, const float* product, float rr) {
  const int64_t n = p.streams_n;
  for (int64_t j = 0; j < n; ++j) {
    const float pre = product[j] * rr * p.scale[0] + p.base[j];
    const float post = product[n + j] * rr * p.scale[1] + p.base[n + j];
    const float lanes[kLanes] = {pre, post};
    const F both = Sigmoid(Load(lanes));
    p.pre_out[row * n + j] = both.part[0][0] + p.hc_eps;
    p.post[row * n + j] = 2.0f * both.part[0][1];
  }
  for (int64_t i = 0; i < n * n; ++i) {
    p.comb[row * n * n + i] = product[2 * n + i] * rr * p.scale[2] + p.base[2 * n + i];
  }
}

// u = bf16(sum_j mix_j X_j) at channels [c, c + 16) of `n` streams; kN is n where it is known.
template <int64_t kN>
TW_INLINE void CollapseChannels(const BF16* streams, const float* mix, int64_t n, int64_t hidden,
                                int64_t c, BF16* out) {
  F sum = Zero();
  for (int64_t j = 0; j < (kN > 0 ? kN : n); ++j) {
    sum = sum + Set(mix[j]) * LoadFirst(streams + j * hidden + c, hidden - c);
  }
  StoreFirst(out + c, sum, hidden - c);
}

void CollapseRow(const BF16* streams, const float* mix, int64_t n, int64_t hidden, BF16* out) {
  int64_t c = 0;
  for (; n == 4 && c + kLanes <= hidden; c += kLanes) {
    CollapseChannels<4>(streams, mix, n, hidden, c, out);
  }
  for (; c < hidden; c += kLanes) CollapseChannels<0>(streams, mix, n, hidden, c, out);
}

// sum[r][o] += x[r] * fn[o] for columns [k, k + kLanes), of which `left` are there.
template <int kRows, int kOuts>
TW_INLINE void MixColumns(const float* const* fn, const BF16* const* x, int64_t k, int64_t left,
                          F* sum) {
  F weight[kOuts];
  for (int o = 0; o < kOuts; ++o) weight[o] = LoadFirst(fn[o] + k, left);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const F value = LoadFirst(x[r] + k, left);
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) sum[r * kOuts + o] = sum[r * kOuts + o] + weight[o] * value;
  }
}

// Products of kRows rows with kOuts rows of fn: lane l sums the columns k with k % 16 = l in
// ascending k, and lanes are added in the one tree. The rows of fn behind them are asked for: they
// come next.
template <int kRows, int kOuts>
TW_INLINE void MixTile(const float* const* fn, const BF16* const* x, int64_t width, float* product,
                       int64_t stride) {
  constexpr int kSums = std::bit_ceil(static_cast<unsigned>(kRows * kOuts));
  F sum[kSums];
  for (F& lanes : sum) lanes = Zero();
  const int64_t whole = width / kLanes * kLanes;
  for (int64_t k = 0; k < whole; k += kLanes) {
    for (int o = 0; o < kOuts; ++o)
      __builtin_prefetch(fn[o] + kOuts * width + k, 0, kIntoSecondCache);
    MixColumns<kRows, kOuts>(fn, x, k, kLanes, sum);
  }
  if (whole < width) MixColumns<kRows, kOuts>(fn, x, whole, width - whole, sum);
  float lane[kLanes];
  Store(lane, SumLanes<kSums>(sum));
  for (int i = 0; i < kRows * kOuts; ++i) product[i / kOuts * stride + i % kOuts] = lane[i];
}

// Tiles of four outputs that the registers hold: up to so many rows at once.
#if defined(__AVX512F__)
constexpr int kMixRows = 4;
#else
constexpr int kMixRows = 1;
#endif
constexpr int kMixOuts = 4;

// The last rows of a block, kRows of them or fewer.
template <int kRows>
TW_INLINE void MixLast(const float* const* fn, const BF16* const* x, int64_t rows, int64_t width,
                       float* product, int64_t stride) {
  if (rows == kRows) return MixTile<kRows, kMixOuts>(fn, x, width, product, stride);
  if constexpr (kRows > 1) MixLast<kRows - 1>(fn, x, rows, width, product, stride);
}

// Products of rows [begin, end) with fn's rows [out, out + kMixOuts); repeated ones fill a tile.
// Tiles are of nearly the same size, so that fn is read as few times as can be.
void MixProducts(const HyperPredictParams& p, int64_t begin, int64_t end, int64_t out,
                 float* product) {
  const int64_t width = p.streams_n * p.hidden, mixes = MixesOf(p.streams_n);
  const float* fn[kMixOuts];
  for (int o = 0; o < kMixOuts; ++o) fn[o] = p.fn + Least(out + o, mixes - 1) * width;
  const int64_t stride = (mixes + kMixOuts - 1) / kMixOuts * kMixOuts;
  const int64_t rows = end - begin, tiles = (rows + kMixRows - 1) / kMixRows;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t first = begin + rows * t / tiles, count = begin + rows * (t + 1) / tiles - first;
    const BF16* x[kMixRows];
    for (int64_t i = 0; i < count; ++i) x[i] = p.streams + (first + i) * width;
    MixLast<kMixRows>(fn, x, count, width, product + first * stride + out, stride);
  }
}

// Everything behind the products of rows [begin, end).
void PredictRows(const HyperPredictParams& p, int64_t begin, int64_t end, const float* product) {
  const int64_t n = p.streams_n, width = n * p.hidden;
  const int64_t stride = (MixesOf(n) + kMixOuts - 1) / kMixOuts * kMixOuts;
  auto* collapsed = static_cast<BF16*>(Scratch(Slot::kRow, p.hidden * 2));
  for (int64_t r = begin; r < end; ++r) {
    const BF16* streams = p.streams + r * width;
    Coefficients(p, r, product + r * stride,
                 InverseRms(SumOfSquares(streams, width), width, p.norm_eps));
    CollapseRow(streams, p.pre_in + r * n, n, p.hidden, collapsed);
    BF16* normed = p.normed + r * p.hidden;
    RmsNorm(collapsed, p.norm_weight, p.hidden, p.norm_eps, normed);
    RoundTrip(p.quantise, normed, p.hidden, p.normed_quantised + r * p.hidden);
  }
  Sinkhorn(p.comb + begin * n * n, n, end - begin, p.sinkhorn_iters, p.hc_eps);
}

// fn is read once for a block of rows; its outputs are shared out where there are few blocks.
void HyperPredict(const HyperPredictParams& p) {
  constexpr int64_t kRows = 16;
  const int64_t tiles = (MixesOf(p.streams_n) + kMixOuts - 1) / kMixOuts;
  const int64_t blocks = (p.rows + kRows - 1) / kRows;
  float* product = ScratchFloats(Slot::kMix, p.rows * tiles * kMixOuts);
  const int64_t work = Least(p.rows, kRows) * kMixOuts * p.streams_n * p.hidden;
  const int64_t parts = blocks >= 4 * p.stream.team->size() ? 1 : tiles;
  p.stream.team->ParallelFor(
      blocks * parts, Most(1, kWorkWorthAThread / Most(1, work)), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t row = i / parts * kRows, part = i % parts;
          for (int64_t t = part * tiles / parts; t < (part + 1) * tiles / parts; ++t) {
            MixProducts(p, row, Least(row + kRows, p.rows), t * kMixOuts, product);
          }
        }
      });
  p.stream.team->ParallelFor(
      p.rows, Most(1, (1 << 16) / (p.streams_n * p.hidden)),
      [&](int64_t begin, int64_t end) { PredictRows(p, begin, end, product); });
}

void Collapse(const CollapseParams& p) {
  const int64_t grain = Most(1, (1 << 16) / (p.streams_n * p.hidden));
  p.stream.team->ParallelFor(p.rows, grain, [&](int64_t begin, int64_t end) {
    auto* kept = static_cast<BF16*>(Scratch(Slot::kRow, p.hidden * 2));
    for (int64_t r = begin; r < end; ++r) {
      BF16* row = p.collapsed != nullptr ? p.collapsed + r * p.hidden : kept;
      CollapseRow(p.streams + r * p.streams_n * p.hidden, p.pre_mix + r * p.streams_n, p.streams_n,
                  p.hidden, row);
      RmsNorm(row, p.norm_weight, p.hidden, p.norm_eps, p.normed + r * p.hidden);
    }
  });
}

// --- Embedding and taps. ---

void Embed(const EmbedParams& p) {
  const int64_t grain = Most(1, (1 << 16) / (p.streams_n * p.hidden));
  p.stream.team->ParallelFor(p.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * p.streams_n; i < end * p.streams_n; ++i) {
      const int64_t row = i / p.streams_n;
      __builtin_memcpy(static_cast<void*>(p.streams + i * p.hidden),
                       p.table + p.ids[row] * p.hidden, static_cast<size_t>(p.hidden) * 2);
      p.pre_mix[i] = i % p.streams_n == 0 ? 1.0f : 0.0f;
    }
  });
}

void TapRow(const TapParams& p, int64_t row) {
  BF16* out = p.out + row * p.out_stride;
  const BF16* streams = p.streams + row * p.streams_n * p.hidden;
  for (int64_t c = 0; c < p.hidden; c += kLanes) {
    const int64_t left = p.hidden - c;
    F sum = Zero();
    for (int64_t j = 0; j < p.streams_n; ++j) {
      sum = sum + LoadFirst(streams + j * p.hidden + c, left);
    }
    StoreFirst(out + c, sum / Set(static_cast<float>(p.streams_n)), left);
  }
  RoundTrip(p.quantise, out, p.hidden, p.out_quantised + row * p.out_stride);
}

void Tap(const TapParams& p) {
  const int64_t grain = Most(1, (1 << 16) / (p.streams_n * p.hidden));
  p.stream.team->ParallelFor(p.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) TapRow(p, r);
  });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
