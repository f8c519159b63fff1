// The body of kernels whose blocks are all ranks of K of some slabs, a warp each, so that no sum
// leaves the block: warps multiply their rank of a tile, then the block adds the ranks up in order.
//
// A Body says what is multiplied: Op, Plan; Body(op, plan, shared), then Open(), which starts what
// does not depend on the kernel before; Begin(shared), what is done once behind it; Inputs(item),
// in front of each tile; Multiply(acc), the sums of the warp's rank; kFactor, of its sums. Of a
// Plan: ranks, columns (input rows, up to kRankColumns), TileSlabs(), SumsAt().
//
// Of an Op, beside what product.cuh asks: StoreOutput(item, o, n, value), output o of the tile and
// input row n, by 32 lanes that have neighbouring outputs where the tile has as many.
#pragma once

#include "kernels/cuda/product_launch.cuh"
#include "kernels/cuda/warp_ring.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kRankWarps = 8, kRankBlockThreads = kRankWarps * kWarp;
inline constexpr int kRankColumns = 8;
inline constexpr int kRankSums = kRankColumns * kUnitRows;  // of a warp: [columns, outputs]
inline constexpr int kRankSumBytes = 2 * kRankWarps * kRankSums * 4;  // of two tiles, in turn

// The sums of a warp to those of the block.
__device__ inline void SpreadRank(const float (&acc)[4], float factor, float* sums) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float* mine = sums + (warp * kRankColumns + lane % 4 * 2) * kUnitRows + lane / 4;
#pragma unroll
  for (int j = 0; j < 4; ++j) mine[j % 2 * kUnitRows + j / 2 * 8] = acc[j] * factor;
}

// Adds up the ranks of a tile of `outputs` outputs, and stores them.
template <typename Op>
__device__ inline void StoreRanks(const Op& op, const typename Op::Item& item, const float* sums,
                                  int outputs, int columns, int ranks) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < outputs * columns; i += kRankBlockThreads) {
    const int o = i % outputs, n = i / outputs;
    const float* part = sums + o / kUnitRows * ranks * kRankSums + n * kUnitRows + o % kUnitRows;
    float sum = part[0];
    for (int r = 1; r < ranks; ++r) sum += part[r * kRankSums];
    op.StoreOutput(item, o, n, sum);
  }
}

template <typename Body>
__global__ void __launch_bounds__(kRankBlockThreads, 2)
    RankBlockKernel(const __grid_constant__ typename Body::Op op,
                    const __grid_constant__ typename Body::Plan plan) {
  extern __shared__ __align__(128) unsigned char shared[];
  LetNextKernelStart();
  Body warp(op, plan, SharedAddress(shared));
  warp.Open();
  AwaitKernelBefore();
  warp.Begin(shared);
  const int64_t tiles = op.Tiles();
  float* sums = reinterpret_cast<float*>(shared + plan.SumsAt());
  const int outputs = plan.TileSlabs() * kUnitRows;
  int half = 0;
#pragma unroll 1
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, half ^= 1) {
    const typename Body::Op::Item item = op.Locate(tile);
    warp.Inputs(item);
    float acc[4] = {};
    warp.Multiply(acc);
    float* mine = sums + half * kRankWarps * kRankSums;
    SpreadRank(acc, Body::kFactor, mine);
    __syncthreads();
    StoreRanks(op, item, mine, outputs, plan.columns, plan.ranks);
  }
}

// op.tile_slabs and what goes with it is set; most_bytes: of any plan.
template <typename Body>
void LaunchRankBlocks(Queue* queue, const typename Body::Op& op, const typename Body::Plan& plan,
                      int64_t tiles, int most_bytes) {
  const auto kernel = RankBlockKernel<Body>;
  AllowShared(queue, kernel, most_bytes);
  const int resident = ResidentBlocks(queue, kernel, kRankBlockThreads, plan.Bytes());
  LaunchAs(queue, kernel, dim3(Count(std::min<int64_t>(tiles, resident))), kRankBlockThreads,
           plan.Bytes(), {1, true}, op, plan);
}

}  // namespace thalweg::kernels::cuda
