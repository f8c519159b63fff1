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

// The warp's keys on their way: pieces first, first + stride, ... of sixteen entries.
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
  int64_t first, stride;
  int pieces;
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint8_t* place[2] = {};  // of the piece that the lane will ask for
  int position[2] = {};

  __device__ void Open() {
    if (lane < kFastStages) OpenBarrier(&shared.full[lane], 1);
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
    __syncwarp();
    for (int i = 0; i < kFastStages; ++i) Ask(i);
  }

  // Where the next 32 pieces are, one a lane. Runs behind the last entry read the last one's page.
  __device__ void Look(int piece) {
    if (piece >= pieces) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int64_t entry = (first + piece * stride) * kFastKeys + h * kRunKeys;
      const bool there = entry < entries.count;
      position[h] = there ? static_cast<int>(entries.Position(entry)) : -1;
      place[h] = there ? RowAt(rows, position[h]) : place[0];
    }
  }

  // Asks for a piece; the lanes take turns.
  __device__ void Ask(int piece) {
    if (piece % kWarp == 0) Look(piece + lane);
    if (piece < pieces && piece % kWarp == lane) {
      const int stage = piece % kFastStages;
      uint64_t* full = &shared.full[stage];
      ExpectBytes(full, 2 * kRunBytes);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        shared.position[stage][h] = position[h];
        CopyBulk(shared.stages[stage].keys + h * kRunBytes, place[h], kRunBytes, full);
      }
    }
    __syncwarp();
  }

  __device__ void Wait(int piece) {
    Await(&shared.full[piece % kFastStages], static_cast<uint32_t>(piece / kFastStages) & 1u);
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
      low[i] = TileFp4(mine[2 * i], Factor(low_scales >> i / 2 * 8));
      high[i] = TileFp4(mine[kBelow + 2 * i], Factor(high_scales >> i / 2 * 8));
    }
  }
};

