// How a matrix product is put on a queue: which width of tile, how many blocks, how many ranks.
#pragma once

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/product.cuh"

namespace thalweg::kernels::cuda {

// Tiles for few rows: several small blocks on a multiprocessor keep many copies under way.
using FewUnits = Shape<1, 1, 8, 2, 6, 3>;
using SomeUnits = Shape<1, 1, 32, 2, 5, 2>;
using ManyUnits = Shape<2, 1, 128, 1, 5, 1>;  // a tile of each rank passes through shared memory
using FewHalves = Shape<1, 1, 8, 2, 5, 2>;
using ManyHalves = Shape<2, 1, 64, 1, 4, 1>;
using FewFloats = Shape<1, 1, 8, 1, 5, 2>;
using ManyFloats = Shape<1, 1, 64, 1, 4, 1>;

inline constexpr int kMostRanks = 8;      // blocks of a portable cluster
inline constexpr int kLeastRankUnits = 16;  // units of K that are worth a block

inline int UnitsOf(int64_t width) { return static_cast<int>(base::CeilDiv(width, int64_t{kUnitCols})); }

// Ranks that share K: by K alone, for the order of the sums depends on it.
inline int RanksOf(int64_t width) {
  int ranks = 1;
  while (ranks < kMostRanks && UnitsOf(width) >= 2 * ranks * kLeastRankUnits) ranks *= 2;
  return ranks;
}

inline int MultiprocessorCount() {
  static const int count = [] {
    int device = 0, sms = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    return std::max(sms, 1);
  }();
  return count;
}

// Blocks of a kernel that run at once, and leave for it to use its shared memory.
template <typename Kernel>
int ResidentBlocks(Queue* queue, Kernel* kernel, int threads, int bytes) {
  AllowShared(queue, kernel, bytes);
  int blocks = 0;
  queue->Note(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads,
                                                            static_cast<size_t>(bytes)));
  return std::max(blocks, 1) * MultiprocessorCount();
}

// Runs the op on at most `tiles` tiles.
template <typename S, Operand kOperand, typename Op>
void LaunchProduct(Queue* queue, const Op& op, int64_t tiles, int ranks) {
  const auto kernel = ProductKernel<Op, S, kOperand>;
  constexpr int kBytes = Layout<S, kOperand>::kBytes;
  static const int resident = ResidentBlocks(queue, kernel, S::kThreads, kBytes);
  if (tiles == 0) return;
  const int64_t clusters = std::min<int64_t>(tiles, std::max(1, resident / ranks));
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(ranks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(Count(clusters * ranks));
  config.blockDim = dim3(S::kThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = queue->stream();
  config.attrs = &cluster;
  config.numAttrs = ranks > 1 ? 1 : 0;
  queue->Note(cudaLaunchKernelEx(&config, kernel, op, UnitsOf(op.width), ranks));
}

inline bool CopiesInPieces(const BF16* x, int64_t stride, int64_t width) {
  return stride % 8 == 0 && width % 8 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
}

inline Operand OperandOf(const Matrix& w) {
  if (w.packed != nullptr) return Operand::kUnits;
  return w.format == WeightFormat::kF32 ? Operand::kFloats : Operand::kHalves;
}

}  // namespace thalweg::kernels::cuda
