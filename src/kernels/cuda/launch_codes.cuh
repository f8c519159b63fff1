// How products of codes are put on a queue.
#pragma once

#include "kernels/cuda/product_dense.cuh"
#include "kernels/cuda/product_launch.cuh"

namespace thalweg::kernels::cuda {

// The ranks of K that are blocks of a cluster, where tiles alone leave most multiprocessors idle.
// Clusters meet at the end of every tile, where a block goes on to its next: two or three rounds of
// them take as long as one of whole tiles.
template <typename Ring>
int ClusterOf(Queue* queue, int64_t tiles, int ranks) {
  static OncePerDevice once;
  const int resident =
      once.Of(queue, RingKernel<Ring>, Ring::Shape::kThreads, Ring::Layout::kBytes);
  return tiles * ranks * 2 <= 5 * resident ? ranks : 1;
}

// Runs the op on at most `tiles` tiles: weights in registers.
template <typename S, typename Op>
void LaunchCodes(Queue* queue, const Op& op, int64_t tiles, int ranks) {
  using Ring = CodesRing<Op, S>;
  LaunchRing<Ring>(queue, op, tiles, ranks, ClusterOf<Ring>(queue, tiles, ranks), true);
}

// The same with fp8 weights from shared memory.
template <typename S, typename Op>
void LaunchDense(Queue* queue, const Op& op, int64_t tiles, int ranks) {
  using Ring = DenseRing<Op, S>;
  LaunchRing<Ring>(queue, op, tiles, ranks, ClusterOf<Ring>(queue, tiles, ranks), true);
}

}  // namespace thalweg::kernels::cuda
