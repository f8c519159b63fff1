// Attention of 64 heads of a row by warpgroups: what the kernel for many rows and those for few
// share, so that a row's bits are the same in both. Sums of a head run over tiles of 64 slots in
// order: products of a tile in steps of 16 channels, its softmax, then its values in steps of 16
// slots. How the tiles or the channels are divided among blocks changes none of these orders.
#pragma once

#include "kernels/cuda/attention_job.cuh"
#include "kernels/cuda/attention_tile.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kGroupThreads = 128;  // of a warpgroup
inline constexpr int kMostSlots = 1024;
inline constexpr int kMostTiles = kMostSlots / kTileRows;
inline constexpr int kTilePieces = kTileWidth / 8;
inline constexpr int kFp4Pieces = kTileWidth / 32;  // pieces of 16 bytes of a packed row
inline constexpr int kFp8Pieces = kTileWidth / 16;

// The row of each slot of a call's row, and which there are.
struct SlotTable {
  const uint8_t* rows[kMostSlots];
  uint32_t used[kMostSlots / kWarp];

  __device__ bool Used(int tile) const { return (used[2 * tile] | used[2 * tile + 1]) != 0; }
  __device__ uint64_t Mask(int tile) const {
    return static_cast<uint64_t>(used[2 * tile + 1]) << 32 | used[2 * tile];
  }
  // A warp brings 32 neighbouring slots.
  __device__ void Set(int slot, const uint8_t* row) {
    rows[slot] = row;
    const unsigned there = __ballot_sync(kAllLanes, row != nullptr);
    if (slot % kWarp == 0) used[slot / kWarp] = there;
  }
};

// Where the rows of a call's row lie: lists of the step, which no kernel writes.
struct SlotSources {
  WindowKeys keys;
  int64_t end;
  PagedRows pages;

  __device__ SlotSources(const AttentionJob& job, int64_t row) {
    const int32_t sequence = job.p.row_sequence[row];
    keys = job.p.window_keys[sequence];
    end = job.p.window_end[row];
    if (job.p.selected_rows != nullptr) pages = job.p.selected_rows[sequence];
  }
};

// Fills the table; window and selection are whole tiles.
template <int kThreads>
__device__ void FindSlots(const AttentionJob& job, const SlotSources& sources, int64_t row,
                          int thread, SlotTable* table) {
  constexpr int kEach = 4;  // lookups under way
  const AttentionParams& p = job.p;
  const int window = static_cast<int>(p.window), topk = static_cast<int>(p.topk);
  const int slots = window + (p.selected_rows != nullptr ? topk : 0);
  const int32_t* selection = p.selection + row * p.topk;
#pragma unroll 1
  for (int slot = thread; slot < window; slot += kThreads) {
    table->Set(slot, FindWindowRow(job, sources.keys, sources.end, slot));
  }
#pragma unroll 1
  for (int first = window; first < slots; first += kEach * kThreads) {
    int32_t entry[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int slot = first + i * kThreads + thread;
      entry[i] = slot < slots ? selection[slot - window] : -1;
    }
    const uint8_t* found[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      found[i] = entry[i] < 0 ? nullptr : RowAt(sources.pages, entry[i]);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int slot = first + i * kThreads + thread;
      if (slot < slots) table->Set(slot, found[i]);
    }
  }
}

// Turns those pairs of eight neighbouring channels from c on that are rotated.
__device__ inline void RotatePiece(const DeviceRotation& rotation, int64_t row, int c, bool inverse,
                                   uint4* piece) {
  const int half = static_cast<int>(rotation.half), plain = kTileWidth - 2 * half;
  const float* cosines = rotation.cos + row * half;
  const float* sines = rotation.sin + row * half;
  auto* values = reinterpret_cast<BF16*>(piece);
#pragma unroll
  for (int k = 0; k < 8; k += 2) {
    const int angle = (c + k - plain) / 2;
    if (c + k >= plain) RotatePair(values + k, cosines[angle], sines[angle], inverse);
  }
}

// The queries of a row's 64 heads, rotated, as a tile. Loops that run a few times are not unrolled,
// for their instructions take longer to come than to run.
template <int kThreads>
__device__ void LoadQueries(const AttentionJob& job, int64_t row, int64_t first_head, int thread,
                            uint8_t* tile) {
  constexpr int kEach = 8;  // loads under way
  const int plain = kTileWidth - 2 * static_cast<int>(job.rotation.half);
  const auto* query =
      reinterpret_cast<const uint4*>(job.p.query + (row * job.p.heads + first_head) * kTileWidth);
  const int turned = kTilePieces - plain / 8;  // pieces of a head
#pragma unroll 1
  for (int base = thread; base < kTileRows * kTilePieces; base += kEach * kThreads) {
    uint4 piece[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) piece[i] = query[base + i * kThreads];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = base + i * kThreads, head = at / kTilePieces, c = at % kTilePieces * 8;
      if (c + 8 > plain) continue;
      *reinterpret_cast<uint4*>(tile + TileOffset(head, c / 8)) = Reorder(piece[i]);
    }
  }
