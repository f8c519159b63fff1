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
  alignas(16) uint16_t codes[kChunkCodes];
  alignas(16) unsigned high[kHighBins];
  unsigned low[kLowBins];
  unsigned bin, above, found, last;
  TopShared top;
};

// Codes of a thread, two a word.
struct ChunkCodes {
  alignas(16) uint32_t words[kChunkEach / 2];
};

// A thread's codes where it finds one by its number.
__device__ inline void KeepCodes(const ChunkCodes& codes, ChunkShared* shared) {
  auto* to = reinterpret_cast<uint4*>(shared->codes + threadIdx.x * kChunkEach);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint32_t* from = codes.words + 4 * h;
    to[h] = {from[0], from[1], from[2], from[3]};
  }
}

// Which bin of `mine` (this thread's, ascending) holds the `count`-th entry from the top.
template <int kEach>
__device__ void FindHighBin(ChunkShared* shared, const unsigned (&mine)[kEach], unsigned count) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  unsigned own = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) own += mine[i];
  unsigned from_here = own;
#pragma unroll 1
  for (int step = 1; step < kWarp; step *= 2) {
    const unsigned other = __shfl_down_sync(kAllLanes, from_here, step);
    if (lane + step < kWarp) from_here += other;
  }
  if (lane == 0) shared->top.totals[warp] = from_here;
  __syncthreads();
  unsigned above = from_here - own;
#pragma unroll 1
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
#pragma unroll 1
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

// f(code) for each of the block's codes but 0, in no order; loops stay short.
template <typename F>
__device__ void ForKept(const ChunkShared* shared, const F& f) {
  const auto* words = reinterpret_cast<const uint32_t*>(shared->codes);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kChunkCodes / 2; i += kChunkThreads) {
    const uint32_t two = words[i];
    if ((two & 0xffffu) != 0) f(two & 0xffffu);
    if (two >> 16 != 0) f(two >> 16);
  }
}

// Where the best `count` of the codes in shared memory end.
__device__ inline Threshold ChunkThreshold(unsigned count, ChunkShared* shared) {
  constexpr int kEach = kHighBins / kChunkThreads;
  __syncthreads();
  *reinterpret_cast<uint4*>(shared->high + threadIdx.x * kEach) = {};
  if (threadIdx.x < kLowBins) shared->low[threadIdx.x] = 0;
  if (threadIdx.x == 0) shared->found = 0;
  __syncthreads();
  ForKept(shared, [&](uint32_t code) { atomicAdd(&shared->high[code / kLowBins], 1u); });
  __syncthreads();
  unsigned mine[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) mine[i] = shared->high[threadIdx.x * kEach + i];
  FindHighBin(shared, mine, count);
  if (shared->found == 0) return {0, 0};
  const unsigned high = shared->bin, above = shared->above;
  ForKept(shared, [&](uint32_t code) {
    if (code / kLowBins == high) atomicAdd(&shared->low[code % kLowBins], 1u);
  });
  __syncthreads();
  FindLowBin(shared, count - above);
  const unsigned low = shared->bin, more = shared->above;
  return {high * kLowBins + low, static_cast<int64_t>(count - above - more)};
}

// Of a thread's codes those that are among the best of the block (bits by their number), the place
// of the first of them in ascending order of entries, and how many the block has.
struct Chosen {
  uint32_t bits;
  int place, total;
};

// The best `count` of the codes in shared memory. One copy of the instructions: a block comes here
// twice at most, and waits for each to be fetched.
static __device__ __noinline__ Chosen ChooseCodes(int count, ChunkShared* shared) {
  const Threshold limit = ChunkThreshold(static_cast<unsigned>(count), shared);
  const auto* words =
      reinterpret_cast<const uint32_t*>(shared->codes) + threadIdx.x * kChunkEach / 2;
  uint32_t bits = 0, equals = 0;
#pragma unroll
  for (int i = 0; i < kChunkEach; ++i) {
    const uint32_t code = i % 2 == 0 ? words[i / 2] & 0xffffu : words[i / 2] >> 16;
    bits |= code > limit.code ? 1u << i : 0u;
    equals |= code != 0 && code == limit.code ? 1u << i : 0u;
  }
  const auto mine = static_cast<uint32_t>(__popc(bits) | __popc(equals) << 16);
  uint32_t whole = 0;
  const uint32_t before = ScanBlock(mine, &shared->top, &whole);
  const int ties = static_cast<int>(limit.ties), earlier = static_cast<int>(before >> 16);
#pragma unroll 1
  for (int left = ties - earlier; left > 0 && equals != 0; --left) {
    bits |= equals & (0u - equals);
    equals &= equals - 1;
  }
  return {bits, static_cast<int>(before & 0xffffu) + min(earlier, ties),
          static_cast<int>(whole & 0xffffu) + min(static_cast<int>(whole >> 16), ties)};
}

