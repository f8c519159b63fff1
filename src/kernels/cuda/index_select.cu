// Index scores, top-k selection and candidate blocks (model.md 2.5). Scores are kept as ordered
// 16-bit codes, for they are rounded to bf16; rows are taken in passes, so that scores need a fixed
// amount of memory whatever the context.
#include <algorithm>
#include <vector>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/index_call.cuh"
#include "kernels/cuda/index_job.cuh"
#include "kernels/cuda/top_entries.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kScoreBytes = int64_t{256} << 20;  // of one pass
constexpr int kWarps = 8;
constexpr int kHeadTile = 32;
constexpr int kMaxWidth = 256;
constexpr int64_t kTileRows = 8;           // rows that share decoded keys
constexpr int64_t kQueryBytes = 40 << 10;  // shared memory for their queries
constexpr int kPad = 8;  // values behind each shared row: rows start in different banks
constexpr int kTermStride = kHeadTile + 1;

// Scores of a block of warps: kWidth is the width up to whole steps of the matrix instruction.
template <int kWidth>
struct Scorer {
  // Keys of a warp: as many rows of the matrix instruction as fit the registers.
  static constexpr int kTiles = kWidth <= 128 ? 2 : 1;
  static constexpr int kKeys = 16 * kTiles;
  static constexpr int kChunk = kWarps * kKeys;
  static constexpr int kRow = kWidth + kPad;
  static constexpr int kSteps = kWidth / 16;

  const IndexSelectParams& p;
  BF16* keys;      // of the warp [kKeys, kRow]; then its terms [kKeys, kTermStride]
  BF16* queries;   // [rows of the tile, heads up to whole tiles, kRow]
  float* weights;  // [rows of the tile, heads up to whole tiles]
  int64_t heads;   // up to whole tiles
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  uint32_t a[kTiles][kSteps][4];

  __device__ void LoadQueries(RowTile tile) {
    const auto pieces = static_cast<int>(heads) * kWidth / 8;
    for (int i = static_cast<int>(threadIdx.x); i < tile.count * pieces; i += kWarps * kWarp) {
      const int r = i / pieces, head = i % pieces / (kWidth / 8), c = i % (kWidth / 8) * 8;
      const bool there = head < p.heads && c < p.width;
      const BF16* from = p.query + ((tile.first + r) * p.heads + head) * p.width + c;
      *reinterpret_cast<uint4*>(queries + (r * heads + head) * kRow + c) =
          there ? *reinterpret_cast<const uint4*>(from) : uint4{};
    }
    for (int i = static_cast<int>(threadIdx.x); i < tile.count * heads; i += kWarps * kWarp) {
      const int64_t r = i / heads, head = i % heads;
      weights[i] = head < p.heads ? Wide(p.head_weight[(tile.first + r) * p.heads + head]) : 0.0f;
    }
    __syncthreads();
  }

  // Eight values of a key from c on.
  __device__ uint4 KeyPiece(const PagedRows& rows, const uint8_t* row, int c) const {
    if (row == nullptr || c >= p.width) return {};
    if (rows.format == RowFormat::kFp4E8M0) {
      uint32_t word[1];
      LoadWords<4>(row + c / 2, word);
      return DecodeWord(word[0], FromE8M0(row[p.width / 2 + c / 32]));
    }
    uint4 out;
    auto* values = reinterpret_cast<BF16*>(&out);
    for (int i = 0; i < 8; ++i) values[i] = Narrow(DecodeValue(rows.format, row, p.width, c + i));
    return out;
  }

