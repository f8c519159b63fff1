// Index scores and selection at the released shape: 32 heads of 128 channels, e2m1 keys. A warp has
// sixteen keys at a time; what it reads comes by bulk copies, several ahead, and goes from codes to
// operands of the matrix instruction within registers. A lane's channels of a key are whichever its
// words hold; queries are laid out the same way.
//
// Keys count times 2^-32 and head weights times 2^32: an e2m1 group's scale and what turns its
// codes' bits into their values are one factor (exact for scales up to 2^33).
#pragma once

#include "kernels/cuda/attention_tile.cuh"
#include "kernels/cuda/chunk_top.cuh"
#include "kernels/cuda/index_job.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kFastHeads = 32, kFastWidth = 128;
inline constexpr int kFastRowBytes = kFastWidth / 2 + kFastWidth / 32;
inline constexpr int kFastKeys = 16;  // of a warp at a time: two runs of eight
inline constexpr int kRunKeys = 8;    // side by side in memory
inline constexpr int kRunBytes = kRunKeys * kFastRowBytes;
inline constexpr int kFastStages = 4;  // copies under way
inline constexpr int kFastWarps = 8;
inline constexpr int kFastTileRows = 8;  // that share decoded keys
inline constexpr float kFastWeightScale = 0x1p32f;

// Copies of a block of bytes that a barrier counts.
__device__ inline void ExpectBytes(uint64_t* barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
}
__device__ inline void CopyBulk(void* to, const void* from, int bytes, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
}

// The best code of each of four runs, whose keys are in lanes lane % 4 + 4 i, to `best` (of the run
// of the lane's entry). All lanes of the warp come.
__device__ inline void StoreBest(uint32_t code, bool there, uint16_t* best) {
#pragma unroll
  for (int step = 4; step < kWarp; step *= 2) {
    code = max(code, __shfl_xor_sync(kAllLanes, code, step));
  }
  if (there && threadIdx.x % kWarp < 4) *best = static_cast<uint16_t>(code);
}

// Where entry i lies, by blocks of kRunKeys.
__device__ inline int RunPosition(const Entries& entries, int i) {
  return entries.blocks == nullptr ? i : entries.blocks[i / kRunKeys] * kRunKeys + i % kRunKeys;
}

// A warp's keys on their way, sixteen at a time, a unit: entries first, first + stride, ... of
// `count`.
struct KeyStream {
  struct Stage {
    alignas(16) uint8_t keys[2 * kRunBytes];
  };
  struct Shared {
    Stage stages[kFastStages];
    alignas(8) uint64_t full[kFastStages];
    int32_t position[kFastStages][2];  // of the runs' first entries
  };

  Shared& shared;
  const PagedRows& rows;
  const Entries& entries;
  int first, stride, count;  // entries: of the warp's first keys, between units; all
  int units;
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint8_t* place[2] = {};  // of the unit that the lane will ask for
  int position[2] = {};

  __device__ void Open() {
    if (lane < kFastStages) OpenBarrier(&shared.full[lane], 1);
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    __syncwarp();
#pragma unroll 1
    for (int i = 0; i < kFastStages; ++i) Ask(i);
  }

  __device__ void Look(int unit) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int entry = first + unit * stride + h * kRunKeys;
      const bool there = unit < units && entry < count;
      position[h] = there ? RunPosition(entries, entry) : -1;
      place[h] = there ? RowAt(rows, position[h]) : nullptr;
    }
  }

  __device__ void Ask(int unit) {
    if (unit % kWarp == 0) Look(unit + lane);
    if (unit < units && unit % kWarp == lane) {
      const int stage = unit % kFastStages;
      uint64_t* full = &shared.full[stage];
      ExpectBytes(full,
                  (place[0] != nullptr ? kRunBytes : 0) + (place[1] != nullptr ? kRunBytes : 0));
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        shared.position[stage][h] = position[h];
        if (place[h] == nullptr) continue;
        CopyBulk(shared.stages[stage].keys + h * kRunBytes, place[h], kRunBytes, full);
      }
    }
    __syncwarp();
  }

  __device__ void Wait(int unit) {
    Await(&shared.full[unit % kFastStages], static_cast<uint32_t>(unit / kFastStages) & 1u);
  }
};

