// Attention of few rows in one kernel: a cluster of eight blocks has the 64 heads of a row. A block
// has the products with the keys of every eighth tile; what these are at most passes to the others,
// so that each makes the probabilities of its tiles at once; all of these are gathered by every
// block, which adds up 64 channels of the values over all tiles in order. Every sum and every
// rounding is as the kernel for many rows makes it (attention_heads.cuh).
#pragma once

#include "kernels/cuda/attention_heads.cuh"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/ring.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kClusterBlocks = 8;
inline constexpr int kSliceChannels = kTileWidth / kClusterBlocks;
inline constexpr int kMostClusterTiles = 10;  // whose values fit beside the rest
inline constexpr int kTilesOfBlock = (kMostClusterTiles + kClusterBlocks - 1) / kClusterBlocks;
inline constexpr int kValueThreads = 2 * kGroupThreads;
inline constexpr int kClusterThreads = kGroupThreads + kValueThreads;
// Barriers of the block; the first is of the warpgroup that multiplies.
inline constexpr int kValuesThere = 2, kKeysThere = 3, kBringersMeet = 4;

// A tile's probabilities as the threads of a warpgroup have them, operands of steps of 16 slots,
// and each thread's part of the denominators: of halves of the tile, and of its two heads.
struct TileShares {
  uint4 steps[kTileRows / 16][kGroupThreads];
  float4 sums[kGroupThreads];
};

struct ClusterShared {
  union {
    struct {
      alignas(1024) uint8_t query[kTileBytes];
      alignas(1024) uint8_t keys[kTileBytes];
    };
    TileShares shares[kMostClusterTiles];  // once products are there
  };
  SlotTable table;
  float largest[kMostClusterTiles][kTileRows];  // logits of a tile, by heads
  // Of the cluster: all of these have come; all probabilities are there.
  alignas(8) uint64_t told;
  uint64_t shared_out;
  uint64_t ready[kMostClusterTiles];  // probabilities of a tile, here
  alignas(1024) uint8_t values[kMostClusterTiles * kChunkBytes];
};
inline int ClusterBytes(int tiles) {
  return static_cast<int>(offsetof(ClusterShared, values)) + tiles * kChunkBytes + 1024;
}

// Sixty-four channels of every slot's row, 128 bytes a slot.
struct SliceDecoder {
  static constexpr int kEach = 4;  // loads under way
  const SlotTable& table;
  int slice;
  uint32_t values;  // address

  __device__ uint32_t Address(int slot, int piece) const {
    return values + static_cast<uint32_t>(slot * 128 + (piece ^ slot % 8) * kTilePiece);
  }

  // Packed e2m1 rows of slots [begin, end): pieces of 16 bytes, two a row.
  __device__ void Fp4(int begin, int end, int thread) const {
#pragma unroll 1
    for (int first = begin * 2; first < end * 2; first += kEach * kValueThreads) {
      uint4 codes[kEach];
      uint32_t scales[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int unit = first + i * kValueThreads + thread, half = unit / 8 % 2;
        const int slot = unit / 16 * 8 + unit % 8;
        const uint8_t* row = unit < end * 2 ? table.rows[slot] : nullptr;
        codes[i] = {};
        scales[i] = 0;
        if (row == nullptr) continue;
        codes[i] = __ldg(reinterpret_cast<const uint4*>(row) + slice * 2 + half);
        scales[i] =
            __ldg(reinterpret_cast<const uint16_t*>(row + kTileWidth / 2 + slice * 4 + half * 2));
      }
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int unit = first + i * kValueThreads + thread, half = unit / 8 % 2;
        if (unit >= end * 2) continue;
        const uint32_t mine = Address(unit / 16 * 8 + unit % 8, half * 4);
        const uint32_t factors = Fp4Factors(scales[i]);
        const uint32_t low = __byte_perm(factors, 0, 0x1010);
        const uint32_t high = __byte_perm(factors, 0, 0x3232);
        StorePiece(mine, TileFp4(codes[i].x, low));
        StorePiece(mine ^ kTilePiece, TileFp4(codes[i].y, low));
        StorePiece(mine ^ 2 * kTilePiece, TileFp4(codes[i].z, high));
        StorePiece(mine ^ 3 * kTilePiece, TileFp4(codes[i].w, high));
      }
    }
  }

  // The e4m3 rows of slots [0, end): four pieces of 16 bytes a row.
  __device__ void Fp8(int end, int thread) const {
#pragma unroll 2
    for (int unit = thread; unit < end * 4; unit += kValueThreads) {
      const int slot = unit / 32 * 8 + unit % 8, quarter = unit / 8 % 4;
      const uint8_t* row = table.rows[slot];
      uint4 codes = {};
      uint8_t scale = 0;
      if (row != nullptr) {
        codes = __ldg(reinterpret_cast<const uint4*>(row) + slice * 4 + quarter);
        scale = row[kTileWidth + slice * 2 + quarter / 2];
      }
      const uint32_t factors = Fp8Factors(scale), mine = Address(slot, quarter * 2);
      StorePiece(mine, TileFp8(codes.x, codes.y, factors));
      StorePiece(mine ^ kTilePiece, TileFp8(codes.z, codes.w, factors));
    }
  }
};

