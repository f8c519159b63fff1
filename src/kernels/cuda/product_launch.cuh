// How a matrix product is put on a queue: which width of tile, how many blocks, how many ranks.
#pragma once

#include <algorithm>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/product_few.cuh"

namespace thalweg::kernels::cuda {

// Tiles for few rows: 8, 16 and 32 of them; several small blocks on a multiprocessor keep many
// loads under way.
using OneUnits = FewShape<8, 3, 4>;
using TwoUnits = FewShape<16, 3, 3>;
using FourUnits = FewShape<32, 2, 3>;
using ManyUnits = Shape<2, 1, 64, 1, 4, 2>;
using FewHalves = Shape<1, 1, 8, 2, 5, 2>;
using ManyHalves = Shape<2, 1, 64, 1, 4, 1>;
using FewFloats = Shape<1, 1, 8, 1, 5, 2>;
using ManyFloats = Shape<1, 1, 64, 1, 4, 1>;

inline constexpr int kMostRanks = 8;        // blocks of a portable cluster
inline constexpr int kLeastRankUnits = 16;  // units of K that are worth a block

inline int UnitsOf(int64_t width) {
  return static_cast<int>(base::CeilDiv(width, int64_t{kUnitCols}));
}

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

template <typename S>
inline constexpr bool kIsFew = false;
template <int kCols, int kStages, int kBlocks>
inline constexpr bool kIsFew<FewShape<kCols, kStages, kBlocks>> = true;

// Runs a kernel of matrix products on `clusters` clusters of `cluster_size` blocks.
template <typename Op, typename Kernel>
void LaunchOn(Queue* queue, Kernel* kernel, const Op& op, int64_t clusters, int cluster_size,
              int threads, int bytes, auto... args) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(cluster_size), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(Count(clusters * cluster_size));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = static_cast<size_t>(bytes);
  config.stream = queue->stream();
  config.attrs = &cluster;
  config.numAttrs = cluster_size > 1 ? 1 : 0;
  queue->Note(cudaLaunchKernelEx(&config, kernel, op, UnitsOf(op.width), args...));
}

// Runs the op on at most `tiles` tiles.
template <typename S, Operand kOperand, typename Op>
void LaunchProduct(Queue* queue, const Op& op, int64_t tiles, int ranks) {
  if (tiles == 0) return;
  if constexpr (kIsFew<S>) {
    static_assert(kOperand == Operand::kUnits);
    const auto kernel = FewKernel<Op, S>;
    static const int resident = ResidentBlocks(queue, kernel, S::kThreads, kFewBytes<S>);
    // A cluster where tiles alone would leave multiprocessors without work.
    const int cluster = tiles < 2 * MultiprocessorCount() ? ranks : 1;
    const int64_t clusters = std::min<int64_t>(tiles, std::max(1, resident / cluster));
    LaunchOn(queue, kernel, op, clusters, cluster, S::kThreads, kFewBytes<S>, ranks, cluster);
  } else {
    const auto kernel = ProductKernel<Op, S, kOperand>;
    constexpr int kBytes = Layout<S, kOperand>::kBytes;
    static const int resident = ResidentBlocks(queue, kernel, S::kThreads, kBytes);
    LaunchOn(queue, kernel, op, std::min<int64_t>(tiles, resident), 1, S::kThreads, kBytes, ranks);
  }
}

inline bool CopiesInPieces(const BF16* x, int64_t stride, int64_t width) {
  return stride % 8 == 0 && width % 8 == 0 && reinterpret_cast<uintptr_t>(x) % 16 == 0;
}

inline Operand OperandOf(const Matrix& w) {
  if (w.packed != nullptr) return Operand::kUnits;
  return w.format == WeightFormat::kF32 ? Operand::kFloats : Operand::kHalves;
}

}  // namespace thalweg::kernels::cuda