// Operands of one row's queries, in the order in which a lane multiplies: for each eight heads n
// and word i of the lane's four.
__device__ inline uint4 QueryOperand(const BF16* query, int n, int i, int lane) {
  const int pair = lane % 4, word = pair / 2 * 8 + pair % 2 + 2 * i;
  const BF16* from = query + (n * 8 + lane / 4) * kFastWidth + word * 8;
  return Reorder(*reinterpret_cast<const uint4*>(from));
}

// A pair of head weights times kFastWeightScale.
__device__ inline uint32_t WeightOperand(const BF16* weight, int n, int lane) {
  const BF16* two = weight + n * 8 + lane % 4 * 2;
  return PackPair(Wide(two[0]) * kFastWeightScale, Wide(two[1]) * kFastWeightScale);
}

// Eight e2m1 values of a word in the order of tiles. A product puts the sign and the rest of two
// codes where they belong at once: shifts would have the one unit that has all logic wait.
__device__ inline uint4 SpreadFp4(uint32_t w, uint32_t factors) {
  constexpr uint32_t kFirst = 0x000f000fu, kSecond = 0x00f000f0u, kKept = 0x81c081c0u;
  constexpr uint32_t kFirstPlaces = 1u << 12 | 1u << 6, kSecondPlaces = 1u << 8 | 1u << 2;
  const uint32_t upper = w >> 8;
  return {MultiplyPairs((w & kFirst) * kFirstPlaces & kKept, factors),
          MultiplyPairs((w & kSecond) * kSecondPlaces & kKept, factors),
          MultiplyPairs((upper & kFirst) * kFirstPlaces & kKept, factors),
          MultiplyPairs((upper & kSecond) * kSecondPlaces & kKept, factors)};
}

// Operands of sixteen keys, from the codes in shared memory.
struct KeyOperands {
  uint4 low[4], high[4];  // of keys lane / 4 and lane / 4 + 8, a word each

  // A scale as a pair of factors; beyond 2^33 they stay there.
  __device__ static uint32_t Factor(uint32_t code) {
    return min((code & 0xffu) + 94u, 254u) * 0x00800080u;
  }

  __device__ void Load(const uint8_t* keys, int lane) {
    const int pair = lane % 4;
    const auto* words = reinterpret_cast<const uint32_t*>(keys) + lane / 4 * (kFastRowBytes / 4);
    const uint32_t* mine = words + pair / 2 * 8 + pair % 2;
    constexpr int kBelow = kRunBytes / 4, kScales = kFastWidth / 8;
    const uint32_t low_scales = words[kScales] >> pair / 2 * 16;
    const uint32_t high_scales = words[kBelow + kScales] >> pair / 2 * 16;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      low[i] = SpreadFp4(mine[2 * i], Factor(low_scales >> i / 2 * 8));
      high[i] = SpreadFp4(mine[kBelow + 2 * i], Factor(high_scales >> i / 2 * 8));
    }
  }
};

// Each head's product rounded, made positive, weighted and rounded; heads are added by the matrix
// unit.
__device__ inline void AddHeads(const float (&sums)[4][4], const uint32_t (&weight)[4],
                                float (&score)[2]) {
  constexpr uint32_t kOnes = 0x3f803f80u;
  uint32_t terms[4][2];
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const __nv_bfloat162 rounded = __floats2bfloat162_rn(sums[n][2 * h], sums[n][2 * h + 1]);
      const __nv_bfloat162 active = __hmax2(rounded, __nv_bfloat162{});
      terms[n][h] = MultiplyPairs(*reinterpret_cast<const uint32_t*>(&active), weight[n]);
    }
  }
  float total[4] = {};
#pragma unroll
  for (int n = 0; n < 4; n += 2) {
    const uint32_t a[4] = {terms[n][0], terms[n][1], terms[n + 1][0], terms[n + 1][1]};
    MultiplyStep(total, a, kOnes, kOnes);
  }
  score[0] = total[0];
  score[1] = total[2];
}

// Scores of sixteen keys for one row: of keys lane / 4 and lane / 4 + 8, in every lane.
__device__ inline void ScoreKeys(const KeyOperands& keys, const uint4 (&queries)[4][4],
                                 const uint32_t (&weight)[4], float (&score)[2]) {
  float sums[4][4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4 low = keys.low[i], high = keys.high[i];
    const uint32_t first[4] = {low.x, high.x, low.y, high.y};
    const uint32_t second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const uint4 b = queries[n][i];
      MultiplyStep(sums[n], first, b.x, b.y);
      MultiplyStep(sums[n], second, b.z, b.w);
    }
  }
  AddHeads(sums, weight, score);
}