  // The warp's keys, dequantised, into its registers; zeros where there is no entry.
  __device__ void LoadKeys(const PagedRows& rows, const Entries& entries, int64_t first,
                           int64_t visible) {
    const int64_t mine = first + lane;
    const bool there = lane < kKeys && mine < entries.count && entries.Position(mine) < visible;
    const auto place =
        there ? reinterpret_cast<unsigned long long>(RowAt(rows, entries.Position(mine))) : 0ull;
    constexpr int kPieces = kWidth / 8;
    __syncwarp();
#pragma unroll 4
    for (int i = lane; i < kKeys * kPieces; i += kWarp) {
      const int key = i / kPieces, c = i % kPieces * 8;
      const auto* row = reinterpret_cast<const uint8_t*>(__shfl_sync(kAllLanes, place, key));
      *reinterpret_cast<uint4*>(keys + key * kRow + c) = KeyPiece(rows, row, c);
    }
    __syncwarp();
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
        LoadTiles(keys + (t * 16 + lane % 16) * kRow + s * 16 + lane / 16 * 8, a[t][s]);
      }
    }
    __syncwarp();
  }

  // Products with kHeadTile heads, each rounded, weighted and rounded: terms [key, head].
  __device__ void MultiplyHeads(const BF16* query, const float* weight, float* terms) const {
    float sums[kTiles][kHeadTile / 8][4] = {};
    const BF16* tile = query + (lane / 16 * 8 + lane % 8) * kRow + lane / 8 % 2 * 8;
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
      for (int n = 0; n < kHeadTile / 8; n += 2) {
        uint32_t b[4];
        LoadTiles(tile + n * 8 * kRow + s * 16, b);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          MultiplyStep(sums[t][n], a[t][s], b[0], b[1]);
          MultiplyStep(sums[t][n + 1], a[t][s], b[2], b[3]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < kHeadTile / 8; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int head = n * 8 + lane % 4 * 2 + i % 2;
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          const float active = fmaxf(0.0f, RoundToBF16(sums[t][n][i]));
          terms[(t * 16 + lane / 4 + i / 2 * 8) * kTermStride + head] =
              RoundToBF16(active * weight[head]);
        }
      }
    }
  }

  // The score of the lane's key for row r of the tile: the sum over heads in order, not rounded.
  __device__ float Score(int r) const {
    auto* terms = reinterpret_cast<float*>(keys);
    float score = 0;
    for (int64_t first = 0; first < heads; first += kHeadTile) {
      MultiplyHeads(queries + (r * heads + first) * kRow, weights + r * heads + first, terms);
      __syncwarp();
      const int count = static_cast<int>(min(static_cast<int64_t>(kHeadTile), p.heads - first));
      if (lane < kKeys) {
        for (int h = 0; h < count; ++h) score += terms[lane * kTermStride + h];
      }
      __syncwarp();
    }
    return score;
  }
};

