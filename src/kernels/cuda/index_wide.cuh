// Scores of index keys by warpgroups: keys go from codes to registers, queries lie in shared memory.
// Each sum is made as the kernel of single warps makes it (index_fast.cuh).
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

// The keys of a warp on their way: sixteen of each of the warpgroup's units of 64.
struct WideStream {
  KeyStream::Shared& shared;
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
      position[h] = there ? static_cast<int>(entries.Position(entry)) : -1;
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

// Each head's product rounded, made positive, weighted and rounded; heads are added by the matrix
// unit.
__device__ inline void AddHeads(const float (&sums)[16], const uint32_t (&weight)[4],
                                float (&score)[2]) {
  constexpr uint32_t kOnes = 0x3f803f80u;
  uint32_t terms[4][2];
#pragma unroll
  for (int n = 0; n < 4; ++n) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const __nv_bfloat162 rounded =
          __floats2bfloat162_rn(sums[4 * n + 2 * h], sums[4 * n + 2 * h + 1]);
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
  WideStream stream{shared.streams[warp], rows,  entries, group * kTileRows + warp % 4 * kFastKeys,
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
      float sums[16] = {};
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
          Wgmma(sums, a[k], operand + (at >> 4));
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
  constexpr int64_t kResident = 132 * kBlocks * kWideGroups, kLeast = 2, kMost = 64;  // units
  int64_t entries = job.stride;
  if (job.blocks != nullptr) entries = std::min(entries, job.capacity * kRunKeys);
  const int64_t units = base::CeilDiv<int64_t>(entries, kTileRows);
  const int64_t each = std::clamp(base::CeilDiv<int64_t>(units * tiles, kResident), kLeast, kMost);
  const dim3 grid(Count(base::CeilDiv<int64_t>(units, each * kWideGroups)), Count(tiles));
  const int shared = WideBytes(static_cast<int>(most_rows));
  AllowShared(queue, WideScoreKernel<kBlocks>, shared);
  LaunchEarly(queue, WideScoreKernel<kBlocks>, grid, kWideWarps * kWarp, shared, job,
              static_cast<int>(most_rows));
}

}  // namespace thalweg::kernels::cuda
