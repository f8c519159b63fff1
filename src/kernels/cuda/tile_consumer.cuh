// What warpgroups that multiply have in common (ring_kernel.cuh): the slots of the ring, one after
// another, and tiles whose sums are made for the narrowest width that holds their input rows.
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/ring_work.cuh"

namespace thalweg::kernels::cuda {

// The slots of a ring for a warp that reads them: full ones come in order and go back in order.
// Layout: kSlotBytes, and kStages of S.
template <typename S, typename Layout>
class SlotReader {
 public:
  __device__ SlotReader(uint32_t slots, RingPlace<S::kStages> place)
      : slots_(slots), next_(place), oldest_(place) {}

  // Where the next slot is, when it is full.
  __device__ uint32_t Wait() {
    WaitBarrier(next_.Full(), next_.parity);
    const uint32_t slot = slots_ + next_.slot * Layout::kSlotBytes;
    next_.Advance();
    return slot;
  }
  // The oldest slot goes back: all lanes have read it.
  __device__ void Free() {
    __syncwarp();
    if (static_cast<int>(threadIdx.x) % kWarp < kFreeingLanes) Arrive(oldest_.Empty());
    oldest_.Advance();
  }
  // The same without a branch, for wide products of a later slot may be under way.
  __device__ void FreeBehindProducts() {
    __syncwarp();
    ArriveWhere(oldest_.Empty(), static_cast<int>(threadIdx.x) % kWarp < kFreeingLanes);
    oldest_.Advance();
  }

 private:
  uint32_t slots_;
  RingPlace<S::kStages> next_, oldest_;
};

// Calls run(std::integral_constant<int, width>) for the first of the widths, which ascend, that
// holds so many columns.
template <int... kWidths, typename Run>
__device__ void ForWidthOf(int columns, std::integer_sequence<int, kWidths...>, const Run& run) {
  bool done = false;
  ((done = done || (columns <= kWidths && (run(std::integral_constant<int, kWidths>()), true))),
   ...);
}

// A shape whose tile is kWidth wide, for StoreTile.
template <typename S, int kWidth>
struct RingTile {
  static constexpr int kGroups = S::kGroups, kQuads = S::kQuads, kCols = kWidth;
};

// A thread's sums of a tile.
template <typename S, int kWidth>
struct TileSums {
  float value[S::kQuads][kWidth / 2];
};

// A warpgroup that multiplies, tile by tile: ranks of K in their order, then StoreTile. `Self` has
//   template <int kWidth> void Multiply(int units, TileSums<S, kWidth>* acc): adds the products of
//     the next units of K.
template <typename Self, typename Op, typename S>
class TileConsumer {
 public:
  __device__ TileConsumer(const Op& op, const RingWork& work, float* sums)
      : op_(op), work_(work), sums_(sums) {}

  __device__ void Run() {
    work_.ForTiles(op_, [&](const typename Op::Item& item) {
      const int columns = op_.Columns(item);
      fp4_ = op_.FormatOf(item) == WeightFormat::kFp4;
      ForWidthOf(columns, typename S::Widths(),
                 [&](auto width) { Tile<decltype(width)::value>(item); });
    });
  }

 protected:
  __device__ bool fp4() const { return fp4_; }

 private:
  template <int kWidth>
  __device__ void Tile(const typename Op::Item& item) {
    TileSums<S, kWidth> acc = {};
    if constexpr (Op::kSplits) {
      TileSums<S, kWidth> sums = {};
#pragma unroll 1
      for (int rank = work_.Rank(); rank < work_.LastRank(); ++rank) {
        Multiply<kWidth>(work_.Begin(rank + 1) - work_.Begin(rank), &acc);
        Add<kWidth>(rank == work_.Rank(), &acc, &sums);
      }
      Store<kWidth>(item, sums);
    } else {
      Multiply<kWidth>(work_.units, &acc);
      Store<kWidth>(item, acc);
    }
  }
  template <int kWidth>
  __device__ void Multiply(int units, TileSums<S, kWidth>* acc) {
    static_cast<Self*>(this)->template Multiply<kWidth>(units, acc);
  }
  // Takes the sums of a rank, and leaves zeros.
  template <int kWidth>
  __device__ static void Add(bool first, TileSums<S, kWidth>* acc, TileSums<S, kWidth>* sums) {
#pragma unroll
    for (int q = 0; q < S::kQuads; ++q) {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        float& rank = acc->value[q][i];
        sums->value[q][i] = first ? rank : sums->value[q][i] + rank;
        rank = 0;
      }
    }
  }
  template <int kWidth>
  __device__ void Store(const typename Op::Item& item, const TileSums<S, kWidth>& sums) {
    StoreTile<Op, RingTile<S, kWidth>>(op_, item, sums.value, kUnitsFactor, sums_, work_.Rank(),
                                       work_.cluster);
  }

  const Op& op_;
  const RingWork& work_;
  float* sums_;
  bool fp4_ = false;
};

}  // namespace thalweg::kernels::cuda
