// Sparse attention with a sink over window and selected rows (model.md 2.5): fp32 logits, online
// softmax over blocks of 64 slots with the running maximum starting at -1e30, probabilities rounded
// to bf16 before they meet the values, fp32 sums. A block of threads has some heads of one row, and
// a head's sums run in one order however many heads share a block.
#include <vector>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pages.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / kWarp;
constexpr int kSlots = 64;     // of a block of the online softmax
constexpr int kHeadTile = 16;  // rows of the matrix instruction
constexpr int kManyTiles = 4;  // head tiles of a block of threads where rows are many
constexpr int64_t kManyRows = 64;
constexpr int kPad = 8;          // values behind each shared row: rows start in different banks
constexpr int kUnit = 16;        // values that a thread decodes at a time
constexpr int kHeadThreads = 4;  // that share the softmax of a head
constexpr float kFirstMaximum = -1e30f;

struct AttentionJob {
  AttentionParams p;  // its lists on the device
  DeviceRotation rotation;
  int64_t window_bytes = 0;  // of a window row
};

struct Slot {
  const uint8_t* row;  // null: masked
  RowFormat format;
};

// Which row is in a slot: the window from its oldest position upwards, then the selection.
__device__ Slot FindSlot(const AttentionJob& job, int64_t row, int64_t slot) {
  const AttentionParams& p = job.p;
  if (slot < p.window) {
    const WindowKeys keys = p.window_keys[p.row_sequence[row]];
    const int64_t end = p.window_end[row];
    const int64_t position = max(static_cast<int64_t>(0), end - p.window + 1) + slot;
    if (position > end || position < keys.floor) return {nullptr, p.window_format};
    const uint8_t* at = position >= keys.chunk_begin
                            ? keys.chunk + (position - keys.chunk_begin) * job.window_bytes
                            : keys.ring + position % keys.ring_rows * job.window_bytes;
    return {at, p.window_format};
  }
  const int64_t i = slot - p.window;
  if (p.selected_rows == nullptr || i >= p.topk) return {nullptr, p.window_format};
  const int64_t entry = p.selection[row * p.topk + i];
  if (entry < 0) return {nullptr, p.window_format};
  const PagedRows& rows = p.selected_rows[p.row_sequence[row]];
  return {RowAt(rows, entry), rows.format};
}

// kBytes bytes from anywhere, as words.
template <int kBytes>
__device__ void LoadWords(const uint8_t* from, uint32_t (&words)[kBytes / 4]) {
  if (reinterpret_cast<uintptr_t>(from) % 8 == 0) {
#pragma unroll
    for (int i = 0; i < kBytes / 8; ++i) {
      const uint2 two = reinterpret_cast<const uint2*>(from)[i];
      words[2 * i] = two.x;
      words[2 * i + 1] = two.y;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kBytes / 4; ++i) {
    const uint8_t* b = from + 4 * i;
    words[i] = b[0] | b[1] << 8 | b[2] << 16 | static_cast<uint32_t>(b[3]) << 24;
  }
}

__device__ uint32_t PackPair(float low, float high) {
  return static_cast<uint32_t>(Narrow(high).bits) << 16 | Narrow(low).bits;
}

__device__ uint32_t MultiplyPairs(uint32_t a, uint32_t b) {
  const __nv_bfloat162 x = *reinterpret_cast<const __nv_bfloat162*>(&a);
  const __nv_bfloat162 y = *reinterpret_cast<const __nv_bfloat162*>(&b);
  const __nv_bfloat162 product = __hmul2(x, y);
  return *reinterpret_cast<const uint32_t*>(&product);
}

// Sixteen values of e4m3 with one scale, as pairs of bf16 (exact).
__device__ void DecodeFp8(const uint8_t* codes, float scale, uint32_t (&out)[kUnit / 2]) {
  uint32_t words[4];
  LoadWords<16>(codes, words);
#pragma unroll
  for (int i = 0; i < kUnit / 2; ++i) {
    const auto two = static_cast<__nv_fp8x2_storage_t>(words[i / 2] >> 16 * (i % 2));
    const float2 x = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(two, __NV_E4M3)));
    out[i] = PackPair(x.x * scale, x.y * scale);
  }
}