// Scores of sixteen keys for one row: each head's product is rounded, made positive, weighted and
// rounded; heads are added by the matrix unit. Rows lane / 4 and lane / 4 + 8, in every lane.
template <typename Query>
__device__ void ScoreKeys(const KeyOperands& keys, const Query& query, const uint32_t (&weight)[4],
                          float (&score)[2]) {
  float sums[4][4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4 low = keys.low[i], high = keys.high[i];
    const uint32_t first[4] = {low.x, high.x, low.y, high.y};
    const uint32_t second[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      const uint4 b = query(n, i);
      MultiplyStep(sums[n], first, b.x, b.y);
      MultiplyStep(sums[n], second, b.z, b.w);
    }
  }
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

struct FastScoreShared {
  KeyStream::Shared streams[kFastWarps];
};
inline int FastScoreBytes(int rows) {
  constexpr int kQueryBytes = kFastHeads * kFastWidth * 2;
  return static_cast<int>(sizeof(FastScoreShared)) + (rows > 1 ? rows * kQueryBytes : 0) + 128;
}

// Stores the codes of sixteen keys of a row.
__device__ inline void StoreCodes(const ScoreJob& job, int64_t row, int64_t first,
                                  const int32_t (&position)[2], const Entries& entries,
                                  const float (&score)[2], int lane) {
  const int h = lane % 4;
  if (h >= 2) return;
  const int64_t i = first + h * kRunKeys + lane / 4;
  if (i >= entries.count) return;
  const int32_t run = h == 0 ? position[0] : position[1];
  const bool visible = run + lane / 4 < job.p.visible[row];
  job.codes[(row - job.first_row) * job.stride + i] =
      visible ? OrderedCode(Narrow(h == 0 ? score[0] : score[1])) : static_cast<uint16_t>(0);
}

// Grid: runs of pieces, tiles of rows. kSingle: tiles have one row, whose queries stay in
// registers.
template <bool kSingle>
__global__ void __launch_bounds__(kFastWarps* kWarp, 2) FastScoreKernel(ScoreJob job) {
  extern __shared__ __align__(128) uint8_t fast_shared[];
  auto& shared = *reinterpret_cast<FastScoreShared*>(fast_shared);
  const auto aligned = (sizeof(FastScoreShared) + 127) / 128 * 128;
  auto* queries = reinterpret_cast<uint4*>(fast_shared + aligned);
  const IndexSelectParams& p = job.p;
  WaitForEarlier();
  const RowTile tile = TileOf(job, blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const PagedRows rows = p.keys[p.row_sequence[tile.first]];
  Entries entries = EntriesOf(job, tile.first);
  if (entries.blocks == nullptr) {
    for (int r = 1; r < tile.count; ++r) {
      entries.count = max(entries.count, p.visible[tile.first + r]);
    }
  }
  const int64_t pieces = (entries.count + kFastKeys - 1) / kFastKeys;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kFastWarps + warp;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kFastWarps;
  const int mine = first < pieces ? static_cast<int>((pieces - first - 1) / stride) + 1 : 0;
  KeyStream stream{shared.streams[warp], rows, entries, first, stride, mine};
  stream.Open();
  uint4 single[4][4];
  uint32_t single_weight[4];
  if (kSingle) {
    const BF16* query = p.query + tile.first * kFastHeads * kFastWidth;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) single[n][i] = QueryOperand(query, n, i, lane);
      single_weight[n] = WeightOperand(p.head_weight + tile.first * kFastHeads, n, lane);
    }
  } else {
    for (int at = static_cast<int>(threadIdx.x); at < tile.count * 16 * kWarp;
         at += kFastWarps * kWarp) {
      const int r = at / (16 * kWarp), ni = at / kWarp % 16;
      const BF16* query = p.query + (tile.first + r) * kFastHeads * kFastWidth;
      queries[at] = QueryOperand(query, ni / 4, ni % 4, lane);
    }
    __syncthreads();
  }
  for (int piece = 0; piece < mine; ++piece) {
    const int stage = piece % kFastStages;
    stream.Wait(piece);
    KeyOperands keys;
    keys.Load(stream.shared.stages[stage].keys, lane);
    const int32_t position[2] = {stream.shared.position[stage][0],
                                 stream.shared.position[stage][1]};
    __syncwarp();
    stream.Ask(piece + kFastStages);
    const int64_t at = (first + piece * stride) * kFastKeys;
    float score[2];
    if (kSingle) {
      ScoreKeys(
          keys, [&](int n, int i) { return single[n][i]; }, single_weight, score);
      StoreCodes(job, tile.first, at, position, entries, score, lane);
      continue;
    }
    for (int r = 0; r < tile.count; ++r) {
      const uint4* query = queries + r * 16 * kWarp + lane;
      uint32_t weight[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        weight[n] = WeightOperand(p.head_weight + (tile.first + r) * kFastHeads, n, lane);
      }
      ScoreKeys(
          keys, [&](int n, int i) { return query[(n * 4 + i) * kWarp]; }, weight, score);
      StoreCodes(job, tile.first + r, at, position, entries, score, lane);
    }
  }
}

// Codes of entries from `first` on of a row.
__device__ inline ChunkCodes LoadCodes(const uint16_t* codes, int first, int64_t n) {
  ChunkCodes out = {};
  if (first >= n) return out;
  const auto* from = reinterpret_cast<const uint4*>(codes + first);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint4 four = from[h];
    out.words[4 * h] = four.x;
    out.words[4 * h + 1] = four.y;
    out.words[4 * h + 2] = four.z;
    out.words[4 * h + 3] = four.w;
  }
  if (first + kChunkEach <= n) return out;
#pragma unroll
  for (int i = 0; i < kChunkEach; ++i) {
    if (first + i >= n) out.words[i / 2] &= i % 2 == 0 ? 0xffff0000u : 0x0000ffffu;
  }
  return out;
}

