// The best of many 16-bit codes by many blocks of threads (order of top_entries.cuh: higher codes
// first, equal ones by the lowest index; code 0 is never chosen). A block finds the best of a chunk
// that it keeps in registers; the block that ends last chooses among what the chunks kept, which
// has the best of all in it. Which block that is makes no difference to what it finds.
#pragma once

#include "kernels/cuda/top_entries.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kChunkThreads = 512;
inline constexpr int kChunkEach = 16;  // codes of a thread, neighbours
inline constexpr int kChunkCodes = kChunkThreads * kChunkEach;

inline constexpr int kHighBins = 2048, kLowBins = 32;  // of the first 11 bits, and of the last 5

struct ChunkShared {
  unsigned high[kHighBins];
  unsigned low[kLowBins];
  unsigned bin, above, found, last;
  TopShared top;
};

// Codes of a thread, two a word.
struct ChunkCodes {
  uint32_t words[kChunkEach / 2];
  __device__ uint32_t operator[](int i) const {
    return i % 2 == 0 ? words[i / 2] & 0xffffu : words[i / 2] >> 16;
  }
};

// Which bin of `mine` (this thread's, ascending) holds the `count`-th entry from the top.
template <int kEach>
__device__ void FindHighBin(ChunkShared* shared, const unsigned (&mine)[kEach], unsigned count) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  unsigned own = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) own += mine[i];
  unsigned from_here = own;
  for (int step = 1; step < kWarp; step *= 2) {
    const unsigned other = __shfl_down_sync(kAllLanes, from_here, step);
    if (lane + step < kWarp) from_here += other;
  }
  if (lane == 0) shared->top.totals[warp] = from_here;
  __syncthreads();
  unsigned above = from_here - own;
  for (int w = warp + 1; w < kChunkThreads / kWarp; ++w) above += shared->top.totals[w];
#pragma unroll
  for (int i = kEach - 1; i >= 0; --i) {
    if (above < count && above + mine[i] >= count) {
      shared->bin = static_cast<unsigned>(threadIdx.x * kEach + i);
      shared->above = above;
      shared->found = 1;
    }
    above += mine[i];
  }
  __syncthreads();
}

__device__ inline void FindLowBin(ChunkShared* shared, unsigned count) {
  if (threadIdx.x < kWarp) {
    const int lane = static_cast<int>(threadIdx.x);
    const unsigned own = shared->low[lane];
    unsigned from_here = own;
    for (int step = 1; step < kWarp; step *= 2) {
      const unsigned other = __shfl_down_sync(kAllLanes, from_here, step);
      if (lane + step < kWarp) from_here += other;
    }
    const unsigned above = from_here - own;
    if (above < count && from_here >= count) {
      shared->bin = static_cast<unsigned>(lane);
      shared->above = above;
    }
  }
  __syncthreads();
}

// Where the best `count` of the block's codes end.
__device__ inline Threshold ChunkThreshold(const ChunkCodes& codes, unsigned count,
                                           ChunkShared* shared) {
  constexpr int kEach = kHighBins / kChunkThreads;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kHighBins; i += kChunkThreads) {
    shared->high[i] = 0;
  }
  if (threadIdx.x < kLowBins) shared->low[threadIdx.x] = 0;
  if (threadIdx.x == 0) shared->found = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kChunkEach; ++i) {
    if (codes[i] != 0) atomicAdd(&shared->high[codes[i] / kLowBins], 1u);
  }
  __syncthreads();
  unsigned mine[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) mine[i] = shared->high[threadIdx.x * kEach + i];
  FindHighBin(shared, mine, count);
  if (shared->found == 0) return {0, 0};
  const unsigned high = shared->bin, above = shared->above;
#pragma unroll
  for (int i = 0; i < kChunkEach; ++i) {
    if (codes[i] != 0 && codes[i] / kLowBins == high) {
      atomicAdd(&shared->low[codes[i] % kLowBins], 1u);
    }
  }
  __syncthreads();
  FindLowBin(shared, count - above);
  const unsigned low = shared->bin, more = shared->above;
  return {high * kLowBins + low, static_cast<int64_t>(count - above - more)};
}

