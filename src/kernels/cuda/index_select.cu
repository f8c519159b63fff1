// Index scores, top-k selection and candidate blocks (model.md 2.5). Scores are kept as ordered
// 16-bit codes, for they are rounded to bf16; rows are taken in passes, so that scores need a fixed
// amount of memory whatever the context.
#include <algorithm>
#include <vector>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pages.cuh"
#include "kernels/cuda/top_entries.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kScoreBytes = int64_t{256} << 20;  // of one pass
constexpr int kWarps = 8;
constexpr int kWarpKeys = 16;  // rows of the matrix instruction
constexpr int kChunkKeys = kWarps * kWarpKeys;
constexpr int kHeadTile = 32;
constexpr int64_t kTileRows = 8;           // rows that share decoded keys
constexpr int64_t kQueryBytes = 96 << 10;  // shared memory for their queries
constexpr int kPad = 8;  // values behind each shared row: rows start in different banks
constexpr int kTermStride = kHeadTile + 1;

// Rotates, quantises and writes back the query of each head, and scales its weight; a warp a head.
__global__ void PrepareKernel(IndexSelectParams p, DeviceRotation rotation) {
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
  if (lane == 0) p.head_weight[i] = Narrow(Wide(p.head_weight[i]) * p.weight_scale);
}

// Neighbouring rows of one sequence.
struct RowTile {
  int32_t first, count;
};

struct ScoreJob {
  IndexSelectParams p;  // keys, row_sequence, visible on the device
  const RowTile* tiles = nullptr;
  const int32_t* blocks = nullptr;  // of candidates that are read, or null
  const int64_t* block_count = nullptr;
  int64_t capacity = 0, block_size = 0;
  uint16_t* codes = nullptr;  // [rows of the pass, stride]
  int64_t stride = 0, first_row = 0;
};

// Entries that may be scored for a row, and where entry i lies in the context.
struct Entries {
  const int32_t* blocks = nullptr;
  int64_t count = 0, block_size = 1;
  __device__ int64_t Position(int64_t i) const {
    return blocks == nullptr ? i : blocks[i / block_size] * block_size + i % block_size;
  }
};

__device__ Entries EntriesOf(const ScoreJob& job, int64_t row) {
  const int64_t visible = job.p.visible[row];
  if (job.blocks == nullptr || job.block_count[row] < 0) return {.count = visible};
  return {job.blocks + row * job.capacity, job.block_count[row] * job.block_size, job.block_size};
}

// The keys of a warp, dequantised: keys [kWarpKeys, width + kPad]; zeros where there is no entry.
__device__ void LoadKeys(const PagedRows& rows, const Entries& entries, int64_t first,
                         int64_t visible, int64_t width, BF16* keys) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int k = 0; k < kWarpKeys; ++k) {
    const int64_t position = first + k < entries.count ? entries.Position(first + k) : visible;
    BF16* out = keys + k * (width + kPad);
    if (position >= visible) {
      for (int64_t c = lane; c < width; c += kWarp) out[c] = {};
      continue;
    }
    const uint8_t* row = RowAt(rows, position);
    if (rows.format != RowFormat::kFp4E8M0) {
      for (int64_t c = lane; c < width; c += kWarp) {
        out[c] = Narrow(DecodeValue(rows.format, row, width, c));
      }
      continue;
    }
    for (int64_t b = lane; b < width / 2; b += kWarp) {
      const uint32_t pair = row[b];
      const float scale = FromE8M0(row[width / 2 + b / 16]);
      out[2 * b] = Narrow(FromE2M1(pair & 15u) * scale);
      out[2 * b + 1] = Narrow(FromE2M1(pair >> 4) * scale);
    }
  }
}

__device__ uint32_t PairAt(const BF16* x) { return *reinterpret_cast<const uint32_t*>(x); }