struct FastScoreShared {
  KeyStream::Shared streams[kFastWarps];
};
// Scores of one row a tile, by warps. Grid: runs of units, rows of the pass.
static __global__ void __launch_bounds__(kFastWarps* kWarp, 2) FastScoreKernel(ScoreJob job) {
  extern __shared__ __align__(128) uint8_t fast_shared[];
  auto& shared = *reinterpret_cast<FastScoreShared*>(fast_shared);
  WaitForEarlier();
  const IndexSelectParams& p = job.p;
  const int64_t row = job.first_row + blockIdx.y;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const PagedRows rows = p.keys[p.row_sequence[row]];
  const Entries entries = EntriesOf(job, row);
  const int count = static_cast<int>(entries.count), all = (count + kFastKeys - 1) / kFastKeys;
  const int first = static_cast<int>(blockIdx.x) * kFastWarps + warp;
  const int stride = static_cast<int>(gridDim.x) * kFastWarps;
  const int units = first < all ? (all - first - 1) / stride + 1 : 0;
  KeyStream stream{shared.streams[warp], rows,  entries, first * kFastKeys,
                   stride * kFastKeys,   count, units};
  stream.Open();
  uint4 operands[4][4];
  uint32_t weight[4];
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      operands[n][i] = QueryOperand(p.query + row * kFastHeads * kFastWidth, n, i, lane);
    }
    weight[n] = WeightOperand(p.head_weight + row * kFastHeads, n, lane);
  }
  uint16_t* codes = job.codes + (row - job.first_row) * job.stride;
  const int run = lane % 4, in_run = lane / 4;
  const auto visible = static_cast<int>(p.visible[row]);
  const int padded = (count + kFastKeys - 1) / kFastKeys * kFastKeys;
#pragma unroll 1
  for (int unit = 0; unit < units; ++unit) {
    const int stage = unit % kFastStages;
    stream.Wait(unit);
    KeyOperands keys;
    keys.Load(stream.shared.stages[stage].keys, lane);
    const int position = (run < 2 ? stream.shared.position[stage][run] : 0) + in_run;
    __syncwarp();
    stream.Ask(unit + kFastStages);
    const int entry = stream.first + unit * stream.stride + run * kRunKeys + in_run;
    float score[2];
    ScoreKeys(keys, operands, weight, score);
    const bool there = run < 2 && entry < count && position < visible;
    const uint16_t code = there ? OrderedCode(Narrow(run == 0 ? score[0] : score[1])) : uint16_t{0};
    const bool stores = run < 2 && entry < padded;
    if (stores) codes[entry] = code;
    if (job.best != nullptr) {
      StoreBest(code, stores, job.best + ((row - job.first_row) * job.stride + entry) / kRunKeys);
    }
  }
}

// Codes of entries from `first` on of a row; whole sixteens are there.
__device__ inline ChunkCodes LoadCodes(const uint16_t* codes, int first, int64_t n) {
  static_assert(kChunkEach == kFastKeys);
  ChunkCodes out = {};
  if (first >= n) return out;
  auto* words = reinterpret_cast<uint4*>(out.words);
  words[0] = reinterpret_cast<const uint4*>(codes + first)[0];
  words[1] = reinterpret_cast<const uint4*>(codes + first)[1];
  return out;
}

// The best codes of runs from `first` on; the run of the newest entry is always in.
__device__ inline ChunkCodes LoadBest(const uint16_t* best, int first, int64_t runs) {
  ChunkCodes out = {};
  if (first + kChunkEach <= runs) {
    auto* words = reinterpret_cast<uint4*>(out.words);
    words[0] = reinterpret_cast<const uint4*>(best + first)[0];
    words[1] = reinterpret_cast<const uint4*>(best + first)[1];
  } else {
#pragma unroll
    for (int i = 0; i < kChunkEach; ++i) {
      const uint32_t code = first + i < runs ? best[first + i] : 0u;
      out.words[i / 2] |= code << 16 * (i % 2);
    }
  }
#pragma unroll
  for (int i = 0; i < kChunkEach; ++i) {
    if (first + i == runs - 1) out.words[i / 2] |= 0xffffu << 16 * (i % 2);
  }
  return out;
}

