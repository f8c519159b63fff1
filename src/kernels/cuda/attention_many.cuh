// Attention of many rows: a block has the 64 heads of one row. Two warpgroups find and decode keys,
// a tile ahead; two multiply them. Of these each has the products and probabilities of half of the
// slots of a tile, and half of the channels of the sums: what passes between them are the largest
// logits and the probabilities.
#pragma once

#include "kernels/cuda/attention_heads.cuh"

namespace thalweg::kernels::cuda {

// What of the kernel runs: parts alone are for measuring their bounds.
enum class AttentionPart { kWhole, kDecode, kProducts };

struct ManyShared {
  alignas(1024) uint8_t query[kTileBytes];
  alignas(1024) uint8_t keys[2][kTileBytes];
  alignas(1024) uint8_t shares[kChunkBytes];  // probabilities [heads, slots], as a chunk
  SlotTable table;
  float largest[2][kTileRows];  // of each half of the slots, by heads; then denominators
  alignas(8) uint64_t full[2];
  uint64_t empty[2];
};

inline constexpr int kRoleThreads = 2 * kGroupThreads;
inline constexpr int kManyThreads = 2 * kRoleThreads;
inline constexpr int kManyBytes = static_cast<int>(sizeof(ManyShared)) + 1024;

// Barriers of parts of the block.
inline constexpr int kConsumersMeet = 1, kProducersMeet = 2, kSlotsFound = 3;

// The two buffers in turn: the next one, and the parity of its phase.
struct Turn {
  int buffer = 0;
  uint32_t parity = 0;
  __device__ void Advance() {
    parity ^= static_cast<uint32_t>(buffer);
    buffer ^= 1;
  }
};

// Decodes the tiles in order, eight rows a warp. A thread's codes of the next packed tile are on
// their way while it waits for a free buffer.
template <AttentionPart kPart>
struct Producer {
  static constexpr bool kDecodes = kPart != AttentionPart::kProducts;
  ManyShared& shared;
  int tiles;
  DecodePlace place;
  Turn turn = {};

  __device__ int Next(int tile) const {
    while (tile < tiles && !shared.table.Used(tile)) ++tile;
    return tile;
  }
  __device__ const uint8_t* Row(int tile) const {
    return shared.table.rows[tile * kTileRows + place.first_row];
  }
  __device__ uint32_t Begin() {
    Await(&shared.empty[turn.buffer], turn.parity ^ 1u);
    return SharedAddress(shared.keys[turn.buffer]);
  }
  __device__ void End() {
    PublishShared();
    Arrive(&shared.full[turn.buffer]);
    turn.Advance();
  }

  __device__ void Run(int window_tiles) {
    int tile = Next(0);
    for (; tile < window_tiles; tile = Next(tile + 1)) {
      const uint32_t keys = Begin();
      if (kDecodes) DecodeFp8Rows(place, Row(tile), keys, 0);
      End();
    }
    Fp4Share share;
    if (kDecodes && tile < tiles) share.Load(place, Row(tile));
    while (tile < tiles) {
      const uint32_t keys = Begin();
      if (kDecodes) share.Store(place, keys, 0);
      tile = Next(tile + 1);
      if (kDecodes && tile < tiles) share.Load(place, Row(tile));
      End();
    }
  }
};

#ifdef THALWEG_WGMMA

// One of the two warpgroups that multiply: `half` of the slots, and of the channels.
struct Consumer {
  static constexpr int kChannels = kTileWidth / 2;
  const AttentionJob& job;
  ManyShared& shared;
  int half;
  int lane = static_cast<int>(threadIdx.x) % kWarp;
  int warp = static_cast<int>(threadIdx.x) % kGroupThreads / kWarp;
  int head = warp * 16 + lane / 4;  // the thread's first; the other is eight further
  HeadSoftmax softmax = {};
  float denominator[2] = {};
  float sums[2][kChannels / 4] = {};  // of 128 channels each

  // Logits of the half, and the largest of the whole tile.
  __device__ void Logits(float (&s)[kHalfSums], const uint8_t* keys, uint32_t used) {
    MultiplyTile(s, KeysDescriptor(shared.query), KeysDescriptor(keys + half * kHalfSlots * 128));
    WaitProducts<0>();
    HeadSoftmax::Scale(s, used, job.p.scale * kInverseTileScale);
    float mine[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      mine[h] = HeadSoftmax::Largest(s, h);
      if (lane % 4 == 0) shared.largest[half][head + 8 * h] = mine[h];
    }
    Meet(kConsumersMeet, kRoleThreads);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      softmax.Raise(h, fmaxf(mine[h], shared.largest[1 - half][head + 8 * h]));
    }
  }