__device__ void MultiplyStep(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Products of kHeadTile heads with the warp's keys: sums[head group][fragment].
__device__ void MultiplyHeads(const BF16* keys, const BF16* queries, int64_t width,
                              float (&sums)[kHeadTile / 8][4]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, group = lane / 4, pair = lane % 4;
  const int64_t stride = width + kPad;
  const BF16* key = keys + group * stride + 2 * pair;
  const BF16* query = queries + group * stride + 2 * pair;
  for (int64_t k = 0; k < width; k += 16) {
    const uint32_t a[4] = {PairAt(key + k), PairAt(key + 8 * stride + k), PairAt(key + k + 8),
                           PairAt(key + 8 * stride + k + 8)};
#pragma unroll
    for (int n = 0; n < kHeadTile / 8; ++n) {
      const BF16* b = query + n * 8 * stride + k;
      MultiplyStep(sums[n], a, PairAt(b), PairAt(b + 8));
    }
  }
}

// Scores of the warp's keys for one row, in the lanes below kWarpKeys: each head's product, its
// product with the head weight, and the sum over heads in order are rounded to bf16.
__device__ float ScoreKeys(const IndexSelectParams& p, int64_t row, const BF16* keys,
                           const BF16* queries, float* terms) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, group = lane / 4, pair = lane % 4;
  float score = 0;
  for (int64_t first = 0; first < p.heads; first += kHeadTile) {
    float sums[kHeadTile / 8][4] = {};
    MultiplyHeads(keys, queries + first * (p.width + kPad), p.width, sums);
    __syncwarp();
#pragma unroll
    for (int n = 0; n < kHeadTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int head = n * 8 + 2 * pair + i % 2, key = group + i / 2 * 8;
        if (first + head >= p.heads) continue;
        const float weight = Wide(p.head_weight[row * p.heads + first + head]);
        terms[key * kTermStride + head] =
            RoundToBF16(fmaxf(0.0f, RoundToBF16(sums[n][i])) * weight);
      }
    }
    __syncwarp();
    const int heads = static_cast<int>(min(static_cast<int64_t>(kHeadTile), p.heads - first));
    for (int h = 0; lane < kWarpKeys && h < heads; ++h) score += terms[lane * kTermStride + h];
  }
  return score;
}

