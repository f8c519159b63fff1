// What the experts of a row made, added up (model.md 2.6).
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {

// kEach neighbouring values from column c on; Piece: as many values of bf16, moved at once.
template <typename Piece, int kEach>
__device__ inline Piece CombinedPiece(const CombineJob& job, int64_t row, int64_t c) {
  constexpr int kAtOnce = 8;  // loads under way
  const auto at = [&](int64_t i) {
    return reinterpret_cast<const Piece*>(job.y + i * job.hidden + c);
  };
  const Piece shared = *at(job.rows * job.topk + row);
  float sum[kEach] = {};
  for (int64_t first = 0; first < job.topk; first += kAtOnce) {
    Piece some[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i < job.topk) some[i] = *at(row * job.topk + first + i);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + i >= job.topk) break;
      const auto* values = reinterpret_cast<const BF16*>(&some[i]);
#pragma unroll
      for (int k = 0; k < kEach; ++k) sum[k] += Wide(values[k]);
    }
  }
  Piece out;
  const auto* last = reinterpret_cast<const BF16*>(&shared);
  auto* values = reinterpret_cast<BF16*>(&out);
#pragma unroll
  for (int k = 0; k < kEach; ++k) values[k] = Narrow(sum[k] + Wide(last[k]));
  return out;
}

}  // namespace thalweg::kernels::cuda