// The same of e2m1: a code's bits are the exponent and the top of the mantissa of a tiny bf16, and
// every product is exact.
__device__ void DecodeFp4(const uint8_t* codes, float scale, uint32_t (&out)[kUnit / 2]) {
  constexpr uint32_t kTwice126 = 0x7e807e80u;  // 2^126, 2^126
  const uint32_t scales = PackPair(scale, scale);
  uint32_t words[2];
  LoadWords<8>(codes, words);
#pragma unroll
  for (int i = 0; i < kUnit / 2; ++i) {
    const uint32_t b = words[i / 4] >> 8 * (i % 4) & 0xffu;
    const uint32_t tiny = (b & 7u) << 6 | (b & 8u) << 12 | (b & 0x70u) << 18 | (b & 0x80u) << 24;
    out[i] = MultiplyPairs(MultiplyPairs(tiny, kTwice126), scales);
  }
}

// Values [unit * 16, + 16) of an encoded row, as pairs of bf16.
__device__ void DecodeUnit(const Slot& slot, int64_t width, int unit, uint32_t (&out)[kUnit / 2]) {
  const uint8_t* row = slot.row;
  switch (slot.format) {
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

__device__ void MultiplyStep(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ uint32_t PairAt(const BF16* x) { return *reinterpret_cast<const uint32_t*>(x); }

// Rows group and group + 8 of A, 16 columns from x.
__device__ void LoadA(const BF16* x, int stride, uint32_t (&a)[4]) {
  a[0] = PairAt(x);
  a[1] = PairAt(x + 8 * stride);
  a[2] = PairAt(x + 8);
  a[3] = PairAt(x + 8 * stride + 8);
}

// B[16 slots, 8 channels] from rows that are slots.
__device__ void LoadTransposed(const BF16* rows, int stride, uint32_t* b0, uint32_t* b1) {
  const int lane = static_cast<int>(threadIdx.x) % 16;
  const auto address = static_cast<uint32_t>(__cvta_generic_to_shared(rows + lane * stride));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n"
               : "=r"(*b0), "=r"(*b1)
               : "r"(address));
}

// kWidth: the width, up to whole tiles of the matrix instructions; kTiles: head tiles of a block.
template <int kWidth, int kTiles>
struct Attender {
  static constexpr int kHeads = kTiles * kHeadTile;
  static constexpr int kRow = kWidth + kPad;  // of query and keys
  static constexpr int kLogitRow = kSlots + 4;
  static constexpr int kShareRow = kSlots + kPad;
  static constexpr int kGroups = kWidth / kWarps / 8;  // channel groups of a warp
  // Logits: a warp has one head tile and this many groups of 8 slots.
  static constexpr int kSlotGroups = kTiles == 1 ? 1 : kSlots / 8 / (kWarps / kTiles);

  struct Shared {
    alignas(16) BF16 query[kHeads * kRow];
    alignas(16) BF16 keys[kSlots * kRow];
    float logits[kHeads * kLogitRow];
    alignas(16) BF16 shares[kHeads * kShareRow];  // probabilities
    float correction[kHeads], maximum[kHeads], denominator[kHeads];
    Slot slots[kSlots];
  };

  const AttentionJob& job;
  Shared& shared;
  int64_t row, first_head;
  int warp = static_cast<int>(threadIdx.x) / kWarp;
  int group = static_cast<int>(threadIdx.x) % kWarp / 4, pair = static_cast<int>(threadIdx.x) % 4;
  float sums[kTiles][kGroups][4];

  __device__ void Begin() {
    const AttentionParams& p = job.p;
    const int64_t half = job.rotation.half, plain = p.width - 2 * half;
    for (int i = static_cast<int>(threadIdx.x); i < kHeads * kWidth / 2; i += kThreads) {
      const int head = i / (kWidth / 2), c = i % (kWidth / 2) * 2;
      BF16 two[2] = {};
      if (first_head + head < p.heads && c < p.width) {
        const BF16* q = p.query + (row * p.heads + first_head + head) * p.width + c;
        two[0] = q[0];
        two[1] = q[1];
        const int64_t angle = row * half + (c - plain) / 2;
        if (c >= plain) RotatePair(two, job.rotation.cos[angle], job.rotation.sin[angle], false);
      }
      shared.query[head * kRow + c] = two[0];
      shared.query[head * kRow + c + 1] = two[1];
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

  // The keys of slots [begin, begin + 64); false when all of them are masked.
  __device__ bool LoadKeys(int64_t begin) {
    bool used = false;
    if (threadIdx.x < kSlots) {
      const Slot slot = FindSlot(job, row, begin + threadIdx.x);
      shared.slots[threadIdx.x] = slot;
      used = slot.row != nullptr;
    }
    if (__syncthreads_or(used ? 1 : 0) == 0) return false;
    constexpr int kUnits = kWidth / kUnit;
    for (int i = static_cast<int>(threadIdx.x); i < kSlots * kUnits; i += kThreads) {
      const Slot slot = shared.slots[i / kUnits];
      const int unit = i % kUnits;
      uint32_t out[kUnit / 2] = {};
      if (slot.row != nullptr && unit * kUnit < job.p.width) {
        DecodeUnit(slot, job.p.width, unit, out);
      }
      auto* to = reinterpret_cast<uint4*>(shared.keys + i / kUnits * kRow + unit * kUnit);
      to[0] = {out[0], out[1], out[2], out[3]};
      to[1] = {out[4], out[5], out[6], out[7]};
    }
    __syncthreads();
    return true;
  }

  __device__ void MultiplyKeys() {
    const int tile = warp % kTiles, first_slot = warp / kTiles * kSlotGroups * 8;
    const BF16* query = shared.query + (tile * kHeadTile + group) * kRow + 2 * pair;
    const BF16* key = shared.keys + (first_slot + group) * kRow + 2 * pair;
    float logit[kSlotGroups][4] = {};
#pragma unroll 4
    for (int k = 0; k < kWidth; k += 16) {
      uint32_t a[4];
      LoadA(query + k, kRow, a);
#pragma unroll
      for (int n = 0; n < kSlotGroups; ++n) {
        const BF16* b = key + n * 8 * kRow + k;
        MultiplyStep(logit[n], a, PairAt(b), PairAt(b + 8));
      }
    }
#pragma unroll
    for (int n = 0; n < kSlotGroups; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int head = tile * kHeadTile + group + i / 2 * 8;
        const int slot = first_slot + n * 8 + 2 * pair + i % 2;
        shared.logits[head * kLogitRow + slot] =
            shared.slots[slot].row != nullptr ? logit[n][i] * job.p.scale : -INFINITY;
      }
    }
    __syncthreads();
  }

  // Probabilities of the block, and what earlier sums are worth now.
  __device__ void Softmax() {
    constexpr int kEach = kSlots / kHeadThreads;
    const int head = static_cast<int>(threadIdx.x) / kHeadThreads;
    const int first = static_cast<int>(threadIdx.x) % kHeadThreads * kEach;
    if (head < kHeads) {
      const float* logits = shared.logits + head * kLogitRow + first;
      const float before = shared.maximum[head];
      float maximum = before;
      for (int s = 0; s < kEach; ++s) maximum = fmaxf(maximum, logits[s]);
      for (int step = 1; step < kHeadThreads; step *= 2) {
        maximum = fmaxf(maximum, __shfl_xor_sync(kAllLanes, maximum, step));
      }
      float sum = 0;
      for (int s = 0; s < kEach; ++s) {
        const float share = expf(logits[s] - maximum);
        sum += share;
        shared.shares[head * kShareRow + first + s] = Narrow(share);
      }
      for (int step = 1; step < kHeadThreads; step *= 2) {
        sum += __shfl_xor_sync(kAllLanes, sum, step);
      }
      const float correction = expf(before - maximum);
      __syncwarp();
      if (first == 0) {
        shared.maximum[head] = maximum;
        shared.correction[head] = correction;
        shared.denominator[head] = shared.denominator[head] * correction + sum;
      }
    }
    __syncthreads();
  }

  __device__ void AddValues() {
    const int first_channel = warp * kGroups * 8;
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
#pragma unroll
    for (int k = 0; k < kSlots; k += 16) {
      uint32_t a[kTiles][4];
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        LoadA(shared.shares + (t * kHeadTile + group) * kShareRow + k + 2 * pair, kShareRow, a[t]);
      }
#pragma unroll
      for (int g = 0; g < kGroups; ++g) {
        uint32_t b0, b1;
        LoadTransposed(shared.keys + k * kRow + first_channel + g * 8, kRow, &b0, &b1);
#pragma unroll
        for (int t = 0; t < kTiles; ++t) MultiplyStep(sums[t][g], a[t], b0, b1);
      }
    }
    __syncthreads();
  }

  // Divides by the denominator with the sink's share in it, rotates back and stores two channels.
  __device__ void StorePair(int head, int64_t c, float low, float high) {
    const AttentionParams& p = job.p;
    if (first_head + head >= p.heads || c >= p.width) return;
    const float denominator =
        shared.denominator[head] + expf(p.sink[first_head + head] - shared.maximum[head]);
    BF16 two[2] = {Narrow(low / denominator), Narrow(high / denominator)};
    const int64_t half = job.rotation.half, plain = p.width - 2 * half;
    const int64_t angle = row * half + (c - plain) / 2;
    if (c >= plain) RotatePair(two, job.rotation.cos[angle], job.rotation.sin[angle], true);
    BF16* out = p.out + (row * p.heads + first_head + head) * p.width + c;
    out[0] = two[0];
    out[1] = two[1];
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
};

template <int kWidth, int kTiles>
__global__ void __launch_bounds__(kThreads, 1) AttentionKernel(AttentionJob job) {
  extern __shared__ uint4 attention_shared[];
  using Attend = Attender<kWidth, kTiles>;
  auto& shared = *reinterpret_cast<typename Attend::Shared*>(attention_shared);
  Attend attend{job, shared, static_cast<int64_t>(blockIdx.x),
                static_cast<int64_t>(blockIdx.y) * Attend::kHeads};
  attend.Begin();
  const int64_t slots = job.p.window + (job.p.selected_rows != nullptr ? job.p.topk : 0);
  for (int64_t begin = 0; begin < slots; begin += kSlots) {
    if (!attend.LoadKeys(begin)) continue;  // nothing in it changes nothing
    attend.MultiplyKeys();
    attend.Softmax();
    attend.AddValues();
  }
  __syncthreads();
  attend.Store();
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

AttentionJob StageJob(const AttentionParams& p, Queue* queue) {
  AttentionJob job{p, StageRotation(queue, p.rotation, p.rows),
                   tensor::RowBytes(p.window_format, p.width)};
  const int64_t sequences = SequencesOf(p.row_sequence, p.rows);
  job.p.row_sequence = queue->Stage(p.row_sequence, p.rows);
  job.p.window_end = queue->Stage(p.window_end, p.rows);
  job.p.window_keys = queue->Stage(p.window_keys, sequences);
  if (p.selected_rows != nullptr) {
    job.p.selected_rows = StagePages(queue, p.selected_rows, sequences);
  }
  return job;
}

}  // namespace

void Attention(const AttentionParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const AttentionJob job = StageJob(p, &queue);
  if (p.width <= 64) return LaunchWidth<64>(job, &queue);
  if (p.width <= 128) return LaunchWidth<128>(job, &queue);
  if (p.width <= 256) return LaunchWidth<256>(job, &queue);
  if (p.width <= 512) return LaunchWidth<512>(job, &queue);
  queue.Note(cudaErrorNotSupported);
}

}  // namespace thalweg::kernels::cuda