// The best code of each block of eight entries; the block of the newest entry is always in.
__device__ inline ChunkCodes LoadBlocks(const uint16_t* codes, int first, int64_t blocks,
                                        int64_t visible) {
  ChunkCodes out = {};
#pragma unroll
  for (int i = 0; i < kChunkEach; ++i) {
    const int64_t block = first + i;
    if (block >= blocks) continue;
    const uint4 eight = reinterpret_cast<const uint4*>(codes)[block];
    uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
    uint32_t best = 0;
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const uint32_t code = k % 2 == 0 ? words[k / 2] & 0xffffu : words[k / 2] >> 16;
      if (block * kRunKeys + k < visible) best = max(best, code);
    }
    if (block == blocks - 1) best = 0xffffu;
    out.words[i / 2] |= best << 16 * (i % 2);
  }
  return out;
}

// Grid: chunks, rows of the pass. Scratch lists are [rows, chunks, count].
static __global__ void __launch_bounds__(kChunkThreads) FastSelectKernel(ScoreJob job, Kept kept) {
  __shared__ ChunkShared shared;
  WaitForEarlier();
  const int64_t row = job.first_row + blockIdx.y;
  const Entries entries = EntriesOf(job, row);
  const uint16_t* codes = job.codes + blockIdx.y * job.stride;
  const int topk = static_cast<int>(job.p.topk);
  int32_t* out = job.p.selection + row * topk;
  const int64_t lists = static_cast<int64_t>(blockIdx.y) * gridDim.x * topk;
  const Kept mine = {kept.codes + lists, kept.entries + lists, kept.done + 2 * row};
  const int64_t chosen = TopByChunks(
      entries.count, topk, mine, &shared,
      [&](int first) { return LoadCodes(codes, first, entries.count); },
      [&](int place, int i) { out[place] = static_cast<int32_t>(entries.Position(i)); });
  if (chosen < 0) return;
  for (int64_t i = chosen + threadIdx.x; i < topk; i += kChunkThreads) out[i] = -1;
}

static __global__ void __launch_bounds__(kChunkThreads)
    FastCandidatesKernel(ScoreJob job, CandidateSets sets, Kept kept) {
  __shared__ ChunkShared shared;
  WaitForEarlier();
  const int64_t row = job.first_row + blockIdx.y, visible = job.p.visible[row];
  const int64_t blocks = (visible + kRunKeys - 1) / kRunKeys;
  if (blocks <= sets.capacity) {
    if (threadIdx.x == 0 && blockIdx.x == 0) sets.count[row] = -1;
    return;
  }
  const uint16_t* codes = job.codes + blockIdx.y * job.stride;
  const int capacity = static_cast<int>(sets.capacity);
  int32_t* out = sets.blocks + row * sets.capacity;
  const int64_t lists = static_cast<int64_t>(blockIdx.y) * gridDim.x * capacity;
  const Kept mine = {kept.codes + lists, kept.entries + lists, kept.done + 2 * row};
  const int64_t chosen = TopByChunks(
      blocks, capacity, mine, &shared,
      [&](int first) { return LoadBlocks(codes, first, blocks, visible); },
      [&](int place, int i) { out[place] = i; });
  if (chosen >= 0 && threadIdx.x == 0) sets.count[row] = chosen;
}

// Whether the call is what these kernels are made for: rows of keys lie in runs of eight that bulk
// copies can take.
inline bool FastSelects(const IndexSelectParams& p, const Queue& queue) {
  if (p.heads != kFastHeads || p.width != kFastWidth || p.topk > kChunkCodes) return false;
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

// Scratch of a pass.
struct FastScratch {
  uint16_t* codes = nullptr;
  uint64_t* done = nullptr;  // [rows of the call] pairs of counters: of selections, of candidates
  Kept selected, candidates;
};

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
  out->candidates = keep(stride / kRunKeys, makes ? p.make_candidates->capacity : 0);
  out->done = reinterpret_cast<uint64_t*>(take(p.rows * 8));
  out->selected.done = reinterpret_cast<unsigned*>(out->done);
  out->candidates.done = out->selected.done + 1;
  return used;
}

