// How products of codes are put on a queue.
#pragma once

#include "kernels/cuda/product_dense.cuh"
#include "kernels/cuda/product_launch.cuh"

namespace thalweg::kernels::cuda {

// Blocks of a kernel over `tiles` tiles: a cluster where tiles alone leave most multiprocessors
// idle. Clusters meet at the end of every tile, where a block goes on to its next: two or three
// rounds of them take as long as one of whole tiles.
template <typename Op, typename Kernel>
void LaunchRing(Queue* queue, Kernel* kernel, OncePerDevice* once, const Op& op, int64_t tiles,
                int ranks, int threads, int bytes) {
  if (tiles == 0) return;
  const int resident = once->Of(queue, kernel, threads, bytes);
  const int cluster = tiles * ranks * 2 <= 5 * resident ? ranks : 1;
  const int64_t clusters = std::min<int64_t>(tiles, std::max(1, resident / cluster));
  LaunchOn(queue, kernel, op, clusters, {cluster, true}, threads, bytes, ranks, cluster);
}

// Runs the op on at most `tiles` tiles: weights in registers.
template <typename S, typename Op>
void LaunchCodes(Queue* queue, const Op& op, int64_t tiles, int ranks) {
  static OncePerDevice once;
  LaunchRing(queue, CodesKernel<Op, S>, &once, op, tiles, ranks, S::kThreads,
             CodesLayout<S>::kBytes);
}

// The same with fp8 weights from shared memory.
template <typename S, typename Op>
void LaunchDense(Queue* queue, const Op& op, int64_t tiles, int ranks) {
  static OncePerDevice once;
  LaunchRing(queue, DenseKernel<Op, S>, &once, op, tiles, ranks, S::kThreads,
             DenseLayout<S>::kBytes);
}

}  // namespace thalweg::kernels::cuda