  // Probabilities of the half to where both read them.
  __device__ void Share(float (&s)[kHalfSums]) {
    uint32_t shares[kHalfSums / 2];
    softmax.Absorb(s, denominator, shares);
#pragma unroll
    for (int i = 0; i < kHalfSums / 2; ++i) {
      const int offset = TileOffset(head + i % 2 * 8, half * 4 + i / 2) + lane % 4 * 4;
      *reinterpret_cast<uint32_t*>(shared.shares + offset) = shares[i];
    }
    PublishShared();
    Weigh(sums[0], softmax.correction);
    Weigh(sums[1], softmax.correction);
    Meet(kConsumersMeet, kRoleThreads);
  }

  __device__ void Absorb(const uint8_t* keys, uint32_t used) {
    float s[kHalfSums];
    Logits(s, keys, used);
    Share(s);
    const uint64_t shares = KeysDescriptor(shared.shares);
    const uint64_t values = ValuesDescriptor(keys + half * (kTileBytes / 2));
    constexpr uint64_t kNext = kTileBytes / 4 >> 4;  // 128 channels further
    BeginProducts();
#pragma unroll
    for (int k = 0; k < kTileRows / 16; ++k) {
      ValueStep(sums[0], shares + KeysStep(k), values + ValuesStep(k));
      ValueStep(sums[1], shares + KeysStep(k), values + ValuesStep(k) + kNext);
    }
    CommitProducts();
    WaitProducts<0>();
  }

  // Divides and stores. The queries' place is free: both have met since they were read last.
  __device__ void Finish(int64_t row, int64_t first_head) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = QuadSum(denominator[h]);
      if (lane % 4 == 0) shared.largest[half][head + 8 * h] = sum;
    }
    Meet(kConsumersMeet, kRoleThreads);
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sink = job.p.sink[first_head + head + 8 * h];
      factor[h] = softmax.Inverse(h, shared.largest[0][head + 8 * h],
                                  shared.largest[1][head + 8 * h], sink) *
                  kInverseTileScale;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      HeadStore<kChannels / 2> store{job, row, first_head + warp * 16,
                                     half * kChannels + i * kChannels / 2,
                                     shared.query + ((half * 4 + warp) * 2 + i) * 16 * kChannels};
      store.Store(sums[i], factor);
    }
  }

  template <AttentionPart kPart>
  __device__ void Run(int tiles) {
    const SlotTable& table = shared.table;
    Turn turn;
    for (int tile = 0; tile < tiles; ++tile) {
      if (!table.Used(tile)) continue;
      Await(&shared.full[turn.buffer], turn.parity);
      if (kPart != AttentionPart::kDecode) {
        Absorb(shared.keys[turn.buffer], table.used[2 * tile + half]);
      }
      if (lane == 0) Arrive(&shared.empty[turn.buffer]);
      turn.Advance();
    }
    Finish(blockIdx.x, blockIdx.y * kTileRows);
  }
};

// What a block has at its launch, 128 of a thread, is all that there is to take from.
inline constexpr int kProducerRegisters = 64, kConsumerRegisters = 192;
static_assert(kProducerRegisters + kConsumerRegisters <= 2 * 128);

#endif

template <AttentionPart kPart>
__global__ void __launch_bounds__(kManyThreads, 1) ManyRowsKernel(AttentionJob job) {
#ifdef THALWEG_WGMMA
  auto& shared = AlignedShared<ManyShared>();
  const int thread = static_cast<int>(threadIdx.x);
  const bool selects = job.p.selected_rows != nullptr;
  const int tiles = static_cast<int>(job.p.window + (selects ? job.p.topk : 0)) / kTileRows;
  if (thread < kRoleThreads) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kProducerRegisters));
    if (thread == 0) {
      for (int i = 0; i < 2; ++i) {
        OpenBarrier(&shared.full[i], kRoleThreads);
        OpenBarrier(&shared.empty[i], kRoleThreads / kWarp);
      }
    }
    const SlotSources sources(job, blockIdx.x);
    WaitForEarlier();
    FindSlots<kRoleThreads>(job, sources, blockIdx.x, thread, &shared.table);
    Meet(kProducersMeet, kRoleThreads);
    Signal(kSlotsFound, kManyThreads);
    Producer<kPart>{shared, tiles, DecodePlace(thread, 8)}.Run(static_cast<int>(job.p.window) /
                                                               kTileRows);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kConsumerRegisters));
    WaitForEarlier();
    LoadQueries<kRoleThreads>(job, blockIdx.x, blockIdx.y * kTileRows, thread - kRoleThreads,
                              shared.query);
    PublishShared();
    Meet(kSlotsFound, kManyThreads);
    Consumer{job, shared, (thread - kRoleThreads) / kGroupThreads}.template Run<kPart>(tiles);
  }
#endif
}

template <AttentionPart kPart>
void LaunchManyRows(const AttentionJob& job, Queue* queue) {
  AllowShared(queue, ManyRowsKernel<kPart>, kManyBytes);
  const dim3 grid(Count(job.p.rows), Count(job.p.heads / kTileRows));
  LaunchEarly(queue, ManyRowsKernel<kPart>, grid, kManyThreads, kManyBytes, job);
}

}  // namespace thalweg::kernels::cuda