#pragma unroll 1
  for (int i = thread; i < kTileRows * turned; i += kThreads) {
    const int head = i / turned, at = kTilePieces - turned + i % turned;
    uint4 piece = query[head * kTilePieces + at];
    RotatePiece(job.rotation, row, at * 8, false, &piece);
    *reinterpret_cast<uint4*>(tile + TileOffset(head, at)) = Reorder(piece);
  }
}

// Where a thread of a warpgroup that decodes works: eight rows of a warp at a time, so that what it
// stores meets no bank conflict, and neighbouring pieces, so that it reads whole sectors.
struct DecodePlace {
  int first_row, quarter;
  // A warp has `rows` rows of the tile.
  __device__ DecodePlace(int thread, int rows)
      : first_row(thread / kWarp * rows + thread % 8), quarter(thread % kWarp / 8) {}
  __device__ int Piece(int i) const { return i / 2 * 8 + quarter * 2 + i % 2; }

  // Where piece `first` of the thread's first row lies in the tile at an address; further pieces
  // of an aligned eight are found by exclusive or with their number.
  __device__ uint32_t Address(uint32_t tile, int first) const {
    return tile + static_cast<uint32_t>(TileOffset(first_row, first));
  }
};
__device__ inline void StorePiece(uint32_t address, uint4 x) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"r"(address), "r"(x.x), "r"(x.y),
               "r"(x.z), "r"(x.w)
               : "memory");
}

// A thread's share of eight packed e2m1 rows a warp, on its way from memory.
struct Fp4Share {
  static constexpr int kEach = kFp4Pieces / 4;
  uint4 codes[kEach];
  uint32_t scales[kEach / 2];

  __device__ void Load(const DecodePlace& place, const uint8_t* row) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      codes[i] =
          row == nullptr ? uint4{} : __ldg(reinterpret_cast<const uint4*>(row) + place.Piece(i));
    }
#pragma unroll
    for (int i = 0; i < kEach; i += 2) {
      const auto* from = row + kTileWidth / 2 + 2 * place.Piece(i);
      scales[i / 2] = row == nullptr ? 0u : __ldg(reinterpret_cast<const uint32_t*>(from));
    }
  }

  // Into the tile at an address, `below` bytes further down.
  __device__ void Store(const DecodePlace& place, uint32_t tile, int below) const {
    const uint32_t mine = place.Address(tile, 8 * place.quarter);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const uint32_t factors = Fp4Factors(scales[i / 2] >> 16 * (i % 2));
      const uint32_t low = __byte_perm(factors, 0, 0x1010), high = __byte_perm(factors, 0, 0x3232);
      const uint32_t four = mine ^ (i % 2 * 4 * kTilePiece);
      const int at = i / 2 * 4 * kChunkBytes + below;
      StorePiece(four + at, TileFp4(codes[i].x, low));
      StorePiece((four ^ kTilePiece) + at, TileFp4(codes[i].y, low));
      StorePiece((four ^ 2 * kTilePiece) + at, TileFp4(codes[i].z, high));
      StorePiece((four ^ 3 * kTilePiece) + at, TileFp4(codes[i].w, high));
    }
  }
};

// The same of e4m3 rows, at once.
__device__ inline void DecodeFp8Rows(const DecodePlace& place, const uint8_t* row, uint32_t tile,
                                     int below) {
  constexpr int kEach = kFp8Pieces / 4;
  uint4 codes[kEach] = {};
  uint8_t scales[kEach / 2] = {};
  if (row != nullptr) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      codes[i] = __ldg(reinterpret_cast<const uint4*>(row) + place.Piece(i));
    }
#pragma unroll
    for (int i = 0; i < kEach; i += 2) scales[i / 2] = row[kTileWidth + place.Piece(i) / 2];
  }
  const uint32_t mine = place.Address(tile, 4 * place.quarter);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const uint32_t factors = Fp8Factors(scales[i / 2]);
    const uint32_t two = mine ^ (i % 2 * 2 * kTilePiece);
    const int at = i / 2 * 2 * kChunkBytes + below;
    StorePiece(two + at, TileFp8(codes[i].x, codes[i].y, factors));
    StorePiece((two ^ kTilePiece) + at, TileFp8(codes[i].z, codes[i].w, factors));
  }
}

inline constexpr int kEightRows = 8 * 128;  // bytes

// e^x; 0 for -inf. Within a few units of the last place of fp32.
__device__ inline float Exponential(float x) {
  constexpr float kLog2OfE = 1.4426950408889634f;
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(out) : "f"(x * kLog2OfE));
  return out;
}

__device__ inline float QuadMaximum(float x) {
  x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(kAllLanes, x, 2));
}
__device__ inline float QuadSum(float x) {
  x += __shfl_xor_sync(kAllLanes, x, 1);
  return x + __shfl_xor_sync(kAllLanes, x, 2);
}

inline constexpr int kHalfSlots = kTileRows / 2;
inline constexpr int kHalfSums = kHalfSlots / 2;  // of a thread

// The online softmax of a thread's two heads (rows group and group + 8 of its warp's sixteen). Four
// lanes share a head. Products come by halves of a tile, 32 slots each, which have denominators of
// their own: a lane's part of either.
struct HeadSoftmax {
  float maximum[2] = {kFirstMaximum, kFirstMaximum};
  float correction[2];  // what earlier sums are worth now