// The selection of a row, by blocks `chunk` of `chunks`. Scratch lists are [rows, chunks, count].
__device__ inline void SelectChunk(const ScoreJob& job, const Kept& kept, int chunk, int chunks,
                                   ChunkShared* shared) {
  const int64_t row = job.first_row + blockIdx.y;
  const Entries entries = EntriesOf(job, row);
  const uint16_t* codes = job.codes + blockIdx.y * job.stride;
  const int topk = static_cast<int>(job.p.topk);
  int32_t* out = job.p.selection + row * topk;
  const int64_t lists = static_cast<int64_t>(blockIdx.y) * chunks * topk;
  const Kept mine = {kept.codes + lists, kept.entries + lists, kept.done + 2 * row};
  const int64_t n = entries.count;
  // Inside candidates a thread's entries are two runs.
  const int runs = chunk * (kChunkCodes / kRunKeys) + static_cast<int>(threadIdx.x) * 2;
  int32_t run[2] = {runs, runs + 1};
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (entries.blocks != nullptr && run[h] * kRunKeys < n) run[h] = entries.blocks[run[h]];
  }
  const int64_t chosen = TopByChunks(
      n, topk, chunk, mine, shared, [&](int first) { return LoadCodes(codes, first, n); },
      [&](int, int i) { return (i < kRunKeys ? run[0] : run[1]) * kRunKeys + i % kRunKeys; }, out);
  if (chosen < 0) return;
  for (int64_t i = chosen + threadIdx.x; i < topk; i += kChunkThreads) out[i] = -1;
}

// Its candidates likewise.
__device__ inline void CandidatesChunk(const ScoreJob& job, const CandidateSets& sets,
                                       const Kept& kept, int chunk, int chunks,
                                       ChunkShared* shared) {
  const int64_t row = job.first_row + blockIdx.y, visible = job.p.visible[row];
  const int64_t blocks = (visible + kRunKeys - 1) / kRunKeys;
  if (blocks <= sets.capacity) {
    if (threadIdx.x == 0 && chunk == 0) sets.count[row] = -1;
    return;
  }
  const uint16_t* best = job.best + blockIdx.y * job.stride / kRunKeys;
  const int capacity = static_cast<int>(sets.capacity);
  int32_t* out = sets.blocks + row * sets.capacity;
  const int64_t lists = static_cast<int64_t>(blockIdx.y) * chunks * capacity;
  const Kept mine = {kept.codes + lists, kept.entries + lists, kept.done + 2 * row};
  const int64_t chosen = TopByChunks(
      blocks, capacity, chunk, mine, shared,
      [&](int first) { return LoadBest(best, first, blocks); },
      [&](int first, int i) { return first + i; }, out);
  if (chosen >= 0 && threadIdx.x == 0) sets.count[row] = chosen;
}

// Grid: chunks of the selection, then those of the candidates, if any; rows of the pass.
static __global__ void __launch_bounds__(kChunkThreads)
    FastSelectKernel(ScoreJob job, Kept selected, int chunks, CandidateSets sets, Kept candidates) {
  __shared__ ChunkShared shared;
  WaitForEarlier();
  const int chunk = static_cast<int>(blockIdx.x);
  if (chunk < chunks) return SelectChunk(job, selected, chunk, chunks, &shared);
  CandidatesChunk(job, sets, candidates, chunk - chunks, static_cast<int>(gridDim.x) - chunks,
                  &shared);
}

// Whether the call is what these kernels are made for: rows of keys lie in runs of eight that bulk
// copies can take.
inline bool FastSelects(const IndexSelectParams& p, const Queue& queue) {
  if (p.heads != kFastHeads || p.width != kFastWidth || p.topk > kChunkCodes) return false;
  if (p.query_format != RowFormat::kFp4E8M0) return false;
  if (p.restrict_to != nullptr && p.restrict_to->block_size != kRunKeys) return false;
  if (p.make_candidates != nullptr &&
      (p.make_candidates->block_size != kRunKeys || p.make_candidates->capacity > kChunkCodes)) {
    return false;
  }
  const PagedRows& keys = queue.OnHost(p.keys)[0];  // laid out like the others
  return keys.format == RowFormat::kFp4E8M0 && keys.row_bytes == kFastRowBytes &&
         keys.rows_per_block % kRunKeys == 0 && keys.block_bytes % 16 == 0 &&
         reinterpret_cast<uintptr_t>(keys.pool) % 16 == 0;
}