inline void LaunchFastScores(const ScoreJob& job, int64_t tiles, int64_t most_rows, Queue* queue) {
  constexpr int64_t kResidentWarps = 132 * 2 * kFastWarps, kLeast = 4, kMost = 64;  // pieces
  int64_t entries = job.stride;
  if (job.blocks != nullptr) entries = std::min(entries, job.capacity * kRunKeys);
  const int64_t pieces = base::CeilDiv<int64_t>(entries, kFastKeys);
  const int64_t each =
      std::clamp(base::CeilDiv<int64_t>(pieces * tiles, kResidentWarps), kLeast, kMost);
  const dim3 grid(Count(base::CeilDiv<int64_t>(pieces, each * kFastWarps)), Count(tiles));
  const int shared = FastScoreBytes(static_cast<int>(most_rows));
  const auto kernel = most_rows == 1 ? FastScoreKernel<true> : FastScoreKernel<false>;
  AllowShared(queue, kernel, shared);
  LaunchEarly(queue, kernel, grid, kFastWarps * kWarp, shared, job);
}

// Scores and selections of `rows` rows from job.first_row on; `p` has the lists of the host.
inline void FastSelectRows(const IndexSelectParams& p, const ScoreJob& staged, int64_t rows,
                           const FastScratch& scratch, Queue* queue) {
  ScoreJob job = staged;
  job.codes = scratch.codes;
  int64_t tile_count = rows;
  int32_t largest = 1;
  if (p.restrict_to == nullptr && !queue->recording()) {  // recordings are of any rows
    const std::vector<RowTile> tiles = TilesOf(queue->OnHost(p.row_sequence), staged.first_row,
                                               staged.first_row + rows, kFastTileRows);
    for (const RowTile& tile : tiles) largest = std::max(largest, tile.count);
    tile_count = static_cast<int64_t>(tiles.size());
    if (largest > 1) job.tiles = queue->Stage(tiles.data(), tile_count);
  }
  LaunchFastScores(job, tile_count, largest, queue);
  if (p.make_candidates != nullptr) {
    const dim3 grid(Count(ChunksOf(job.stride / kRunKeys)), Count(rows));
    LaunchEarly(queue, FastCandidatesKernel, grid, kChunkThreads, 0, job, *p.make_candidates,
                scratch.candidates);
  }
  const dim3 grid(Count(ChunksOf(job.stride)), Count(rows));
  LaunchEarly(queue, FastSelectKernel, grid, kChunkThreads, 0, job, scratch.selected);
}

// The call.
inline void FastSelect(const IndexSelectParams& p, Queue* queue) {
  constexpr int64_t kPassBytes = int64_t{256} << 20;
  const int64_t* visible = queue->OnHost(p.visible);
  const int64_t longest =
      p.most_visible > 0 ? p.most_visible : *std::max_element(visible, visible + p.rows);
  const int64_t stride = base::RoundUp(std::max<int64_t>(longest, 1), int64_t{kChunkEach});
  FastScratch scratch;
  const int64_t pass =
      std::clamp<int64_t>(kPassBytes / LayOut(p, 1, stride, nullptr, &scratch), 1, p.rows);
  auto* memory = static_cast<char*>(queue->Scratch(LayOut(p, pass, stride, nullptr, &scratch)));
  if (memory == nullptr) return;
  LayOut(p, pass, stride, memory, &scratch);
  PrepareQueries(p, scratch.done, queue);
  ScoreJob job = StageScores(queue, p, stride);
  for (; job.first_row < p.rows; job.first_row += pass) {
    FastSelectRows(p, job, std::min(pass, p.rows - job.first_row), scratch, queue);
  }
}

}  // namespace thalweg::kernels::cuda
