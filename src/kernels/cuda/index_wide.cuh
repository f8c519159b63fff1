// Scores of index keys by warpgroups: keys go from codes to registers, queries lie in shared
// memory. Each sum is made as the kernel of single warps makes it (index_fast.cuh).
#pragma once

#include "kernels/cuda/index_fast.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kWideGroups = 2, kWideWarps = 4 * kWideGroups;
inline constexpr int kWideQueryBytes = kFastHeads * kFastWidth * 2;  // of a row

// Where a piece (eight channels of the operands' order) of a head lies.
__device__ inline int WideOffset(int head, int piece) {
  return piece / 8 * (kFastHeads * 128) + head * 128 + (piece % 8 ^ head % 8) * kTilePiece;
}

// A row's queries as B, in the order in which lanes have the channels of keys.
__device__ inline void LoadWideQueries(const BF16* query, uint8_t* to) {
  constexpr int kWords = kFastWidth / 8;
  for (int at = static_cast<int>(threadIdx.x); at < kFastHeads * kWords; at += kWideWarps * kWarp) {
    const int head = at / kWords, w = at % kWords;
    const uint4 x = Reorder(reinterpret_cast<const uint4*>(query)[at]);
    const uint32_t pairs[4] = {x.x, x.y, x.z, x.w};
    const int lane = w / 8 * 2 + w % 2, i = w % 8 / 2;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      *reinterpret_cast<uint32_t*>(to + WideOffset(head, 4 * i + j) + 4 * lane) = pairs[j];
    }
  }
}

struct WideShared {
  alignas(16) KeyStream::Shared streams[kWideWarps];
  int visible[kFastTileRows];
  uint32_t weights[kFastTileRows][4][4];  // by eight heads and lanes of a quad
};
inline int WideBytes(int rows) {
  return rows * kWideQueryBytes + static_cast<int>(sizeof(WideShared)) + 1024;
}

// Grid: runs of units, tiles of rows. Queries lie in front of the rest, where the swizzle has them.
template <int kBlocks>
__global__ void __launch_bounds__(kWideWarps* kWarp, kBlocks)
    WideScoreKernel(ScoreJob job, int most) {
#ifdef THALWEG_WGMMA
  extern __shared__ uint8_t wide_dynamic[];
  auto* queries =
      reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(wide_dynamic) + 1023) / 1024 * 1024);
  auto& shared = *reinterpret_cast<WideShared*>(queries + most * kWideQueryBytes);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  WaitForEarlier();
  const IndexSelectParams& p = job.p;
  const RowTile tile = TileOf(job, blockIdx.y);
  const PagedRows rows = p.keys[p.row_sequence[tile.first]];
  Entries entries = EntriesOf(job, tile.first);
  if (entries.blocks == nullptr) {
    for (int r = 1; r < tile.count; ++r) {
      entries.count = max(entries.count, p.visible[tile.first + r]);
    }
  }
  const int count = static_cast<int>(entries.count);
  const int all = (count + kTileRows - 1) / kTileRows;
  const int group = static_cast<int>(blockIdx.x) * kWideGroups + warp / 4;
  const int stride = static_cast<int>(gridDim.x) * kWideGroups;
  const int units = group < all ? (all - group - 1) / stride + 1 : 0;
  KeyStream stream{shared.streams[warp], rows,  entries, group * kTileRows + warp % 4 * kFastKeys,
                   stride * kTileRows,   count, units};
  stream.Open();
  for (int r = 0; r < tile.count; ++r) {
    LoadWideQueries(p.query + (tile.first + r) * kFastHeads * kFastWidth,
                    queries + r * kWideQueryBytes);
  }
  if (thread < tile.count * 16) {
    const int r = thread / 16, n = thread / 4 % 4;
    shared.weights[r][n][thread % 4] =
        WeightOperand(p.head_weight + (tile.first + r) * kFastHeads, n, thread % 4);
    if (thread % 16 == 0) shared.visible[r] = static_cast<int>(p.visible[tile.first + r]);
  }
  PublishShared();
  __syncthreads();
  const uint64_t operand = KeysDescriptor(queries);
  uint16_t* codes = job.codes + (tile.first - job.first_row) * job.stride;
  const int run = lane % 4, in_run = lane / 4;