inline constexpr int kQueryCodeBytes = kFastHeads * kFastWidth;  // of a row
inline constexpr int kWeightWords = kFastHeads / 2;

// Queries of all rows of a call as the kernels of index_codes.cuh read them.
struct QueryCodes {
  uint8_t* codes = nullptr;     // [rows, kQueryCodeBytes]: B of the products
  uint32_t* weights = nullptr;  // [rows, kWeightWords]: pairs of bf16
};

// Scratch of a pass.
struct FastScratch {
  uint16_t *codes = nullptr, *best = nullptr;
  uint64_t* done = nullptr;  // [rows of the call] pairs of counters: of selections, of candidates
  Kept selected, candidates;
  QueryCodes queries;  // of the call
};

// Of the codes of rows with up to `longest` entries: lists of them, and of runs, begin where wide
// words may.
inline int64_t StrideOf(int64_t longest) {
  return base::RoundUp<int64_t>(std::max<int64_t>(longest, 1), kRunKeys * kRunKeys);
}

inline int64_t ChunksOf(int64_t n) {
  return std::max<int64_t>(1, base::CeilDiv<int64_t>(n, kChunkCodes));
}

// Lays scratch of `rows` rows out from `memory` on (null: counts). The bytes that it takes.
inline int64_t LayOut(const IndexSelectParams& p, int64_t rows, int64_t stride, char* memory,
                      FastScratch* out) {
  int64_t used = 0;
  const auto take = [&](int64_t bytes) {
    char* place = memory + used;
    used += base::RoundUp<int64_t>(bytes, 256);
    return place;
  };
  const auto keep = [&](int64_t n, int64_t count) {
    const int64_t kept = rows * ChunksOf(n) * count;
    return Kept{reinterpret_cast<uint16_t*>(take(kept * 2)),
                reinterpret_cast<int32_t*>(take(kept * 4))};
  };
  out->codes = reinterpret_cast<uint16_t*>(take(rows * stride * 2));
  out->selected = keep(stride, p.topk);
  const bool makes = p.make_candidates != nullptr;
  out->best = nullptr;
  if (makes) out->best = reinterpret_cast<uint16_t*>(take(rows * stride / kRunKeys * 2));
  out->candidates = keep(stride / kRunKeys, makes ? p.make_candidates->capacity : 0);
  out->done = reinterpret_cast<uint64_t*>(take(p.rows * 8));
  out->queries.codes = reinterpret_cast<uint8_t*>(take(p.rows * kQueryCodeBytes));
  out->queries.weights = reinterpret_cast<uint32_t*>(take(p.rows * kWeightWords * 4));
  out->selected.done = reinterpret_cast<unsigned*>(out->done);
  out->candidates.done = out->selected.done + 1;
  return used;
}

// Entries that a row may have scored.
inline int64_t EntriesOfRow(const ScoreJob& job) {
  return job.blocks != nullptr ? std::min(job.stride, job.capacity * kRunKeys) : job.stride;
}

inline void LaunchSelections(const ScoreJob& job, int64_t rows, const CandidateSets* sets,
                             const FastScratch& scratch, Queue* queue) {
  const int64_t chunks = ChunksOf(job.stride);
  const int64_t more = sets != nullptr ? ChunksOf(job.stride / kRunKeys) : 0;
  const dim3 grid(Count(chunks + more), Count(rows));
  LaunchEarly(queue, FastSelectKernel, grid, kChunkThreads, 0, job, scratch.selected,
              static_cast<int>(chunks), sets != nullptr ? *sets : CandidateSets{},
              scratch.candidates);
}

// Blocks have about as many units as give the device's warps their share.
inline void LaunchFastScores(const ScoreJob& job, int64_t rows, Queue* queue) {
  constexpr int64_t kResident = 132 * 2 * kFastWarps, kLeast = 4, kMost = 64;
  const int64_t units = base::CeilDiv<int64_t>(EntriesOfRow(job), kFastKeys);
  const int64_t each = std::clamp(base::CeilDiv<int64_t>(units * rows, kResident), kLeast, kMost);
  const dim3 grid(Count(base::CeilDiv<int64_t>(units, each * kFastWarps)), Count(rows));
  LaunchEarly(queue, FastScoreKernel, grid, kFastWarps * kWarp, sizeof(FastScoreShared) + 128, job);
}

}  // namespace thalweg::kernels::cuda
