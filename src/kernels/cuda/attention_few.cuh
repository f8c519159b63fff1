// Attention of few rows, by many blocks a row, in two kernels: a block of the first has the
// products of queries with the keys of one tile, a block of the second has 64 channels of the sums,
// over all tiles in order. Each sum is made as the kernel for many rows makes it
// (attention_heads.cuh).
#pragma once

#include "kernels/cuda/attention_heads.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kSliceChannels = 64;
inline constexpr int kSlices = kTileWidth / kSliceChannels;
inline constexpr int kFewProductThreads = 3 * kGroupThreads;
inline constexpr int kFewValueThreads = 2 * kGroupThreads;

// What passes between the two kernels; a call's rows times its groups of 64 heads are its items.
struct FewScratch {
  const uint8_t** rows = nullptr;  // [rows, slots]
  float4* products = nullptr;      // [items, tiles, 8, threads of a warpgroup]
  int tiles = 0;

  __device__ float4* Products(int64_t item, int tile) const {
    return products + (item * tiles + tile) * (8 * kGroupThreads);
  }
};

struct FewProductShared {
  alignas(1024) uint8_t query[kTileBytes];
  alignas(1024) uint8_t keys[kTileBytes];
  const uint8_t* rows[kTileRows];
  int used;
};
inline constexpr int kFewProductBytes = static_cast<int>(sizeof(FewProductShared)) + 1024;

// The tile's rows, by a warpgroup: found, told to the second kernel, decoded.
__device__ inline void DecodeTile(const AttentionJob& job, const FewScratch& scratch, int64_t row,
                                  int tile, int thread, FewProductShared& shared) {
  if (thread < kTileRows) {
    const int slot = tile * kTileRows + thread;
    const uint8_t* found = FindRow(job, row, slot);
    shared.rows[thread] = found;
    scratch.rows[row * scratch.tiles * kTileRows + slot] = found;
    if (found != nullptr) shared.used = 1;
  }
  Meet(1, kGroupThreads);
  const DecodePlace place(thread, 16);
  const uint32_t keys = SharedAddress(shared.keys);
  Fp4Share share[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const uint8_t* found = shared.rows[place.first_row + 8 * h];
    if (tile * kTileRows < job.p.window) {
      DecodeFp8Rows(place, found, keys, h * kEightRows);
    } else {
      share[h].Load(place, found);
    }
  }
  if (tile * kTileRows < job.p.window) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) share[h].Store(place, keys, h * kEightRows);
}

// Grid: tiles, groups of heads, rows.
static __global__ void __launch_bounds__(kFewProductThreads, 1)
    FewProductsKernel(AttentionJob job, FewScratch scratch) {
#ifdef THALWEG_WGMMA
  auto& shared = AlignedShared<FewProductShared>();
  const int thread = static_cast<int>(threadIdx.x), tile = static_cast<int>(blockIdx.x);
  const int64_t row = blockIdx.z;
  if (thread == 0) shared.used = 0;
  WaitForEarlier();
  __syncthreads();
  if (thread < kGroupThreads) {
    DecodeTile(job, scratch, row, tile, thread, shared);
  } else {
    LoadQueries<2 * kGroupThreads>(job, row, blockIdx.y * kTileRows, thread - kGroupThreads,
                                   shared.query);
  }
  PublishShared();
  __syncthreads();
  if (thread >= kGroupThreads || shared.used == 0) return;
  float s[32];
  MultiplyTile(s, KeysDescriptor(shared.query), KeysDescriptor(shared.keys));
  WaitProducts<0>();
  float4* out = scratch.Products(row * gridDim.y + blockIdx.y, tile) + thread;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    out[i * kGroupThreads] = {s[4 * i], s[4 * i + 1], s[4 * i + 2], s[4 * i + 3]};
  }
