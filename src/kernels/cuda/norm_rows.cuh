// RMSNorm of rows, and the same quantised (model.md 2, 5.2), a block a row.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/row_pieces.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kRowJobThreads = 256;
inline constexpr int kRowPieces = 3;  // of a thread, of rows that are kept in registers

// RMSNorm of a row; `normed` and `quantised` may be null.
__device__ inline void NormRow(const BF16* row, const BF16* weight, int64_t width, float eps,
                               RowFormat format, BF16* normed, BF16* quantised) {
  const float inverse = InverseRms(row, width, eps);
  ForColumns(width, [&](int64_t c, bool active) {
    const BF16 x = active ? NormValue(row[c], weight[c], inverse) : BF16{0};
    if (active && normed != nullptr) normed[c] = x;
    if (quantised == nullptr) return;
    const Coded coded = QuantiseLane(format, Wide(x));
    if (active) quantised[c] = Narrow(coded.value);
  });
}

// The same of a row in registers.
template <int kPieces>
__device__ inline void NormPieces(RowPieces<kPieces>& row, const BF16* weight, float eps,
                                  RowFormat format, BF16* normed, BF16* quantised) {
  row.Norm(weight, eps);
  if (normed != nullptr) row.Store(normed);
  if (quantised == nullptr) return;
  row.RoundTrip(format);
  row.Store(quantised);
}

template <int kPieces>
__device__ inline void NormWhole(const NormParams& p, int64_t at) {
  RowPieces<kPieces> pieces{.width = static_cast<int>(p.width)};
  pieces.Load(p.x + at);
  NormPieces(pieces, p.weight, p.eps, p.quantise, p.out == nullptr ? nullptr : p.out + at,
             p.out_quantised == nullptr ? nullptr : p.out_quantised + at);
}

// Row `row` of the call, by a block of kRowJobThreads.
__device__ inline void NormOne(const NormParams& p, int64_t row) {
  const int64_t at = row * p.width;
  if (FitsPieces<1>(p.width, kRowJobThreads)) return NormWhole<1>(p, at);
  if (FitsPieces<kRowPieces>(p.width, kRowJobThreads)) return NormWhole<kRowPieces>(p, at);
  NormRow(p.x + at, p.weight, p.width, p.eps, p.quantise, p.out == nullptr ? nullptr : p.out + at,
          p.out_quantised == nullptr ? nullptr : p.out_quantised + at);
}

}  // namespace thalweg::kernels::cuda
