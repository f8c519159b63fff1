// Sparse attention with a sink over window and selected rows (model.md 2.5): fp32 logits, online
// softmax over blocks of 64 slots with the running maximum starting at -1e30, probabilities rounded
// to bf16 before they meet the values, fp32 sums. A block of threads has some heads of one row, and
// a head's sums run in one order however many heads share a block.
#include "kernels/cuda/attention_cluster.cuh"
#include "kernels/cuda/attention_job.cuh"
#include "kernels/cuda/attention_many.cuh"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/fragments.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kSlots = 64;     // of a block of the online softmax
constexpr int kKnown = 16;     // blocks whose slots are found at a time
constexpr int kHeadTile = 16;  // rows of the matrix instruction
constexpr int kManyTiles = 4;  // head tiles of a block of threads where rows are many
constexpr int64_t kManyRows = 64;
constexpr int64_t kFewRows = 15;  // up to which a row has a cluster: as many as there are at once
constexpr int kPad = 8;           // values behind each shared row: rows start in different banks
constexpr int kPiece = 16;        // bytes that are copied at a time
constexpr int kHeadThreads = 16;  // that share the softmax of a head

// Values [unit * 16, + 16) of an encoded row, as pairs of bf16.
__device__ void DecodeUnit(RowFormat format, const uint8_t* row, int64_t width, int unit,
                           uint32_t (&out)[kUnit / 2]) {
  switch (format) {
    case RowFormat::kBF16: LoadWords<32>(row + unit * 32, out); break;
    case RowFormat::kFp8E8M0:
      DecodeFp8(row + unit * 16, FromE8M0(row[width + unit / 2]), out);
      break;
    case RowFormat::kFp4E8M0:
      DecodeFp4(row + unit * 8, FromE8M0(row[width / 2 + unit / 2]), out);
      break;
    case RowFormat::kFp4E4M3:
      DecodeFp4(row + unit * 8, FromE4M3(row[width / 2 + unit]), out);
      break;
  }
}

// kWidth: the width, up to whole tiles of the matrix instructions; kTiles: head tiles of a block.
template <int kWidth, int kTiles>
struct Attender {
  static constexpr int kHeads = kTiles * kHeadTile;
  static constexpr int kRow = kWidth + kPad;  // of query and keys
  static constexpr int kLogitRow = kSlots + 4;
  static constexpr int kShareRow = kSlots + kPad;
  static constexpr int kRawRow = (kWidth + kWidth / 32 + kPiece - 1) / kPiece * kPiece;
  static constexpr int kGroups = kWidth / kWarps / 8;  // channel groups of a warp
  // Logits: a warp has one head tile and this many groups of 8 slots.
  static constexpr int kSlotGroups = kTiles == 1 ? 1 : kSlots / 8 / (kWarps / kTiles);

  struct Shared {
    alignas(16) BF16 query[kHeads * kRow];
    alignas(16) BF16 keys[kSlots * kRow];
    alignas(16) uint8_t raw[kSlots * kRawRow];    // encoded keys of the block that comes next
    alignas(16) BF16 shares[kHeads * kShareRow];  // probabilities
    float logits[kHeads * kLogitRow];
    float correction[kHeads], maximum[kHeads], denominator[kHeads];
    const uint8_t* rows[kKnown * kSlots];
    int used[kKnown];  // whether any slot of the block is
  };

  const AttentionJob& job;
  Shared& shared;
  int64_t row, first_head;
  int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
  int group = lane / 4, pair = lane % 4;
  float sums[kTiles][kGroups][4];

  // Eight values of a query from c on, rotated.
  __device__ uint4 QueryPiece(int head, int c) const {
    const AttentionParams& p = job.p;
    if (first_head + head >= p.heads || c >= p.width) return {};
    const int64_t half = job.rotation.half, plain = p.width - 2 * half;
    uint4 words = *reinterpret_cast<const uint4*>(
        p.query + (row * p.heads + first_head + head) * p.width + c);
    auto* values = reinterpret_cast<BF16*>(&words);
#pragma unroll
    for (int i = 0; i < 8; i += 2) {
      if (c + i < plain) continue;
      const int64_t angle = row * half + (c + i - plain) / 2;
      RotatePair(values + i, job.rotation.cos[angle], job.rotation.sin[angle], false);
    }
    return words;
  }

