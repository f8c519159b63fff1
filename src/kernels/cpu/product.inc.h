// y = W x for fp32 matrices, which have no panels: releases store few and small ones.
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