  // Products of half a tile as logits; `used` tells its slots.
  __device__ static void Scale(float (&s)[kHalfSums], uint32_t used, float scale) {
    const int pair = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
    for (float& x : s) x *= scale;
    if (used == ~0u) return;
    const uint32_t mine = used >> 2 * pair;
#pragma unroll
    for (int i = 0; i < kHalfSums; ++i) {
      if ((mine >> (i / 4 * 8 + i % 2) & 1u) == 0) s[i] = -INFINITY;
    }
  }

  __device__ static float Largest(const float (&s)[kHalfSums], int h) {
    float top = -INFINITY;
#pragma unroll
    for (int i = 2 * h; i < kHalfSums; i += 4) top = fmaxf(top, fmaxf(s[i], s[i + 1]));
    return QuadMaximum(top);
  }

  // What a tile's largest logits are.
  __device__ void Raise(int h, float largest) {
    const float top = fmaxf(maximum[h], largest);
    correction[h] = Exponential(maximum[h] - top);
    maximum[h] = top;
  }

  // Logits of half a tile to probabilities, packed as A of the next product.
  __device__ void Absorb(float (&s)[kHalfSums], float (&denominator)[2], uint32_t* shares) const {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float sum = 0;
#pragma unroll
      for (int i = 2 * h; i < kHalfSums; i += 4) {
        s[i] = Exponential(s[i] - maximum[h]);
        s[i + 1] = Exponential(s[i + 1] - maximum[h]);
        sum += s[i] + s[i + 1];
        shares[i / 2] = PackPair(s[i], s[i + 1]);
      }
      denominator[h] = denominator[h] * correction[h] + sum;
    }
  }

  // What sums are multiplied with at the end: one over both denominators and the sink's share.
  __device__ float Inverse(int h, float first, float second, float sink) const {
    return 1.0f / (first + second + Exponential(sink - maximum[h]));
  }
};

#ifdef THALWEG_WGMMA

// s = Q K of a tile, or of half of one, by a warpgroup.
template <int kSums>
__device__ void MultiplyTile(float (&s)[kSums], uint64_t queries, uint64_t keys) {
  BeginProducts();
#pragma unroll
  for (int k = 0; k < kTileWidth / 16; ++k) {
    ProductStep(s, queries + KeysStep(k), keys + KeysStep(k), k > 0 ? 1 : 0);
  }
  CommitProducts();
}

template <int kSums>
__device__ void Weigh(float (&sums)[kSums], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) sums[i] *= factor[i / 2 % 2];
}

// Rounds and rotates back the sums of a warp's sixteen heads and kChannels channels from
// `first_channel` on, and stores them. `stage` is the warp's own: [16, kChannels] bf16.
template <int kChannels>
struct HeadStore {
  static constexpr int kPieces = kChannels / 8;
  const AttentionJob& job;
  int64_t row, first_head;  // of the warp
  int first_channel;
  uint8_t* stage;
  int lane = static_cast<int>(threadIdx.x) % kWarp;

  // Two neighbouring channels from c on, of what the lanes of a quad hold of eight: lane p has
  // channels p and p + 4.
  __device__ uint32_t Neighbours(float low, float high) const {
    const uint32_t mine = PackPair(low, high);
    const bool odd = lane % 2 != 0;
    const uint32_t other = __shfl_xor_sync(kAllLanes, odd ? mine & 0xffffu : mine >> 16, 1);
    return odd ? (mine & 0xffff0000u) | other : (mine & 0xffffu) | other << 16;
  }

  __device__ uint8_t* Staged(int head, int piece) const {
    return stage + head * kChannels * 2 + (piece ^ head % 8) * kTilePiece;
  }

  template <int kSums>
  __device__ void Store(const float (&sums)[kSums], const float (&factor)[2]) {
    const int pair = lane % 4, word = pair / 2 + pair % 2 * 2;
#pragma unroll
    for (int i = 0; i < kSums; i += 2) {
      const int h = i / 2 % 2, piece = i / 4;
      const uint32_t two = Neighbours(sums[i] * factor[h], sums[i + 1] * factor[h]);
      *reinterpret_cast<uint32_t*>(Staged(lane / 4 + 8 * h, piece) + 4 * word) = two;
    }
    __syncwarp();
    const int plain = kTileWidth - 2 * static_cast<int>(job.rotation.half);
    BF16* out = job.p.out + (row * job.p.heads + first_head) * kTileWidth + first_channel;
#pragma unroll 1
    for (int i = lane; i < 16 * kPieces; i += kWarp) {
      const int head = i / kPieces, piece = i % kPieces, c = first_channel + piece * 8;
      uint4 eight = *reinterpret_cast<const uint4*>(Staged(head, piece));
      if (c + 8 > plain) RotatePiece(job.rotation, row, c, true, &eight);
      *reinterpret_cast<uint4*>(out + head * kTileWidth + piece * 8) = eight;
    }
  }
};

#endif

}  // namespace thalweg::kernels::cuda
