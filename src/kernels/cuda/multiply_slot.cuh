// The products of a slot of weights as codes (warp_ring.cuh) with input rows in shared memory
// (codes.cuh), by the four warps of a warpgroup.
#pragma once

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/wgmma_codes.cuh"

namespace thalweg::kernels::cuda {

// Units under way together.
template <int kBatch, int kCols>
struct PartialSums {
  float sums[kBatch][kUnitBlocks][kCols / 2] = {};
  RowScales scales[kBatch];
};

template <typename Codes, int kBatch, int kCols>
__device__ inline void BeginUnits(uint32_t units, const CodeColumns& columns, int unit_bytes,
                                  PartialSums<kBatch, kCols>* partial) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Codes codes[kBatch];
  uint32_t a[kBatch][kUnitBlocks][4];
#pragma unroll
  for (int u = 0; u < kBatch; ++u) codes[u].Load(units + u * Codes::kUnitBytes, lane);
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
    codes[u].Unpack(a[u]);
    codes[u].Scales(partial->scales[u]);
  }
  BeginProducts();
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
#pragma unroll
    for (int s = 0; s < kUnitBlocks; ++s) {
      MultiplyCodes<kCols>(partial->sums[u][s], a[u][s],
                           columns.Behind(u * unit_bytes + s * 2 * kCoreBytes));
    }
  }
  CommitProducts();
}

// acc += what has come, with the scales of the inputs.
template <int kBatch, int kCols>
__device__ inline void AddUnits(uint32_t inputs, int unit_bytes,
                                PartialSums<kBatch, kCols>* partial, float (&acc)[kCols / 2]) {
  const uint32_t mine = inputs + kCodesBytes + threadIdx.x % 4 * 16;
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
#pragma unroll
    for (int s = 0; s < kUnitBlocks; ++s) Settle(partial->sums[u][s]);
#pragma unroll
    for (int i = 0; i < kCols / 8; ++i) {
      const uint4 x = LoadShared128(mine + u * unit_bytes + i * kInputUnitBytes);
      AddBlock(partial->sums[u][0] + i * 4, partial->scales[u][0], __uint_as_float(x.x),
               __uint_as_float(x.y), acc + i * 4);
      AddBlock(partial->sums[u][1] + i * 4, partial->scales[u][1], __uint_as_float(x.z),
               __uint_as_float(x.w), acc + i * 4);
    }
  }
}

// acc += the products of a slot of kUnits units at `from` with the columns whose chunks are at
// `inputs`, unit_bytes a unit; kBuffers batches of kBatch units are under way. Calls release() when
// the weights have been read.
template <typename Codes, int kUnits, int kBatch, int kBuffers, int kCols, typename Release>
__device__ inline void MultiplySlot(uint32_t from, uint32_t inputs, int unit_bytes,
                                    float (&acc)[kCols / 2], Release release) {
  constexpr int kBatches = kUnits / kBatch;
  const CodeColumns columns(inputs, kInputUnitBytes);
  PartialSums<kBatch, kCols> partial[kBuffers];
#pragma unroll
  for (int b = 0; b < kBatches + kBuffers - 1; ++b) {
    if (b < kBatches) {
      BeginUnits<Codes>(from + b * kBatch * Codes::kUnitBytes,
                        columns.Behind(b * kBatch * unit_bytes), unit_bytes,
                        &partial[b % kBuffers]);
    }
    if (b == kBatches - 1) release();
    const int done = b - kBuffers + 1;
    if (done < 0) continue;
    if (b < kBatches) {
      WaitProducts<kBuffers - 1>();
    } else {
      WaitProducts<0>();
    }
    AddUnits(inputs + done * kBatch * unit_bytes, unit_bytes, &partial[done % kBuffers], acc);
  }
}

}  // namespace thalweg::kernels::cuda