// The queries of a tile: [rows, heads up to whole tiles, width + kPad].
__device__ void LoadQueries(const IndexSelectParams& p, RowTile tile, int64_t heads,
                            BF16* queries) {
  const int64_t each = heads * p.width;
  for (int64_t i = threadIdx.x; i < tile.count * each; i += blockDim.x) {
    const int64_t r = i / each, head = i % each / p.width, c = i % p.width;
    queries[(r * heads + head) * (p.width + kPad) + c] =
        head < p.heads ? p.query[((tile.first + r) * p.heads + head) * p.width + c] : BF16{0};
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kWarps* kWarp) ScoreKernel(ScoreJob job) {
  extern __shared__ uint4 score_shared[];
  const IndexSelectParams& p = job.p;
  const RowTile tile = job.tiles[blockIdx.y];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t heads = (p.heads + kHeadTile - 1) / kHeadTile * kHeadTile;
  auto* keys = reinterpret_cast<BF16*>(score_shared);
  BF16* queries = keys + kChunkKeys * (p.width + kPad);
  auto* terms = reinterpret_cast<float*>(queries + tile.count * heads * (p.width + kPad));
  keys += warp * kWarpKeys * (p.width + kPad);
  terms += warp * kWarpKeys * kTermStride;
  LoadQueries(p, tile, heads, queries);
  const PagedRows rows = p.keys[p.row_sequence[tile.first]];
  // Tiles that read candidates have one row; of the others, the last row sees the most.
  const Entries entries = EntriesOf(job, tile.first + tile.count - 1);
  int64_t visible = 0;
  for (int r = 0; r < tile.count; ++r) visible = max(visible, p.visible[tile.first + r]);
  const int64_t count = entries.blocks == nullptr ? visible : entries.count;
  const Entries all = {entries.blocks, count, entries.block_size};
  for (int64_t first = blockIdx.x * kChunkKeys + warp * kWarpKeys; first < count;
       first += static_cast<int64_t>(gridDim.x) * kChunkKeys) {
    __syncwarp();
    LoadKeys(rows, all, first, visible, p.width, keys);
    __syncwarp();
    for (int r = 0; r < tile.count; ++r) {
      const int64_t row = tile.first + r;
      const float score = ScoreKeys(p, row, keys, queries + r * heads * (p.width + kPad), terms);
      const int64_t i = first + lane;
      if (lane >= kWarpKeys || i >= count) continue;
      const bool seen = all.Position(i) < p.visible[row];
      job.codes[(row - job.first_row) * job.stride + i] = seen ? OrderedCode(Narrow(score)) : 0;
    }
  }
}

__global__ void __launch_bounds__(kTopThreads) SelectKernel(ScoreJob job) {
  __shared__ TopShared shared;
  const int64_t row = job.first_row + blockIdx.x;
  const Entries entries = EntriesOf(job, row);
  const uint16_t* codes = job.codes + blockIdx.x * job.stride;
  int32_t* out = job.p.selection + row * job.p.topk;
  const int64_t chosen = ChooseTop(
      [&](int64_t i) -> uint32_t { return codes[i]; }, entries.count, job.p.topk, &shared,
      [&](int64_t place, int64_t i) { out[place] = static_cast<int32_t>(entries.Position(i)); });
  for (int64_t i = chosen + threadIdx.x; i < job.p.topk; i += blockDim.x) out[i] = -1;
}

// The best blocks by their best score; the block of the newest entry is always in.
__global__ void __launch_bounds__(kTopThreads) CandidatesKernel(ScoreJob job, CandidateSets sets) {
  __shared__ TopShared shared;
  const int64_t row = job.first_row + blockIdx.x, visible = job.p.visible[row];
  const int64_t blocks = (visible + sets.block_size - 1) / sets.block_size;
  if (blocks <= sets.capacity) {
    if (threadIdx.x == 0) sets.count[row] = -1;
    return;
  }
  const uint16_t* codes = job.codes + blockIdx.x * job.stride;
  const auto best = [&](int64_t block) -> uint32_t {
    if (block == blocks - 1) return 0xffffu;
    uint32_t code = 0;
    for (int64_t i = 0; i < sets.block_size; ++i) {
      code = max(code, static_cast<uint32_t>(codes[block * sets.block_size + i]));
    }
    return code;
  };
  int32_t* out = sets.blocks + row * sets.capacity;
  const int64_t chosen =
      ChooseTop(best, blocks, sets.capacity, &shared,
                [&](int64_t place, int64_t i) { out[place] = static_cast<int32_t>(i); });
  if (threadIdx.x == 0) sets.count[row] = chosen;
}

// Rows [begin, end) in tiles of neighbours with one sequence, at most `most` each.
std::vector<RowTile> TilesOf(const IndexSelectParams& p, int64_t begin, int64_t end, int64_t most) {
  std::vector<RowTile> tiles;
  for (int64_t row = begin; row < end; ++row) {
    const bool joins = !tiles.empty() && tiles.back().count < most &&
                       p.row_sequence[row] == p.row_sequence[tiles.back().first];
    if (joins) {
      ++tiles.back().count;
    } else {
      tiles.push_back({static_cast<int32_t>(row), 1});
    }
  }
  return tiles;
}

// The call as kernels read it; `host` has the lists of the host.
ScoreJob StageJob(Queue* queue, const IndexSelectParams& host, int64_t stride) {
  ScoreJob job{.p = host, .stride = stride};
  job.p.keys = StagePages(queue, host.keys, SequencesOf(host.row_sequence, host.rows));
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

// Shared memory of ScoreKernel for tiles of `rows` rows.
int64_t SharedBytes(const IndexSelectParams& p, int64_t rows) {
  const int64_t lines = kChunkKeys + rows * base::RoundUp<int64_t>(p.heads, kHeadTile);
  return lines * (p.width + kPad) * 2 + kWarps * kWarpKeys * kTermStride * 4;
}

int64_t TileRows(const IndexSelectParams& p) {
  if (p.restrict_to != nullptr) return 1;
  const int64_t row = base::RoundUp<int64_t>(p.heads, kHeadTile) * (p.width + kPad) * 2;
  return std::clamp<int64_t>(kQueryBytes / row, 1, kTileRows);
}

void SelectRows(const IndexSelectParams& p, ScoreJob job, int64_t rows, Queue* queue) {
  const int64_t tile_rows = TileRows(p);
  const std::vector<RowTile> tiles = TilesOf(p, job.first_row, job.first_row + rows, tile_rows);
  job.tiles = queue->Stage(tiles.data(), static_cast<int64_t>(tiles.size()));
  int64_t chunks = base::CeilDiv<int64_t>(job.stride, kChunkKeys);
  if (job.blocks != nullptr) {
    chunks = std::min(chunks, base::CeilDiv<int64_t>(job.capacity * job.block_size, kChunkKeys));
  }
  const int64_t shared = SharedBytes(p, tile_rows);
  AllowShared(queue, ScoreKernel, shared);
  const dim3 grid(Count(chunks), Count(static_cast<int64_t>(tiles.size())));
  ScoreKernel<<<grid, kWarps * kWarp, static_cast<size_t>(shared), queue->stream()>>>(job);
  if (p.make_candidates != nullptr) {
    CandidatesKernel<<<Count(rows), kTopThreads, 0, queue->stream()>>>(job, *p.make_candidates);
  }
  SelectKernel<<<Count(rows), kTopThreads, 0, queue->stream()>>>(job);
}

}  // namespace

void IndexSelect(const IndexSelectParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const int64_t heads = base::CeilDiv<int64_t>(p.rows * p.heads, kWarps);
  const DeviceRotation rotation = StageRotation(&queue, p.rotation, p.rows);
  PrepareKernel<<<Count(heads), kWarps * kWarp, 0, queue.stream()>>>(p, rotation);
  const int64_t most = std::max<int64_t>(1, *std::max_element(p.visible, p.visible + p.rows));
  const int64_t block = p.restrict_to != nullptr ? p.restrict_to->block_size : 1;
  ScoreJob job = StageJob(&queue, p, base::RoundUp(most, std::max<int64_t>(block, 8)));
  const int64_t pass = std::clamp<int64_t>(kScoreBytes / (job.stride * 2), 1, p.rows);
  job.codes = static_cast<uint16_t*>(queue.Scratch(pass * job.stride * 2));
  if (job.codes == nullptr) return;
  for (; job.first_row < p.rows; job.first_row += pass) {
    SelectRows(p, job, std::min(pass, p.rows - job.first_row), &queue);
  }
}

}  // namespace thalweg::kernels::cuda
