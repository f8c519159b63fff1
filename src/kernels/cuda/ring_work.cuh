// Which tiles a block of a ring kernel runs, and which ranges of K.
#pragma once

#include <utility>

#include "kernels/cuda/product.cuh"

namespace thalweg::kernels::cuda {

// Tiles and ranks of a block: a cluster has one rank in each of its blocks.
struct RingWork {
  int units = 0, ranks = 1, cluster = 1;
  __device__ int Rank() const { return static_cast<int>(blockIdx.x) % cluster; }
  __device__ int LastRank() const { return cluster > 1 ? Rank() + 1 : ranks; }
  __device__ int Begin(int rank) const { return SplitBegin(units, rank, ranks); }
  // Tile number `round` of this block, at least `tiles` behind its last.
  template <typename Op>
  __device__ int64_t TileAt(const Op& op, int64_t round, int64_t tiles) const {
    const int64_t block = blockIdx.x / cluster, blocks = gridDim.x / cluster;
    if constexpr (requires { op.span.heavy; }) {
      if (op.span.heavy > 0) return op.span.InRange(round, tiles, block, blocks);
    }
    return TileOf(round, block, blocks);
  }
  template <typename Op, typename F>
  __device__ void ForTiles(const Op& op, F f) const {
    const int64_t tiles = op.Tiles();
    for (int64_t round = 0;; ++round) {
      const int64_t tile = TileAt(op, round, tiles);
      if (tile >= tiles) return;
      f(op.Locate(tile));
    }
  }
  // Calls f(first unit, units) for every slot of a tile; `most` units each.
  template <typename F>
  __device__ void ForSlots(int most, F f) const {
    for (int rank = Rank(); rank < LastRank(); ++rank) {
      const int end = Begin(rank + 1);
      for (int unit = Begin(rank); unit < end; unit += most) f(unit, min(most, end - unit));
    }
  }
  // For warps that copy: blocks of a cluster meet when they add up a tile (StoreTile), with all of
  // their threads.
  template <typename S>
  __device__ void Meet(int columns) const {
    if (cluster == 1) return;
    const int times = 2 * S::kQuads * Passes<S>(columns, typename S::Widths());
    for (int i = 0; i < times; ++i) LeaveRanks(cluster);
  }
  template <typename S, int... kWidths>
  __device__ static int Passes(int columns, std::integer_sequence<int, kWidths...>) {
    int width = 0;
    ((width = width == 0 && columns <= kWidths ? kWidths : width), ...);
    return (width + kSumColsOf<S> - 1) / kSumColsOf<S>;
  }
};

}  // namespace thalweg::kernels::cuda