#endif
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
    for (int first = begin * 2; first < end * 2; first += kEach * kFewValueThreads) {
      uint4 codes[kEach];
      uint32_t scales[kEach];
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const int unit = first + i * kFewValueThreads + thread, half = unit / 8 % 2;
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
        const int unit = first + i * kFewValueThreads + thread, half = unit / 8 % 2;
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
    for (int unit = thread; unit < end * 4; unit += kFewValueThreads) {
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

struct FewValueShared {
  SlotTable table;
  alignas(1024) uint8_t values[kMostTiles * kChunkBytes];
};
inline int FewValueBytes(int tiles) {
  return static_cast<int>(offsetof(FewValueShared, values)) + tiles * kChunkBytes + 1024;
}

#ifdef THALWEG_WGMMA

// A thread's products of half a tile.
__device__ inline void LoadProducts(const float4* from, float (&s)[kHalfSums]) {
#pragma unroll
  for (int i = 0; i < kHalfSums / 4; ++i) {
    const float4 four = __ldg(from + i * kGroupThreads);
    s[4 * i] = four.x;
    s[4 * i + 1] = four.y;
    s[4 * i + 2] = four.z;
    s[4 * i + 3] = four.w;
  }
}

__device__ inline void SumSlice(const AttentionJob& job, const FewScratch& scratch, int slice,
                                FewValueShared& shared) {
  constexpr int kHalf = kHalfSums / 4 * kGroupThreads;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, warp = thread / kWarp;
  const int64_t row = blockIdx.z, first_head = blockIdx.y * kTileRows + warp * 16;
  const float4* products = scratch.Products(row * gridDim.y + blockIdx.y, 0) + thread;
  const float scale = job.p.scale * kInverseTileScale;
  const SlotTable& table = shared.table;
  const auto next = [&](int tile) {
    while (tile < scratch.tiles && !table.Used(tile)) ++tile;
    return tile;
  };
  HeadSoftmax softmax;
  float denominator[2][2] = {};
  float sums[kSliceChannels / 2] = {}, coming[2][kHalfSums] = {};
  const auto load = [&](int tile) {
    if (tile >= scratch.tiles) return;
    LoadProducts(products + tile * 2 * kHalf, coming[0]);
    LoadProducts(products + tile * 2 * kHalf + kHalf, coming[1]);
  };
  int tile = next(0);
  load(tile);
  while (tile < scratch.tiles) {
    float s[2][kHalfSums];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kHalfSums; ++i) s[half][i] = coming[half][i];
    }
    const int now = tile;
    tile = next(tile + 1);
    load(tile);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      HeadSoftmax::Scale(s[half], table.used[2 * now + half], scale);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      softmax.Raise(h, fmaxf(HeadSoftmax::Largest(s[0], h), HeadSoftmax::Largest(s[1], h)));
    }
    uint32_t shares[kTileRows / 4];
    softmax.Absorb(s[0], denominator[0], shares);
    softmax.Absorb(s[1], denominator[1], shares + kTileRows / 8);
    Weigh(sums, softmax.correction);
    BeginProducts();
#pragma unroll
    for (int k = 0; k < kTileRows / 16; ++k) {
      ValueStep(sums, shares + 4 * k,
                ValuesDescriptor(shared.values + now * kChunkBytes) + ValuesStep(k));
    }
    CommitProducts();
    WaitProducts<0>();
  }
  Meet(1, kGroupThreads);  // the values have been read
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sink = job.p.sink[first_head + lane / 4 + 8 * h];
    factor[h] = softmax.Inverse(h, QuadSum(denominator[0][h]), QuadSum(denominator[1][h]), sink) *
                kInverseTileScale;
  }
  HeadStore<kSliceChannels> store{job, row, first_head, slice * kSliceChannels,
                                  shared.values + warp * 16 * kSliceChannels * 2};
  store.Store(sums, factor);
}

#endif

// Grid: slices of channels, groups of heads, rows.
static __global__ void __launch_bounds__(kFewValueThreads, 2)
    FewValuesKernel(AttentionJob job, FewScratch scratch) {
#ifdef THALWEG_WGMMA
  auto& shared = AlignedShared<FewValueShared>();
  const int thread = static_cast<int>(threadIdx.x), slice = static_cast<int>(blockIdx.x);
  const int slots = scratch.tiles * kTileRows, window = static_cast<int>(job.p.window);
  WaitForEarlier();
  const uint8_t** rows = scratch.rows + static_cast<int64_t>(blockIdx.z) * slots;
  for (int slot = thread; slot < slots; slot += kFewValueThreads) {
    shared.table.Set(slot, rows[slot]);
  }
  __syncthreads();
  const SliceDecoder decoder{shared.table, slice, SharedAddress(shared.values)};
  decoder.Fp4(window, slots, thread);
  decoder.Fp8(window, thread);
  PublishShared();
  __syncthreads();
  if (thread < kGroupThreads) SumSlice(job, scratch, slice, shared);
#endif
}

// False where no memory is left.
inline bool LaunchFewRows(const AttentionJob& job, Queue* queue) {
  const int64_t topk = job.p.selected_rows != nullptr ? job.p.topk : 0;
  const int64_t tiles = (job.p.window + topk) / kTileRows, groups = job.p.heads / kTileRows;
  const int64_t row_bytes = job.p.rows * tiles * kTileRows * static_cast<int64_t>(sizeof(void*));
  const int64_t product_bytes = job.p.rows * groups * tiles * 8 * kGroupThreads * 16;
  auto* memory = static_cast<char*>(queue->Scratch(row_bytes + product_bytes));
  if (memory == nullptr) return false;
  const FewScratch scratch = {reinterpret_cast<const uint8_t**>(memory + product_bytes),
                              reinterpret_cast<float4*>(memory), static_cast<int>(tiles)};
  AllowShared(queue, FewProductsKernel, kFewProductBytes);
  const dim3 product_grid(Count(tiles), Count(groups), Count(job.p.rows));
  LaunchEarly(queue, FewProductsKernel, product_grid, kFewProductThreads, kFewProductBytes, job,
              scratch);
  AllowShared(queue, FewValuesKernel, FewValueBytes(kMostTiles));
  const dim3 value_grid(kSlices, Count(groups), Count(job.p.rows));
  LaunchEarly(queue, FewValuesKernel, value_grid, kFewValueThreads, FewValueBytes(scratch.tiles),
              job, scratch);
  return true;
}

}  // namespace thalweg::kernels::cuda