  __device__ void Begin() {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < kHeads * kWidth / 8; i += kThreads) {
      const int head = i / (kWidth / 8), c = i % (kWidth / 8) * 8;
      *reinterpret_cast<uint4*>(shared.query + head * kRow + c) = QueryPiece(head, c);
    }
    for (int head = static_cast<int>(threadIdx.x); head < kHeads; head += kThreads) {
      shared.maximum[head] = kFirstMaximum;
      shared.denominator[head] = 0;
    }
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[t][g][i] = 0;
      }
    }
  }

  // The rows of kKnown blocks from slot `first` on.
  __device__ void FindRows(int64_t first) {
    __syncthreads();
    if (threadIdx.x < kKnown) shared.used[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kKnown * kSlots / kThreads; ++i) {
      const int slot = i * kThreads + static_cast<int>(threadIdx.x);
      const uint8_t* found = FindRow(job, row, first + slot);
      shared.rows[slot] = found;
      if (found != nullptr) shared.used[slot / kSlots] = 1;
    }
    __syncthreads();
  }

  // The next block behind `block` that has keys; kKnown when there is none.
  __device__ int Next(int block) const {
    do {
      ++block;
    } while (block < kKnown && shared.used[block] == 0);
    return block;
  }

  __device__ bool InWindow(int64_t slot) const { return slot < job.p.window; }
  __device__ RowFormat FormatOf(int64_t slot) const {
    return InWindow(slot) ? job.p.window_format : job.selected_format;
  }

  // Starts copying the encoded keys of a block; `first` is its first slot. Rows of bf16 are read
  // where they are.
  __device__ void Stage(int block, int64_t first) {
    for (int slot = warp; slot < kSlots; slot += kWarps) {
      const uint8_t* from = shared.rows[block * kSlots + slot];
      if (from == nullptr || FormatOf(first + slot) == RowFormat::kBF16) continue;
      const auto bytes =
          static_cast<int>(InWindow(first + slot) ? job.window_bytes : job.selected_bytes);
      uint8_t* to = shared.raw + slot * kRawRow;
      const bool aligned = reinterpret_cast<uintptr_t>(from) % kPiece == 0;
      for (int at = lane * kPiece; at < bytes; at += kWarp * kPiece) {
        if (aligned && at + kPiece <= bytes) {
          CopyAsync16(SharedAddress(to + at), from + at);
        } else {
          for (int b = at; b < at + kPiece && b < bytes; ++b) to[b] = from[b];
        }
      }
    }
    CommitCopies();
  }

  // The staged keys as bf16, zeros in masked slots.
  __device__ void Decode(int block, int64_t first) {
    constexpr int kUnits = kWidth / kUnit;
    WaitCopies<0>();
    __syncthreads();
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < kSlots * kUnits; i += kThreads) {
      const int slot = i / kUnits, unit = i % kUnits;
      const uint8_t* from = shared.rows[block * kSlots + slot];
      uint32_t out[kUnit / 2] = {};
      if (from != nullptr && unit * kUnit < job.p.width) {
        const RowFormat format = FormatOf(first + slot);
        if (format != RowFormat::kBF16) from = shared.raw + slot * kRawRow;
        DecodeUnit(format, from, job.p.width, unit, out);
      }
      auto* to = reinterpret_cast<uint4*>(shared.keys + slot * kRow + unit * kUnit);
      to[0] = {out[0], out[1], out[2], out[3]};
      to[1] = {out[4], out[5], out[6], out[7]};
    }
    __syncthreads();
  }

  // Steps of 16 channels go to two sums in turn, which are added at the end.
  __device__ void MultiplyKeys(int block) {
    const int tile = warp % kTiles, first_slot = warp / kTiles * kSlotGroups * 8;
    const BF16* query = shared.query + (tile * kHeadTile + lane % 16) * kRow + lane / 16 * 8;
    const BF16* key = shared.keys + (first_slot + lane % 8) * kRow + lane / 8 * 8;
    float even[kSlotGroups][4] = {}, odd[kSlotGroups][4] = {};
#pragma unroll 2
    for (int k = 0; k < kWidth; k += 32) {
      uint32_t a[2][4];
      LoadTiles(query + k, a[0]);
      LoadTiles(query + k + 16, a[1]);
#pragma unroll
      for (int n = 0; n < kSlotGroups; ++n) {
        uint32_t b[4];
        LoadTiles(key + n * 8 * kRow + k, b);
        MultiplyStep(even[n], a[0], b[0], b[1]);
        MultiplyStep(odd[n], a[1], b[2], b[3]);
      }
    }
#pragma unroll
    for (int n = 0; n < kSlotGroups; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int head = tile * kHeadTile + group + i / 2 * 8;
        const int slot = first_slot + n * 8 + 2 * pair + i % 2;
        const bool used = shared.rows[block * kSlots + slot] != nullptr;
        shared.logits[head * kLogitRow + slot] =
            used ? (even[n][i] + odd[n][i]) * job.p.scale : -INFINITY;
      }
    }
    __syncthreads();
  }

  // Probabilities of the block, and what earlier sums are worth now.
  __device__ void Softmax() {
    constexpr int kEach = kSlots / kHeadThreads;
    const int part = static_cast<int>(threadIdx.x) % kHeadThreads;
#pragma unroll
    for (int i = 0; i < kTiles; ++i) {
      const int head = static_cast<int>(threadIdx.x) / kHeadThreads + i * kHeadTile;
      const float* logits = shared.logits + head * kLogitRow + part * kEach;
      const float before = shared.maximum[head];
      float maximum = before, share[kEach], sum = 0;
      for (int s = 0; s < kEach; ++s) maximum = fmaxf(maximum, logits[s]);
      for (int step = 1; step < kHeadThreads; step *= 2) {
        maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, step));
      }