// The best `count` of the block's codes: value(i) of each to `out`, i counting this thread's, and
// the codes to `out_codes`, if that is not null. The number of them.
template <typename Value>
__device__ int ChunkTop(const ChunkCodes& codes, int count, ChunkShared* shared, const Value& value,
                        int32_t* out, uint16_t* out_codes) {
  KeepCodes(codes, shared);
  const Chosen chosen = ChooseCodes(count, shared);
  int place = chosen.place;
#pragma unroll 1
  for (uint32_t bits = chosen.bits; bits != 0; bits &= bits - 1, ++place) {
    const int i = __ffs(static_cast<int>(bits)) - 1;
    out[place] = value(i);
    if (out_codes != nullptr) out_codes[place] = shared->codes[threadIdx.x * kChunkEach + i];
  }
  return chosen.total;
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

// What a thread of the last block has of what was kept. All of it is on its way at once.
struct KeptPiece {
  ChunkCodes codes = {};
  int32_t values[kChunkEach] = {};

  // `wide`: lists begin where wide words may.
  __device__ void Load(const Kept& kept, int first, int n, bool wide) {
    if (!wide) {
#pragma unroll
      for (int i = 0; i < kChunkEach; ++i) {
        if (first + i >= n) continue;
        codes.words[i / 2] |= static_cast<uint32_t>(__ldcg(kept.codes + first + i)) << 16 * (i % 2);
        values[i] = __ldcg(kept.entries + first + i);
      }
      return;
    }
    if (first >= n) return;
    auto* words = reinterpret_cast<uint4*>(codes.words);
    auto* four = reinterpret_cast<int4*>(values);
#pragma unroll
    for (int h = 0; h < kChunkEach / 8; ++h) {
      words[h] = __ldcg(reinterpret_cast<const uint4*>(kept.codes + first) + h);
    }
#pragma unroll
    for (int h = 0; h < kChunkEach / 4; ++h) {
      four[h] = __ldcg(reinterpret_cast<const int4*>(kept.entries + first) + h);
    }
  }
};

// The best of what chunks kept, to `out`. The number of them.
static __device__ int64_t TopOfKept(const Kept& kept, int chunks, int count, ChunkShared* shared,
                                    int32_t* out) {
  const int n = chunks * count;
  if (n > kChunkCodes) {
    return ChooseTop([&](int64_t i) -> uint32_t { return __ldcg(kept.codes + i); }, n, count,
                     &shared->top,
                     [&](int64_t place, int64_t i) { out[place] = __ldcg(kept.entries + i); });
  }
  KeptPiece piece;
  piece.Load(kept, static_cast<int>(threadIdx.x) * kChunkEach, n, count % kChunkEach == 0);
  KeepCodes(piece.codes, shared);
  const Chosen chosen = ChooseCodes(count, shared);
  int place = chosen.place;
#pragma unroll
  for (int i = 0; i < kChunkEach; ++i) {
    if ((chosen.bits >> i & 1u) != 0) out[place++] = piece.values[i];
  }
  return chosen.total;
}

// The best `count` of n entries of a row to `out`, by the blocks that have a chunk of them;
// load(first) brings the codes of kChunkEach entries from `first` on, 0 where there is none, and
// value(first, i) is what stands for one of them. The number of them in the one block that has
// stored them, else -1.
template <typename Load, typename Value>
__device__ int64_t TopByChunks(int64_t n, int count, int chunk, const Kept& kept,
                               ChunkShared* shared, const Load& load, const Value& value,
                               int32_t* out) {
  const int chunks = static_cast<int>((n + kChunkCodes - 1) / kChunkCodes);
  const int first = chunk * kChunkCodes + static_cast<int>(threadIdx.x) * kChunkEach;
  if (chunk >= max(chunks, 1)) return -1;
  const ChunkCodes codes = load(first);
  const bool alone = chunks <= 1;
  int32_t* values = alone ? out : kept.entries + chunk * count;
  uint16_t* kept_codes = alone ? nullptr : kept.codes + chunk * count;
  const int chosen = ChunkTop(
      codes, count, shared, [&](int i) { return value(first, i); }, values, kept_codes);
  if (alone) return chosen;
#pragma unroll 1
  for (int i = chosen + static_cast<int>(threadIdx.x); i < count; i += kChunkThreads) {
    kept_codes[i] = 0;
    values[i] = 0;
  }
  if (!IsLast(kept.done, chunks, shared)) return -1;
  return TopOfKept(kept, chunks, count, shared, out);
}

}  // namespace thalweg::kernels::cuda
