// Sorts the slots of a call by expert. Where a slot comes within its expert's list may differ from
// run to run: it says which column of a tile a row is, and no bit of a row depends on that.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/experts.h"

namespace thalweg::kernels::cuda {

inline constexpr int kMostExperts = 2047;

// Sums before each thread of kThreads, and of all in *total.
template <int kThreads>
__device__ inline int SumBefore(int mine, int* total) {
  __shared__ int warps[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp,
            warp = static_cast<int>(threadIdx.x) / kWarp;
  int sum = mine;
  for (int step = 1; step < kWarp; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, sum, step);
    if (lane >= step) sum += other;
  }
  __syncthreads();  // the call before has been read
  if (lane == kWarp - 1) warps[warp] = sum;
  __syncthreads();
  int before = 0, all = 0;
  for (int i = 0; i < kThreads / kWarp; ++i) {
    before += i < warp ? warps[i] : 0;
    all += warps[i];
  }
  *total = all;
  return before + sum - mine;
}

__device__ inline int ExpertOf(const ExpertListJob& p, int slot) {
  return min(max(p.chosen[slot], 0), p.experts - 1);
}

// Where an expert's tiles begin.
struct ListPlace {
  int slots = 0, tiles = 0, groups = 0;
};

// As many tiles of up to `most` rows as it takes, of even width: a multiple of 8.
__device__ inline void WriteTiles(const ExpertListJob& p, int expert, int count, int most,
                                  const ListPlace& place) {
  const int tiles = (count + most - 1) / most;
  if (tiles == 0) return;
  const int step = min(most, ((count + tiles - 1) / tiles + 7) / 8 * 8);
  for (int i = 0; i < tiles; ++i) {
    const int done = i * step;
    p.lists.tiles[place.tiles + i] = {expert, place.slots + done, min(step, count - done),
                                      place.groups + done / 8};
  }
}

// Fills the lists of p, by a block of kThreads.
template <int kThreads>
__device__ inline void ListByBlock(const ExpertListJob& p) {
  __shared__ int counts[kMostExperts + 1], next[kMostExperts + 1];
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = thread; e < p.experts; e += kThreads) counts[e] = 0;
  __syncthreads();
#pragma unroll 4
  for (int s = thread; s < p.slots; s += kThreads) atomicAdd(&counts[ExpertOf(p, s)], 1);
  __syncthreads();
  if (thread == 0) WriteTiles(p, p.experts, p.rows, p.shared_rows, {p.slots, 0, 0});
  ListPlace before{0, (p.rows + p.shared_rows - 1) / p.shared_rows, (p.rows + 7) / 8};
  for (int base = 0; base < p.experts; base += kThreads) {
    const int e = base + thread;
    const int count = e < p.experts ? counts[e] : 0;
    ListPlace all;
    const ListPlace mine{
        before.slots + SumBefore<kThreads>(count, &all.slots),
        before.tiles + SumBefore<kThreads>((count + p.tile_rows - 1) / p.tile_rows, &all.tiles),
        before.groups + SumBefore<kThreads>((count + 7) / 8, &all.groups)};
    if (e < p.experts) next[e] = mine.slots;
    WriteTiles(p, e, count, p.tile_rows, mine);
    before = {before.slots + all.slots, before.tiles + all.tiles, before.groups + all.groups};
  }
  if (thread == 0) *p.lists.tiles_n = before.tiles;
  __syncthreads();
#pragma unroll 4
  for (int s = thread; s < p.slots; s += kThreads) {
    p.lists.slots[atomicAdd(&next[ExpertOf(p, s)], 1)] = s;
  }
  for (int r = thread; r < p.rows; r += kThreads) p.lists.slots[p.slots + r] = p.slots + r;
}

}  // namespace thalweg::kernels::cuda
