// y = W x for fp32 matrices, which are small (the coefficients of hyper-connections).
//
// Lane l of sixteen sums the products of columns k with k % 16 = l, in ascending k; lanes are then
// added in one fixed tree. Nothing else decides a result.
#pragma once

#include "kernels/cpu/decode.inc.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/shuffle.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Columns are walked in groups of 32, the group of every scale.
constexpr int64_t kGroup = 32;
TW_INLINE int64_t PaddedWidth(int64_t width) { return (width + kGroup - 1) / kGroup * kGroup; }

TW_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
TW_INLINE int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }

// Tiles that fit the registers: rows x outputs of a decoded panel, outputs of a single row.
#if defined(__AVX512F__)
constexpr int kTileRows = 4, kTileOuts = 4, kSingleOuts = 8;
#elif defined(__AVX2__)
constexpr int kTileRows = 2, kTileOuts = 2, kSingleOuts = 4;
#else
constexpr int kTileRows = 1, kTileOuts = 2, kSingleOuts = 2;
#endif

template <int kOuts>
struct ReadF32 {
  static constexpr bool kHalves = true;
  const float* row[kOuts];
  TW_INLINE F Half(int o, int64_t k) const { return Load(row[o] + k); }
};

// --- Tiles. ---

// acc[r * kOuts + o] += weight[o] * x[r] at columns [k, k + 16).
template <int kRows, int kOuts>
TW_INLINE void MultiplyAdd(const F* weight, const float* const* x, int64_t k, F* acc) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const F value = Load(x[r] + k);
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) {
      acc[r * kOuts + o] = acc[r * kOuts + o] + weight[o] * value;
    }
  }
}

// The same for one group of 32 columns from k on.
template <int kRows, int kOuts, typename Reader>
TW_INLINE void AddGroup(const Reader& w, const float* const* x, int64_t k, F* acc) {
  F weight[2][kOuts];
  if constexpr (Reader::kHalves) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 8
      for (int o = 0; o < kOuts; ++o) weight[half][o] = w.Half(o, k + half * kLanes);
      MultiplyAdd<kRows, kOuts>(weight[half], x, k + half * kLanes, acc);
    }
  } else {
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) {
      F both[2];
      w.Group(o, k, both);
      weight[0][o] = both[0];
      weight[1][o] = both[1];
    }
    MultiplyAdd<kRows, kOuts>(weight[0], x, k, acc);
    MultiplyAdd<kRows, kOuts>(weight[1], x, k + kLanes, acc);
  }
}

// sum[r * kOuts + o] += lanes of W[o] x[r] over columns [begin, end), multiples of 32.
template <int kRows, int kOuts, typename Reader>
TW_INLINE void Tile(const Reader& w, const float* const* x, int64_t begin, int64_t end, F* sum) {
  F acc[kRows * kOuts];
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kOuts; ++i) acc[i] = sum[i];
  for (int64_t k = begin; k < end; k += kGroup) AddGroup<kRows, kOuts>(w, x, k, acc);
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kOuts; ++i) sum[i] = acc[i];
}

// Writes the finished sums of a tile: those of the first `rows` rows and `outs` outputs.
template <int kRows, int kOuts>
TW_INLINE void Finish(const F* sum, int64_t rows, int64_t outs, float* out, int64_t stride) {
  float value[kLanes];
  Store(value, SumLanes<kRows * kOuts>(sum));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < outs; ++o) out[r * stride + o] = value[r * kOuts + o];
  }
}

// Outputs whose rows are read together.
constexpr int kPlainOuts = kParts == 1 ? 8 : kParts == 2 ? 4 : 2;

// out[0..kOuts) = W[o] . x for kOuts rows; columns behind the width are not read.
template <int kOuts>
TW_INLINE void PlainRows(const float* const* w, const float* x, int64_t width, float* out) {
  F sum[kOuts];
#pragma GCC unroll 8
  for (F& s : sum) s = Zero();
  const int64_t whole = width / kLanes * kLanes;
  for (int64_t k = 0; k < whole; k += kLanes) {
    const F value = Load(x + k);
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) sum[o] = sum[o] + Load(w[o] + k) * value;
  }
  if (whole < width) {
    for (int o = 0; o < kOuts; ++o) {
      sum[o] =
          sum[o] + LoadFirst(w[o] + whole, width - whole) * LoadFirst(x + whole, width - whole);
    }
  }
  float value[kLanes];
  Store(value, SumLanes<kOuts>(sum));
  for (int o = 0; o < kOuts; ++o) out[o] = value[o];
}

// out[r * stride + o - begin] = W[o] . x[r] for outputs [begin, end) of an fp32 matrix.
void Multiply(const Matrix& w, int64_t begin, int64_t end, const float* const* x, int64_t rows,
              float* out, int64_t stride) {
  const auto* values = static_cast<const float*>(w.data);
  for (int64_t o = begin; o < end; o += kPlainOuts) {
    const float* row[kPlainOuts];
    for (int i = 0; i < kPlainOuts; ++i) row[i] = values + Least(o + i, end - 1) * w.cols;
    for (int64_t r = 0; r < rows; ++r) {
      float sums[kPlainOuts];
      PlainRows<kPlainOuts>(row, x[r], w.cols, sums);
      for (int64_t i = 0; i < Least(kPlainOuts, end - o); ++i)
        out[r * stride + o - begin + i] = sums[i];
    }
  }
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
