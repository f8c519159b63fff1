// The best of many 16-bit codes in total order: higher codes first, equal ones by the lowest index.
// Code 0 is never chosen. A block works together; counts are integers, so nothing depends on the
// order of its threads.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kTopThreads = 1024;
inline constexpr int kBins = 256;

// A bf16 number as a code that is above another where the number is: 0 for -inf and NaN.
__device__ inline uint16_t OrderedCode(BF16 x) {
  const uint32_t bits = x.bits == 0x8000u ? 0u : x.bits;
  if ((bits & 0x7fffu) > 0x7f80u || bits == 0xff80u) return 0;
  return static_cast<uint16_t>((bits & 0x8000u) != 0 ? ~bits : bits | 0x8000u);
}

// Where the best `count` end: codes above `code` are all in, of those equal to it the first `ties`.
struct Threshold {
  uint32_t code;
  int64_t ties;
};

struct TopShared {
  unsigned histogram[kBins];
  unsigned bin;
  unsigned above;          // entries in higher bins
  unsigned found;          // whether there are more entries than asked for
  uint32_t totals[kWarp];  // of the warps
};

// Finds the bin that holds the `count`-th entry from the top; warp 0 works.
__device__ inline void FindBin(TopShared* shared, int64_t count) {
  constexpr int kEach = kBins / kWarp;
  __syncthreads();
  if (threadIdx.x == 0) shared->found = 0;
  if (threadIdx.x < kWarp) {
    __syncwarp();
    const int lane = static_cast<int>(threadIdx.x), first = lane * kEach;
    unsigned mine = 0;
    for (int i = 0; i < kEach; ++i) mine += shared->histogram[first + i];
    unsigned from_here = mine;  // entries in this lane's bins and higher ones
    for (int step = 1; step < kWarp; step *= 2) {
      const unsigned other = __shfl_down_sync(kAllLanes, from_here, step);
      if (lane + step < kWarp) from_here += other;
    }
    unsigned above = from_here - mine;
    for (int i = kEach - 1; i >= 0; --i) {
      const unsigned here = shared->histogram[first + i];
      if (above < count && above + here >= count) {
        shared->bin = static_cast<unsigned>(first + i);
        shared->above = above;
        shared->found = 1;
      }
      above += here;
    }
  }
  __syncthreads();
}

__device__ inline void ClearHistogram(TopShared* shared) {
  __syncthreads();
  if (threadIdx.x < kBins) shared->histogram[threadIdx.x] = 0;
  __syncthreads();
}

// add(code) for every code but 0, in no order.
template <typename Source, typename Add>
__device__ void ForCodes(const Source& source, int64_t n, const Add& add) {
  constexpr int kEach = 4;  // loads under way
  for (int64_t base = threadIdx.x; base < n; base += static_cast<int64_t>(blockDim.x) * kEach) {
    uint32_t code[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int64_t at = base + static_cast<int64_t>(i) * blockDim.x;
      code[i] = at < n ? source(at) : 0;
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (code[i] != 0) add(code[i]);
    }
  }
}

// source(i) is the code of entry i of n.
template <typename Source>
__device__ Threshold FindThreshold(const Source& source, int64_t n, int64_t count,
                                   TopShared* shared) {
  ClearHistogram(shared);
  ForCodes(source, n, [&](uint32_t code) { atomicAdd(&shared->histogram[code >> 8], 1u); });
  FindBin(shared, count);
  if (shared->found == 0) return {0, 0};
  const unsigned high = shared->bin;
  const int64_t above = shared->above;
  ClearHistogram(shared);
  ForCodes(source, n, [&](uint32_t code) {
    if (code >> 8 == high) atomicAdd(&shared->histogram[code & 255u], 1u);
  });
  FindBin(shared, count - above);
  return {high << 8 | shared->bin, count - above - shared->above};
}

// Counts of entries above the threshold (low half) and at it (high half), before this thread's and,
// in *whole, of the block.
__device__ inline uint32_t ScanBlock(uint32_t mine, TopShared* shared, uint32_t* whole) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  uint32_t upto = mine;
  for (int step = 1; step < kWarp; step *= 2) {
    const uint32_t other = __shfl_up_sync(kAllLanes, upto, step);
    if (lane >= step) upto += other;
  }
  __syncthreads();  // totals of the round before have been read
  if (lane == kWarp - 1) shared->totals[warp] = upto;
  __syncthreads();
  uint32_t total = lane < static_cast<int>(blockDim.x) / kWarp ? shared->totals[lane] : 0;
  uint32_t before = lane < warp ? total : 0;
  for (int step = kWarp / 2; step > 0; step /= 2) {
    total += __shfl_xor_sync(kAllLanes, total, step);
    before += __shfl_xor_sync(kAllLanes, before, step);
  }
  *whole = total;
  return before + upto - mine;
}

// emit(place, i) for the best `count` of n entries, places in ascending order of i. The number of
// them.
template <typename Source, typename Emit>
__device__ int64_t ChooseTop(const Source& source, int64_t n, int64_t count, TopShared* shared,
                             const Emit& emit) {
  constexpr int kEach = 4;
  const Threshold limit = FindThreshold(source, n, count, shared);
  int64_t above = 0, equal = 0;  // of the rounds before
  for (int64_t base = 0; base < n; base += static_cast<int64_t>(blockDim.x) * kEach) {
    const int64_t first = base + static_cast<int64_t>(threadIdx.x) * kEach;
    uint32_t code[kEach];
    uint32_t mine = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      code[i] = first + i < n ? source(first + i) : 0;
      if (code[i] > limit.code) mine += 1;
      if (code[i] != 0 && code[i] == limit.code) mine += 1u << 16;
    }
    uint32_t whole = 0;
    const uint32_t before = ScanBlock(mine, shared, &whole);
    int64_t above_here = above + (before & 0xffffu), equal_here = equal + (before >> 16);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const bool at = code[i] != 0 && code[i] == limit.code;
      if (code[i] > limit.code || (at && equal_here < limit.ties)) {
        emit(above_here + min(equal_here, limit.ties), first + i);
      }
      above_here += code[i] > limit.code ? 1 : 0;
      equal_here += at ? 1 : 0;
    }
    above += whole & 0xffffu;
    equal += whole >> 16;
  }
  return above + min(equal, limit.ties);
}

}  // namespace thalweg::kernels::cuda