#pragma unroll
      for (int s = 0; s < kEach; ++s) sum += share[s] = expf(logits[s] - maximum);
      for (int step = 1; step < kHeadThreads; step *= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, step);
      }
      auto* shares = reinterpret_cast<uint2*>(shared.shares + head * kShareRow + part * kEach);
      *shares = {PackPair(share[0], share[1]), PackPair(share[2], share[3])};
      const float correction = expf(before - maximum);
      __syncwarp();
      if (part == 0) {
        shared.maximum[head] = maximum;
        shared.correction[head] = correction;
        shared.denominator[head] = shared.denominator[head] * correction + sum;
      }
    }
    __syncthreads();
  }

  __device__ void WeighSums() {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      const float low = shared.correction[t * kHeadTile + group];
      const float high = shared.correction[t * kHeadTile + group + 8];
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        sums[t][g][0] *= low;
        sums[t][g][1] *= low;
        sums[t][g][2] *= high;
        sums[t][g][3] *= high;
      }
    }
  }

  __device__ void AddValues() {
    constexpr int kPairs = kGroups == 1 ? 1 : 2;  // groups that are loaded at a time
    const BF16* value = shared.keys + (lane / 8 % 2 * 8 + lane % 8) * kRow + warp * kGroups * 8 +
                        (kPairs == 1 ? 0 : lane / 16 * 8);
    const BF16* share = shared.shares + lane % 16 * kShareRow + lane / 16 * 8;
    WeighSums();
#pragma unroll
    for (int k = 0; k < kSlots; k += 16) {
      uint32_t a[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) LoadTiles(share + t * kHeadTile * kShareRow + k, a[t]);
#pragma unroll
      for (int g = 0; g < kGroups; g += kPairs) {
        uint32_t b[4];
        LoadTransposed(value + k * kRow + g * 8, b);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
          MultiplyStep(sums[t][g], a[t], b[0], b[1]);
          if constexpr (kPairs == 2) MultiplyStep(sums[t][g + 1], a[t], b[2], b[3]);
        }
      }
    }
    __syncthreads();
  }

  // One over the denominator of each head, with the sink's share in it.
  __device__ void Invert() {
    for (int head = static_cast<int>(threadIdx.x); head < kHeads; head += kThreads) {
      if (first_head + head >= job.p.heads) continue;
      const float sink = expf(job.p.sink[first_head + head] - shared.maximum[head]);
      shared.correction[head] = 1.0f / (shared.denominator[head] + sink);
    }
    __syncthreads();
  }

  // Divides by the denominator, rotates back and stores two channels.
  __device__ void StorePair(int head, int64_t c, float low, float high) {
    const AttentionParams& p = job.p;
    if (first_head + head >= p.heads || c >= p.width) return;
    const float inverse = shared.correction[head];
    BF16 two[2] = {Narrow(low * inverse), Narrow(high * inverse)};
    const int64_t half = job.rotation.half, plain = p.width - 2 * half;
    const int64_t angle = row * half + (c - plain) / 2;
    if (c >= plain) RotatePair(two, job.rotation.cos[angle], job.rotation.sin[angle], true);
    BF16* out = p.out + (row * p.heads + first_head + head) * p.width + c;
    *reinterpret_cast<uint32_t*>(out) = static_cast<uint32_t>(two[1].bits) << 16 | two[0].bits;
  }

  __device__ void Store() {
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        const int64_t c = (warp * kGroups + g) * 8 + 2 * pair;
        StorePair(t * kHeadTile + group, c, sums[t][g][0], sums[t][g][1]);
        StorePair(t * kHeadTile + group + 8, c, sums[t][g][2], sums[t][g][3]);
      }
    }
  }

  // All blocks in order; one without keys changes nothing. The next one's keys are on their way
  // while one is multiplied.
  __device__ void Run(int64_t slots) {
    Begin();
    for (int64_t first = 0; first < slots; first += kKnown * kSlots) {
      FindRows(first);
      int block = Next(-1);
      if (block < kKnown) Stage(block, first + block * kSlots);
      while (block < kKnown) {
        Decode(block, first + block * kSlots);
        const int next = Next(block);
        if (next < kKnown) Stage(next, first + next * kSlots);
        MultiplyKeys(block);
        Softmax();
        AddValues();
        block = next;
      }
    }
    __syncthreads();
    Invert();
    Store();
  }
};