// emit(place, i, code) for the best `count` of the block's codes, places in ascending order of
// entries, i counting this thread's. The number of them.
template <typename Emit>
__device__ int ChunkTop(const ChunkCodes& codes, int count, ChunkShared* shared, const Emit& emit) {
  const Threshold limit = ChunkThreshold(codes, static_cast<unsigned>(count), shared);
  uint32_t mine = 0;
#pragma unroll
  for (int i = 0; i < kChunkEach; ++i) {
    if (codes[i] > limit.code) mine += 1;
    if (codes[i] != 0 && codes[i] == limit.code) mine += 1u << 16;
  }
  uint32_t whole = 0;
  const uint32_t before = ScanBlock(mine, &shared->top, &whole);
  const int ties = static_cast<int>(limit.ties);
  int above = static_cast<int>(before & 0xffffu), equal = static_cast<int>(before >> 16);
#pragma unroll
  for (int i = 0; i < kChunkEach; ++i) {
    const bool at = codes[i] != 0 && codes[i] == limit.code;
    if (codes[i] > limit.code || (at && equal < ties)) {
      emit(above + min(equal, ties), i, codes[i]);
    }
    above += codes[i] > limit.code ? 1 : 0;
    equal += at ? 1 : 0;
  }
  return static_cast<int>(whole & 0xffffu) + min(static_cast<int>(whole >> 16), ties);
}

// What chunks of a row kept, for the block that ends last: [chunks, count] each, code 0 behind the
// last of a chunk.
struct Kept {
  uint16_t* codes = nullptr;
  int32_t* entries = nullptr;
  unsigned* done = nullptr;  // chunks of the row that are; 0 before and after
};

// True in the block that comes here last of `blocks`; what the others wrote is there for it.
__device__ inline bool IsLast(unsigned* done, int blocks, ChunkShared* shared) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned before = atomicAdd(done, 1u);
    shared->last = before == static_cast<unsigned>(blocks) - 1 ? 1 : 0;
    if (shared->last != 0) *done = 0;
  }
  __syncthreads();
  __threadfence();
  return shared->last != 0;
}

// The best of what chunks kept.
template <typename Emit>
__device__ int64_t TopOfKept(const Kept& kept, int chunks, int count, ChunkShared* shared,
                             const Emit& emit) {
  const int n = chunks * count;
  if (n > kChunkCodes) {
    return ChooseTop(
        [&](int64_t i) -> uint32_t { return __ldcg(kept.codes + i); }, n, count, &shared->top,
        [&](int64_t place, int64_t i) { emit(static_cast<int>(place), __ldcg(kept.entries + i)); });
  }
  ChunkCodes codes = {};
  const int first = static_cast<int>(threadIdx.x) * kChunkEach;
  if (count % kChunkEach == 0) {  // lists begin where wide words may
#pragma unroll
    for (int h = 0; h < 2 && first < n; ++h) {
      const uint4 four = __ldcg(reinterpret_cast<const uint4*>(kept.codes + first) + h);
      codes.words[4 * h] = four.x;
      codes.words[4 * h + 1] = four.y;
      codes.words[4 * h + 2] = four.z;
      codes.words[4 * h + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kChunkEach; ++i) {
      const uint32_t code = first + i < n ? __ldcg(kept.codes + first + i) : 0;
      codes.words[i / 2] |= code << 16 * (i % 2);
    }
  }
  return ChunkTop(codes, count, shared, [&](int place, int i, uint32_t) {
    emit(place, __ldcg(kept.entries + first + i));
  });
}

// emit(place, i) for the best `count` of n entries of a row, by all blocks of grid.x that have a
// chunk of them; load(first) brings the codes of kChunkEach entries from `first` on, 0 where there
// is none. The number of them in the one block that has emitted, else -1.
template <typename Load, typename Emit>
__device__ int64_t TopByChunks(int64_t n, int count, const Kept& kept, ChunkShared* shared,
                               const Load& load, const Emit& emit) {
  const int chunks = static_cast<int>((n + kChunkCodes - 1) / kChunkCodes);
  const int chunk = static_cast<int>(blockIdx.x);
  const int first = chunk * kChunkCodes + static_cast<int>(threadIdx.x) * kChunkEach;
  if (chunk >= max(chunks, 1)) return -1;
  const ChunkCodes codes = load(first);
  if (chunks <= 1) {
    return ChunkTop(codes, count, shared,
                    [&](int place, int i, uint32_t) { emit(place, first + i); });
  }
  uint16_t* kept_codes = kept.codes + chunk * count;
  int32_t* kept_entries = kept.entries + chunk * count;
  const int chosen = ChunkTop(codes, count, shared, [&](int place, int i, uint32_t code) {
    kept_codes[place] = static_cast<uint16_t>(code);
    kept_entries[place] = first + i;
  });
  for (int i = chosen + static_cast<int>(threadIdx.x); i < count; i += kChunkThreads) {
    kept_codes[i] = 0;
  }
  if (!IsLast(kept.done, chunks, shared)) return -1;
  return TopOfKept(kept, chunks, count, shared, emit);
}

}  // namespace thalweg::kernels::cuda