#ifdef THALWEG_WGMMA

// Keys of a tile by some warps, of which each has 64 / kWarps rows: e4m3 rows of the window, or
// e2m1 ones.
template <int kWarps>
__device__ void DecodeKeys(const AttentionJob& job, ClusterShared& shared, int tile, int thread) {
  constexpr int kRows = kTileRows / kWarps;
  const DecodePlace place(thread, kRows);
  const uint32_t keys = SharedAddress(shared.keys);
  const uint8_t* const* rows = shared.table.rows + tile * kTileRows + place.first_row;
#pragma unroll 1
  for (int below = 0; below < kRows / 8; ++below) {
    const uint8_t* row = rows[8 * below];
    if (tile * kTileRows < job.p.window) {
      DecodeFp8Rows(place, row, keys, below * kEightRows);
    } else {
      Fp4Share share;
      share.Load(place, row);
      share.Store(place, keys, below * kEightRows);
    }
  }
  PublishShared();
}

// The warpgroup that multiplies. A block has one tile or two; loops over them are not unrolled, for
// what runs once or twice takes longer to come from memory than to run.
struct ClusterConsumer {
  const AttentionJob& job;
  ClusterShared& shared;
  int block, tiles;
  TileShares* shares;  // of the row's tiles, where all blocks find them
  int thread = static_cast<int>(threadIdx.x);
  int lane = thread % kWarp, warp = thread / kWarp, head = warp * 16 + lane / 4;

  // Logits of a tile, by halves of its slots; the largest go to every block.
  __device__ void Multiply(int tile, float (&s)[2][kHalfSums]) const {
    if (tile == block) {
      Meet(kKeysThere, kClusterThreads);
    } else {
      DecodeKeys<kGroupThreads / kWarp>(job, shared, tile, thread);
      Meet(1, kGroupThreads);
    }
    auto& products = reinterpret_cast<float(&)[2 * kHalfSums]>(s);
    MultiplyTile(products, KeysDescriptor(shared.query), KeysDescriptor(shared.keys));
    WaitProducts<0>();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      HeadSoftmax::Scale(s[half], shared.table.used[2 * tile + half],
                         job.p.scale * kInverseTileScale);
    }
    Meet(1, kGroupThreads);  // the keys have been read
  }

  __device__ void TellLargest(int tile, const float (&s)[2][kHalfSums]) const {
    constexpr int kEach = kClusterBlocks / 4;  // blocks that a lane of a quad tells
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float top = fmaxf(HeadSoftmax::Largest(s[0], h), HeadSoftmax::Largest(s[1], h));
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int to = lane % 4 * kEach + i;
        SendRemote(PlaceIn(to, &shared.largest[tile][head + 8 * h]), top,
                   PlaceIn(to, &shared.told));
      }
    }
  }

  __device__ int Next(int tile) const {
#pragma unroll 1
    while (tile < tiles && !shared.table.Used(tile)) ++tile;
    return tile;
  }
  __device__ void Raise(int tile, HeadSoftmax* softmax) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) softmax->Raise(h, shared.largest[tile][head + 8 * h]);
  }

  // Probabilities of a tile of the block's to where all find them, and to their place here.
  __device__ void Share(int tile, float (&s)[2][kHalfSums]) const {
    HeadSoftmax softmax;
#pragma unroll 1
    for (int t = Next(0); t <= tile; t = Next(t + 1)) Raise(t, &softmax);
    uint32_t shares_made[kTileRows / 4];
    float sums[2][2] = {};
    softmax.Absorb(s[0], sums[0], shares_made);
    softmax.Absorb(s[1], sums[1], shares_made + kTileRows / 8);
    const float4 own = {sums[0][0], sums[0][1], sums[1][0], sums[1][1]};
#pragma unroll
    for (int k = 0; k < kTileRows / 16; ++k) {
      const uint4 step = {shares_made[4 * k], shares_made[4 * k + 1], shares_made[4 * k + 2],
                          shares_made[4 * k + 3]};
      shared.shares[tile].steps[k][thread] = step;
      shares[tile].steps[k][thread] = step;
    }
    shared.shares[tile].sums[thread] = own;
    shares[tile].sums[thread] = own;
  }

  // The block's channels over all tiles. Values are there.
  __device__ void AddValues() const {
    HeadSoftmax softmax;
    float denominator[2][2] = {}, sums[kSliceChannels / 2] = {};
#pragma unroll 1
    for (int now = Next(0); now < tiles; now = Next(now + 1)) {
      if (now % kClusterBlocks != block) AwaitRemote(&shared.ready[now]);
      const TileShares& here = shared.shares[now];
      const float4 own = here.sums[thread];
      const float part[2][2] = {{own.x, own.y}, {own.z, own.w}};
      Raise(now, &softmax);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          denominator[half][h] = denominator[half][h] * softmax.correction[h] + part[half][h];
        }
      }
      Weigh(sums, softmax.correction);
      uint32_t a[kTileRows / 16][4];