template <int kWidth, int kTiles>
__global__ void __launch_bounds__(kThreads, 1) AttentionKernel(AttentionJob job) {
  extern __shared__ uint4 attention_shared[];
  using Attend = Attender<kWidth, kTiles>;
  auto& shared = *reinterpret_cast<typename Attend::Shared*>(attention_shared);
  Attend attend{job, shared, static_cast<int64_t>(blockIdx.x),
                static_cast<int64_t>(blockIdx.y) * Attend::kHeads};
  attend.Run(job.p.window + (job.p.selected_rows != nullptr ? job.p.topk : 0));
}

template <int kWidth, int kTiles>
void Launch(const AttentionJob& job, Queue* queue) {
  using Attend = Attender<kWidth, kTiles>;
  constexpr auto kShared = static_cast<int64_t>(sizeof(typename Attend::Shared));
  AllowShared(queue, AttentionKernel<kWidth, kTiles>, kShared);
  const dim3 grid(Count(job.p.rows), Count(base::CeilDiv<int64_t>(job.p.heads, Attend::kHeads)));
  AttentionKernel<kWidth, kTiles><<<grid, kThreads, kShared, queue->stream()>>>(job);
}

template <int kWidth>
void LaunchWidth(const AttentionJob& job, Queue* queue) {
  const bool many = job.p.rows >= kManyRows && job.p.heads > kHeadTile;
  many ? Launch<kWidth, kManyTiles>(job, queue) : Launch<kWidth, 1>(job, queue);
}

// Whether the call has the released shape, for which there are kernels of warpgroups, and the
// device has those. Bits differ between these kernels and the general one, and not with the number
// of rows.
bool IsReleasedShape(const AttentionJob& job) {
  const AttentionParams& p = job.p;
  const bool selects = p.selected_rows != nullptr;
  return p.width == kTileWidth && p.heads % kTileRows == 0 && p.window % kTileRows == 0 &&
         (!selects || p.topk % kTileRows == 0) && p.window + (selects ? p.topk : 0) <= kMostSlots &&
         p.window_format == RowFormat::kFp8E8M0 &&
         (!selects || job.selected_format == RowFormat::kFp4E4M3) && HasWarpgroups();
}

void AttendReleasedShape(const AttentionJob& job, Queue* queue) {
  if (job.p.rows <= kFewRows && ClusterTakes(job)) {
    LaunchClusterRows(job, queue);
  } else {
    LaunchManyRows<AttentionPart::kWhole>(job, queue);
  }
}

}  // namespace

void Attention(const AttentionParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const AttentionJob job = StageJob(p, &queue);
  if (IsReleasedShape(job)) return AttendReleasedShape(job, &queue);
  if (p.width <= 64) return LaunchWidth<64>(job, &queue);
  if (p.width <= 128) return LaunchWidth<128>(job, &queue);
  if (p.width <= 256) return LaunchWidth<256>(job, &queue);
  if (p.width <= 512) return LaunchWidth<512>(job, &queue);
  queue.Note(cudaErrorNotSupported);
}

}  // namespace thalweg::kernels::cuda