template <int kWidth>
__global__ void __launch_bounds__(kWarps* kWarp, 2) ScoreKernel(ScoreJob job) {
  extern __shared__ uint4 score_shared[];
  using Part = Scorer<kWidth>;
  const IndexSelectParams& p = job.p;
  const RowTile tile = TileOf(job, blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t heads = (p.heads + kHeadTile - 1) / kHeadTile * kHeadTile;
  auto* keys = reinterpret_cast<BF16*>(score_shared);
  BF16* queries = keys + Part::kChunk * Part::kRow;
  auto* weights = reinterpret_cast<float*>(queries + tile.count * heads * Part::kRow);
  Part part{p, keys + warp * Part::kKeys * Part::kRow, queries, weights, heads};
  part.LoadQueries(tile);
  const PagedRows rows = p.keys[p.row_sequence[tile.first]];
  int64_t visible = 0;
  for (int r = 0; r < tile.count; ++r) visible = max(visible, p.visible[tile.first + r]);
  // Tiles that read candidates have one row.
  Entries entries = EntriesOf(job, tile.first);
  if (entries.blocks == nullptr) entries.count = visible;
  for (int64_t first = blockIdx.x * Part::kChunk + warp * Part::kKeys; first < entries.count;
       first += static_cast<int64_t>(gridDim.x) * Part::kChunk) {
    part.LoadKeys(rows, entries, first, visible);
    const int64_t i = first + part.lane;
    const bool mine = part.lane < Part::kKeys && i < entries.count;
    const int64_t position = mine ? entries.Position(i) : visible;
    for (int r = 0; r < tile.count; ++r) {
      const BF16 score = Narrow(part.Score(r));
      if (!mine) continue;
      const int64_t row = tile.first + r;
      job.codes[(row - job.first_row) * job.stride + i] =
          position < p.visible[row] ? OrderedCode(score) : 0;
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

int64_t TileRows(const IndexSelectParams& p) {
  if (p.restrict_to != nullptr) return 1;
  const int64_t row = base::RoundUp<int64_t>(p.heads, kHeadTile) * (p.width + kPad) * 2;
  return std::clamp<int64_t>(kQueryBytes / row, 1, kTileRows);
}

template <int kWidth>
void LaunchScores(const ScoreJob& job, int64_t tiles, Queue* queue) {
  int64_t entries = job.stride;
  if (job.blocks != nullptr) entries = std::min(entries, job.capacity * job.block_size);
  const int64_t heads = TileRows(job.p) * base::RoundUp<int64_t>(job.p.heads, kHeadTile);
  const int64_t shared = (Scorer<kWidth>::kChunk + heads) * Scorer<kWidth>::kRow * 2 + heads * 4;
  AllowShared(queue, ScoreKernel<kWidth>, shared);
  const dim3 grid(Count(base::CeilDiv<int64_t>(entries, Scorer<kWidth>::kChunk)), Count(tiles));
  ScoreKernel<kWidth><<<grid, kWarps * kWarp, static_cast<size_t>(shared), queue->stream()>>>(job);
}

void SelectRows(const IndexSelectParams& p, ScoreJob job, int64_t rows, Queue* queue) {
  int64_t count = rows;
  if (!queue->recording()) {  // a recording is of any rows: each is a tile of its own
    const std::vector<RowTile> tiles =
        TilesOf(queue->OnHost(p.row_sequence), job.first_row, job.first_row + rows, TileRows(p));
    count = static_cast<int64_t>(tiles.size());
    job.tiles = queue->Stage(tiles.data(), count);
  }
  if (p.width <= 64) {
    LaunchScores<64>(job, count, queue);
  } else if (p.width <= 128) {
    LaunchScores<128>(job, count, queue);
  } else {
    LaunchScores<kMaxWidth>(job, count, queue);
  }
  if (p.make_candidates != nullptr) {
    CandidatesKernel<<<Count(rows), kTopThreads, 0, queue->stream()>>>(job, *p.make_candidates);
  }
  SelectKernel<<<Count(rows), kTopThreads, 0, queue->stream()>>>(job);
}

}  // namespace

void IndexSelect(const IndexSelectParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  if (FastSelects(p, queue)) return FastSelect(p, &queue);
  if (p.width > kMaxWidth) return queue.Note(cudaErrorNotSupported);
  PrepareQueries(p, nullptr, &queue);
  const int64_t* visible = queue.OnHost(p.visible);
  const int64_t longest =
      p.most_visible > 0 ? p.most_visible : *std::max_element(visible, visible + p.rows);
  const int64_t most = std::max<int64_t>(1, longest);
  const int64_t block = p.restrict_to != nullptr ? p.restrict_to->block_size : 1;
  ScoreJob job = StageScores(&queue, p, base::RoundUp(most, std::max<int64_t>(block, 8)));
  const int64_t pass = std::clamp<int64_t>(kScoreBytes / (job.stride * 2), 1, p.rows);
  job.codes = static_cast<uint16_t*>(queue.Scratch(pass * job.stride * 2));
  if (job.codes == nullptr) return;
  for (; job.first_row < p.rows; job.first_row += pass) {
    SelectRows(p, job, std::min(pass, p.rows - job.first_row), &queue);
  }
}

}  // namespace thalweg::kernels::cuda