#pragma unroll
      for (int k = 0; k < kTileRows / 16; ++k) {
        const uint4 step = here.steps[k][thread];
        a[k][0] = step.x;
        a[k][1] = step.y;
        a[k][2] = step.z;
        a[k][3] = step.w;
      }
      BeginProducts();
#pragma unroll
      for (int k = 0; k < kTileRows / 16; ++k) {
        ValueStep(sums, a[k], ValuesDescriptor(shared.values + now * kChunkBytes) + ValuesStep(k));
      }
      CommitProducts();
      WaitProducts<0>();
    }
    Meet(1, kGroupThreads);
    Finish(softmax, denominator, sums);
  }

  __device__ void Finish(const HeadSoftmax& softmax, const float (&denominator)[2][2],
                         const float (&sums)[kSliceChannels / 2]) const {
    const int64_t row = blockIdx.z, first_head = blockIdx.y * kTileRows + warp * 16;
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sink = job.p.sink[first_head + lane / 4 + 8 * h];
      factor[h] = softmax.Inverse(h, QuadSum(denominator[0][h]), QuadSum(denominator[1][h]), sink) *
                  kInverseTileScale;
    }
    HeadStore<kSliceChannels> store{job, row, first_head, block * kSliceChannels,
                                    shared.values + warp * 16 * kSliceChannels * 2};
    store.Store(sums, factor);
  }

  __device__ bool Has(int tile) const { return tile < tiles && shared.table.Used(tile); }

  __device__ void Run() const {
    constexpr int kSums = kTileRows / 4;
    static_assert(kTilesOfBlock == 2);
    float first[2][kHalfSums], last[2][kHalfSums];
    if (thread == 0) ExpectLargest();
    WaitCluster();  // all blocks are there
#pragma unroll 1
    for (int tile = block; tile < tiles; tile += kClusterBlocks) {
      if (!Has(tile)) continue;
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        first[0][i] = last[0][i];
        first[1][i] = last[1][i];
      }
      Multiply(tile, last);
      TellLargest(tile, last);
    }
    AwaitRemote(&shared.told);
#pragma unroll 1
    for (int tile = block; tile < tiles; tile += kClusterBlocks) {
      if (!Has(tile)) continue;
      const bool early = Has(tile + kClusterBlocks);
      float s[2][kHalfSums];
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        s[0][i] = early ? first[0][i] : last[0][i];
        s[1][i] = early ? first[1][i] : last[1][i];
      }
      Share(tile, s);
    }
    __threadfence();
    Meet(1, kGroupThreads);
    if (thread < kClusterBlocks) ArriveRemote(PlaceIn(thread, &shared.shared_out));
    ArriveCluster();
    Meet(kValuesThere, kClusterThreads);
    AddValues();
    WaitCluster();
  }

  __device__ void ExpectLargest() const {
    int used = 0;
#pragma unroll 1
    for (int tile = 0; tile < tiles; ++tile) used += shared.table.Used(tile) ? 1 : 0;
    ArriveExpecting(SharedAddress(&shared.told),
                    used * kTileRows * static_cast<int>(sizeof(float)));
  }
};

// The two warpgroups that bring keys of the first tile, values, and others' probabilities.
struct ClusterProducer {
  const AttentionJob& job;
  ClusterShared& shared;
  int block, tiles;
  const TileShares* shares;  // of the row's tiles
  int thread = static_cast<int>(threadIdx.x) - kGroupThreads;

