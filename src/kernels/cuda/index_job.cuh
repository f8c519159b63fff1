// A call of index_select as its kernels read it.
#pragma once

#include <vector>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/pages.cuh"

namespace thalweg::kernels::cuda {

// Rotates, quantises and writes back the query of each head, and scales its weight; a warp a head.
// Clears `done` [rows], if there is any.
static __global__ void PrepareKernel(IndexSelectParams p, DeviceRotation rotation, uint64_t* done) {
  constexpr int kWarps = 8;
  WaitForEarlier();
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
  if (i >= p.rows * p.heads) return;
  const int64_t row = i / p.heads, half = rotation.half;
  BF16* q = p.query + i * p.width;
  for (int64_t c = lane; c < half; c += kWarp) {
    RotatePair(q + p.width - 2 * half + 2 * c, rotation.cos[row * half + c],
               rotation.sin[row * half + c], false);
  }
  __syncwarp();
  for (int64_t base = 0; base < p.width; base += kWarp) {
    const bool active = base + lane < p.width;
    const Coded coded = QuantiseLane(p.query_format, active ? Wide(q[base + lane]) : 0.0f);
    if (active) q[base + lane] = Narrow(coded.value);
  }
  if (lane != 0) return;
  p.head_weight[i] = Narrow(Wide(p.head_weight[i]) * p.weight_scale);
  if (done != nullptr && i % p.heads == 0) done[row] = 0;
}

// By eight warps a block.
inline void PrepareQueries(const IndexSelectParams& p, uint64_t* done, Queue* queue) {
  constexpr int kWarps = 8;
  const DeviceRotation rotation = StageRotation(queue, p.rotation, p.rows);
  const int64_t blocks = base::CeilDiv<int64_t>(p.rows * p.heads, kWarps);
  LaunchEarly(queue, PrepareKernel, Count(blocks), kWarps * kWarp, 0, p, rotation, done);
}

// Neighbouring rows of one sequence.
struct RowTile {
  int32_t first, count;
};

struct ScoreJob {
  IndexSelectParams p;              // keys, row_sequence, visible on the device
  const RowTile* tiles = nullptr;   // null: each row of the pass is one
  const int32_t* blocks = nullptr;  // of candidates that are read, or null
  const int64_t* block_count = nullptr;
  int64_t capacity = 0, block_size = 0;
  uint16_t* codes = nullptr;  // [rows of the pass, stride]
  uint16_t* best = nullptr;   // of runs of eight of them, or null: [rows of the pass, stride / 8]
  int64_t stride = 0, first_row = 0;
};

__device__ inline RowTile TileOf(const ScoreJob& job, unsigned tile) {
  if (job.tiles != nullptr) return job.tiles[tile];
  return {static_cast<int32_t>(job.first_row + tile), 1};
}

// Entries that may be scored for a row, and where entry i lies in the context.
struct Entries {
  const int32_t* blocks = nullptr;
  int64_t count = 0, block_size = 1;
  __device__ int64_t Position(int64_t i) const {
    return blocks == nullptr ? i : blocks[i / block_size] * block_size + i % block_size;
  }
};

__device__ inline Entries EntriesOf(const ScoreJob& job, int64_t row) {
  const int64_t visible = job.p.visible[row];
  if (job.blocks == nullptr || job.block_count[row] < 0) return {.count = visible};
  return {job.blocks + row * job.capacity, job.block_count[row] * job.block_size, job.block_size};
}

// Rows [begin, end) in tiles of neighbours with one sequence, at most `most` each.
inline std::vector<RowTile> TilesOf(const int32_t* row_sequence, int64_t begin, int64_t end,
                                    int64_t most) {
  std::vector<RowTile> tiles;
  for (int64_t row = begin; row < end; ++row) {
    const bool joins = !tiles.empty() && tiles.back().count < most &&
                       row_sequence[row] == row_sequence[tiles.back().first];
    if (joins) {
      ++tiles.back().count;
    } else {
      tiles.push_back({static_cast<int32_t>(row), 1});
    }
  }
  return tiles;
}

// The call as kernels read it; `host` has the lists of the host.
inline ScoreJob StageScores(Queue* queue, const IndexSelectParams& host, int64_t stride) {
  ScoreJob job{.p = host, .stride = stride};
  job.p.keys =
      StagePages(queue, host.keys, SequencesOf(queue->OnHost(host.row_sequence), host.rows));
  job.p.row_sequence = queue->Stage(host.row_sequence, host.rows);
  job.p.visible = queue->Stage(host.visible, host.rows);
  if (host.restrict_to != nullptr) {
    job.blocks = host.restrict_to->blocks;
    job.block_count = host.restrict_to->count;
    job.capacity = host.restrict_to->capacity;
    job.block_size = host.restrict_to->block_size;
  }
  return job;
}

}  // namespace thalweg::kernels::cuda