#pragma unroll 1
  for (int unit = 0; unit < units; ++unit) {
    const int stage = unit % kFastStages;
    stream.Wait(unit);
    KeyOperands keys;
    keys.Load(stream.shared.stages[stage].keys, lane);
    const int position = run < 2 ? stream.shared.position[stage][run] : 0;
    __syncwarp();
    stream.Ask(unit + kFastStages);
    const int entry = stream.first + unit * stream.stride + run * kRunKeys + in_run;
#pragma unroll 1
    for (int r = 0; r < tile.count; ++r) {
      float sums[4][4] = {};
      BeginProducts();
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint4 low = keys.low[i], high = keys.high[i];
        const uint32_t a[2][4] = {{low.x, high.x, low.y, high.y}, {low.z, high.z, low.w, high.w}};
#pragma unroll
        for (int k = 0; k < 2; ++k) {
          const int step = 2 * i + k;
          const uint64_t at = static_cast<uint64_t>(r * kWideQueryBytes +
                                                    step / 4 * (kFastHeads * 128) + step % 4 * 32);
          Wgmma(reinterpret_cast<float(&)[16]>(sums), a[k], operand + (at >> 4));
        }
      }
      CommitProducts();
      uint32_t weight[4];
#pragma unroll
      for (int n = 0; n < 4; ++n) weight[n] = shared.weights[r][n][lane % 4];
      const bool visible = position + in_run < shared.visible[r];
      WaitProducts<0>();
      float score[2];
      AddHeads(sums, weight, score);
      if (run < 2 && entry < count) {
        codes[r * job.stride + entry] = visible
                                            ? OrderedCode(Narrow(run == 0 ? score[0] : score[1]))
                                            : static_cast<uint16_t>(0);
      }
    }
  }
#endif
}

template <int kBlocks>
void LaunchWideScores(const ScoreJob& job, int64_t tiles, int64_t most_rows, Queue* queue) {
  constexpr int64_t kResident = 132 * kBlocks * kWideGroups, kLeast = 2;
  int64_t units = 0;
  const int64_t each = UnitsEach<kTileRows>(job, tiles, kResident, kLeast, &units);
  const dim3 grid(Count(base::CeilDiv<int64_t>(units, each * kWideGroups)), Count(tiles));
  const int shared = WideBytes(static_cast<int>(most_rows));
  AllowShared(queue, WideScoreKernel<kBlocks>, shared);
  LaunchEarly(queue, WideScoreKernel<kBlocks>, grid, kWideWarps * kWarp, shared, job,
              static_cast<int>(most_rows));
}

// All give the same bits. Measured on an H200: warpgroups are faster where there is little to do or
// rows share keys, warps where many rows have keys of their own.
inline void LaunchScores(const ScoreJob& job, int64_t tiles, int64_t most_rows, Queue* queue) {
  constexpr int64_t kLittle = int64_t{1} << 19;  // entries of all tiles
  const bool little = tiles * job.stride <= kLittle;
  if (!HasWarpgroups() || (most_rows == 1 && !little)) return LaunchFastScores(job, tiles, queue);
  if (most_rows == 1 || little) return LaunchWideScores<2>(job, tiles, most_rows, queue);
  LaunchWideScores<3>(job, tiles, most_rows, queue);
}

// Scores and selections of `rows` rows from job.first_row on; `p` has the lists of the host.
inline void FastSelectRows(const IndexSelectParams& p, const ScoreJob& staged, int64_t rows,
                           const FastScratch& scratch, Queue* queue) {
  ScoreJob job = staged;
  job.codes = scratch.codes;
  int64_t tile_count = rows;
  int32_t largest = 1;
  // Recordings are of any rows.
  if (p.restrict_to == nullptr && !queue->recording() && HasWarpgroups()) {
    const std::vector<RowTile> tiles = TilesOf(queue->OnHost(p.row_sequence), staged.first_row,
                                               staged.first_row + rows, kFastTileRows);
    for (const RowTile& tile : tiles) largest = std::max(largest, tile.count);
    tile_count = static_cast<int64_t>(tiles.size());
    if (largest > 1) job.tiles = queue->Stage(tiles.data(), tile_count);
  }
  LaunchScores(job, tile_count, largest, queue);
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