  // By the memory that all share: from block to block 14 bytes a cycle pass, from there 64.
  __device__ void Gather() const {
    constexpr int kFlight = 3;  // tiles on their way
    constexpr int kPieces = sizeof(TileShares) / 16;
    constexpr int kEach = (kPieces + kValueThreads - 1) / kValueThreads;
#pragma unroll 1
    for (int first = 0; first < tiles; first += kFlight) {
      uint4 piece[kFlight][kEach];
#pragma unroll
      for (int j = 0; j < kFlight; ++j) {
        if (!Wanted(first + j)) continue;
        const auto* from = reinterpret_cast<const uint4*>(shares + first + j);
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
          const int at = k * kValueThreads + thread;
          if (at < kPieces) piece[j][k] = __ldcg(from + at);
        }
      }
#pragma unroll
      for (int j = 0; j < kFlight; ++j) {
        if (!Wanted(first + j)) continue;
        auto* to = reinterpret_cast<uint4*>(&shared.shares[first + j]);
#pragma unroll
        for (int k = 0; k < kEach; ++k) {
          const int at = k * kValueThreads + thread;
          if (at < kPieces) to[at] = piece[j][k];
        }
        Arrive(&shared.ready[first + j]);
      }
    }
  }
  __device__ bool Wanted(int tile) const {
    return tile < tiles && tile % kClusterBlocks != block && shared.table.Used(tile);
  }

  __device__ void Run() const {
    if (block < tiles && shared.table.Used(block)) {
      DecodeKeys<kValueThreads / kWarp>(job, shared, block, thread);
      Signal(kKeysThere, kClusterThreads);
    }
    const SliceDecoder decoder{shared.table, block, SharedAddress(shared.values)};
    const int window = static_cast<int>(job.p.window);
    decoder.Fp4(window, tiles * kTileRows, thread);
    decoder.Fp8(window, thread);
    PublishShared();
    Signal(kValuesThere, kClusterThreads);
    WaitCluster();  // all blocks are there
    AwaitRemote(&shared.told);
    AwaitRemote(&shared.shared_out);
    Meet(kBringersMeet, kValueThreads);  // what is gathered lies where others of these decoded keys
    Gather();
    ArriveCluster();
    WaitCluster();
  }
};

#endif

// Grid: blocks of a cluster, groups of heads, rows.
static __global__ void __cluster_dims__(kClusterBlocks, 1, 1) __launch_bounds__(kClusterThreads, 1)
    ClusterRowsKernel(AttentionJob job, int tiles, TileShares* scratch) {
#ifdef THALWEG_WGMMA
  auto& shared = AlignedShared<ClusterShared>();
  const int thread = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  const int64_t row = blockIdx.z;
  TileShares* shares = scratch + (row * gridDim.y + blockIdx.y) * tiles;
  if (thread == 0) {
    OpenBarrier(&shared.told, 1);
    OpenBarrier(&shared.shared_out, kClusterBlocks);
#pragma unroll 1
    for (uint64_t& ready : shared.ready) OpenBarrier(&ready, kValueThreads);
    PublishBarriers();
  }
  __syncthreads();
  ArriveCluster();
  const SlotSources sources(job, row);
  WaitForEarlier();
  if (thread < kGroupThreads) {
    FindSlots<kGroupThreads>(job, sources, row, thread, &shared.table);
  } else {
    LoadQueries<kValueThreads>(job, row, blockIdx.y * kTileRows, thread - kGroupThreads,
                               shared.query);
  }
  PublishShared();
  __syncthreads();
  if (thread < kGroupThreads) {
    ClusterConsumer{job, shared, block, tiles, shares}.Run();
  } else {
    ClusterProducer{job, shared, block, tiles, shares}.Run();
  }
#endif
}

// Whether the call's tiles fit.
inline bool ClusterTakes(const AttentionJob& job) {
  const int64_t topk = job.p.selected_rows != nullptr ? job.p.topk : 0;
  return (job.p.window + topk) / kTileRows <= kMostClusterTiles;
}

inline void LaunchClusterRows(const AttentionJob& job, Queue* queue) {
  const int64_t topk = job.p.selected_rows != nullptr ? job.p.topk : 0;
  const int tiles = static_cast<int>((job.p.window + topk) / kTileRows);
  const int64_t made = job.p.rows * (job.p.heads / kTileRows) * tiles;
  auto* scratch =
      static_cast<TileShares*>(queue->Scratch(made * static_cast<int64_t>(sizeof(TileShares))));
  if (scratch == nullptr) return;
  AllowShared(queue, ClusterRowsKernel, ClusterBytes(kMostClusterTiles));
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1] = MostShared();
  const cudaLaunchConfig_t config = {
      .gridDim = dim3(kClusterBlocks, Count(job.p.heads / kTileRows), Count(job.p.rows)),
      .blockDim = dim3(kClusterThreads),
      .dynamicSmemBytes = static_cast<size_t>(ClusterBytes(tiles)),
      .stream = queue->stream(),
      .attrs = attributes,
      .numAttrs = 2};
  queue->Note(cudaLaunchKernelEx(&config, ClusterRowsKernel, job, tiles, scratch));
}

}  // namespace thalweg::kernels::cuda
