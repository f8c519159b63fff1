// Single-pass hyper-connections, embedding, taps, the last collapse and norms (model.md 2.1, 2.2).
#include <algorithm>
#include <utility>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/coefficients.cuh"
#include "kernels/cuda/combine_rows.cuh"
#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kSiteThreads = 512;                  // of the blocks of hyper_predict
constexpr int kRowThreads = 512;                   // that share a row
constexpr int kRowsOfOne = 8, kMostRows = 16;      // a warp has more rows where there are many
constexpr int kManyThreads = 128, kManyRows = 32;  // of blocks that make partial sums alone
constexpr int64_t kJoinedRows = 64;                // up to which updates are finished on the way
constexpr int64_t kJoinedStreams = 4;
// Rows of fn that a warp multiplies: fewer registers where a block should find room beside those of
// the kernel in front.
template <bool kJoined>
constexpr int kMixesOf = kJoined ? kMixChunk / 3 : kMixChunk / 2;
constexpr int64_t kMostShared = 6144, kMostUpdates = 12;  // of a row in shared memory

__global__ void EmbedKernel(EmbedParams p) {
  WaitForEarlier();
  const int64_t row = blockIdx.x, n = p.streams_n;
  const int32_t id = p.ids[row] < 0 ? p.newest[-1 - p.ids[row]] : p.ids[row];
  const BF16* source = p.table + id * p.hidden;
  for (int64_t c = threadIdx.x; c < p.hidden; c += blockDim.x) {
    const BF16 x = source[c];
    for (int64_t j = 0; j < n; ++j) p.streams[(row * n + j) * p.hidden + c] = x;
  }
  if (threadIdx.x < n) p.pre_mix[row * n + threadIdx.x] = threadIdx.x == 0 ? 1.0f : 0.0f;
}

// kEach neighbouring values, moved in one access.
template <int kEach>
struct alignas(kEach * sizeof(BF16)) Piece {
  BF16 value[kEach];
};
constexpr int kPiece = 4, kWidePiece = 8;

template <int kEach>
__global__ void HyperFinishKernel(HyperFinishParams p) {
  WaitForEarlier();
  const int64_t row = blockIdx.y, n = p.streams_n;
  const int64_t c = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kEach;
  if (c >= p.hidden) return;
  BF16* streams = p.streams + row * n * p.hidden + c;
  const float* comb = p.comb + row * n * n;
  Piece<kEach> old[kMaxStreams];
#pragma unroll
  for (int k = 0; k < kMaxStreams; ++k) {
    if (k < n) old[k] = *reinterpret_cast<const Piece<kEach>*>(streams + k * p.hidden);
  }
  const auto y = *reinterpret_cast<const Piece<kEach>*>(p.update + row * p.hidden + c);
  for (int64_t j = 0; j < n; ++j) {
    Piece<kEach> made;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      float mixed = 0;
#pragma unroll
      for (int k = 0; k < kMaxStreams; ++k) {
        if (k < n) mixed += comb[k * n + j] * Wide(old[k].value[i]);
      }
      made.value[i] = Narrow(p.post[row * n + j] * Wide(y.value[i]) + mixed);
    }
    *reinterpret_cast<Piece<kEach>*>(streams + j * p.hidden) = made;
  }
}

template <int kEach>
__device__ void CollapsePieces(const BF16* streams, const float* mix, int64_t n, int64_t hidden,
                               BF16* out) {
  for (int64_t c = threadIdx.x * kEach; c < hidden; c += blockDim.x * kEach) {
    float sum[kEach] = {};
    for (int64_t j = 0; j < n; ++j) {
      const auto x = *reinterpret_cast<const Piece<kEach>*>(streams + j * hidden + c);
#pragma unroll
      for (int i = 0; i < kEach; ++i) sum[i] += mix[j] * Wide(x.value[i]);
    }
#pragma unroll
    for (int i = 0; i < kEach; ++i) out[c + i] = Narrow(sum[i]);
  }
}

// u = bf16(sum_j mix_j X_j) into a row that the block shares.
__device__ void CollapseRow(const BF16* streams, const float* mix, int64_t n, int64_t hidden,
                            BF16* out) {
  if (hidden % kPiece == 0) {
    CollapsePieces<kPiece>(streams, mix, n, hidden, out);
  } else {
    CollapsePieces<1>(streams, mix, n, hidden, out);
  }
  __syncthreads();
}

// Sums of 2 kStep values over groups of as many lanes: each lane gets that of the value it counts
// to. A fixed tree.
template <int kStep>
__device__ void HalveValues(float (&v)[kWarp], int lane) {
  const bool upper = (lane & kStep) != 0;
#pragma unroll
  for (int i = 0; i < kStep; ++i) {
    const float other = __shfl_xor_sync(kAllLanes, upper ? v[i] : v[i + kStep], kStep);
    v[i] = (upper ? v[i + kStep] : v[i]) + other;
  }
  if constexpr (kStep > 1) HalveValues<kStep / 2>(v, lane);
}

// Sums of kEach mixes and of what stands behind them over the lanes: lane i gets that of value i.
// The same tree for both numbers of mixes.
template <int kEach>
__device__ float SumAcross(float (&v)[kWarp], int lane) {
  if constexpr (kEach < kWarp / 2) {
#pragma unroll
    for (int i = 0; i <= kEach; ++i) v[i] += __shfl_xor_sync(kAllLanes, v[i], kWarp / 2);
    HalveValues<kWarp / 4>(v, lane);
  } else {
    HalveValues<kWarp / 2>(v, lane);
  }
  return v[0];
}

// Four neighbouring values from c on; zeros behind the last.
__device__ float4 FourFloats(const float* row, int64_t c, int64_t width) {
  if (width % 4 == 0) return c < width ? *reinterpret_cast<const float4*>(row + c) : float4{};
  const auto at = [&](int64_t i) { return i < width ? row[i] : 0.0f; };
  return {at(c), at(c + 1), at(c + 2), at(c + 3)};
}
__device__ float4 FourHalves(const BF16* row, int64_t c, int64_t width) {
  if (width % 4 == 0) {
    if (c >= width) return {};
    const auto x = *reinterpret_cast<const Piece<4>*>(row + c);
    return {Wide(x.value[0]), Wide(x.value[1]), Wide(x.value[2]), Wide(x.value[3])};
  }
  const auto at = [&](int64_t i) { return i < width ? Wide(row[i]) : 0.0f; };
  return {at(c), at(c + 1), at(c + 2), at(c + 3)};
}

__device__ float Dot4(float4 a, float4 b) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, a.x * b.x)));
}

// Blocks that have read the streams, counted on the device: the coefficients' job sets it back
// (coefficients.cuh).
__device__ void NoteReader(unsigned* readers) {
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;\n" ::"l"(readers) : "memory");
}
__device__ void AwaitReaders(const unsigned* readers, unsigned count) {
  unsigned seen = 0;
  do {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];\n" : "=r"(seen) : "l"(readers) : "memory");
  } while (seen < count);
}

// An update that is finished on the way, and what it is made of where that was not added up.
struct Update {
  HyperFinishParams finish;
  CombineJob combine;
  template <int kEach>
  __device__ Piece<kEach> Values(int64_t row, int64_t c) const {
    if (combine.rows > 0) return CombinedPiece<Piece<kEach>, kEach>(combine, row, c);
    return *reinterpret_cast<const Piece<kEach>*>(finish.update + row * finish.hidden + c);
  }
};

// Four neighbouring values of stream j after an update, from column c of the streams on.
__device__ float4 FinishedFour(const Update& update, int64_t row, int64_t j, int64_t c) {
  const HyperFinishParams& f = update.finish;
  const int64_t n = f.streams_n;
  const BF16* streams = f.streams + row * n * f.hidden + c;
  const float* comb = f.comb + row * n * n;
  const auto y = update.Values<4>(row, c);
  Piece<4> old[kJoinedStreams];
#pragma unroll
  for (int k = 0; k < kJoinedStreams; ++k) {
    if (k < n) old[k] = *reinterpret_cast<const Piece<4>*>(streams + k * f.hidden);
  }
  const float post = f.post[row * n + j];
  float out[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float mixed = 0;
#pragma unroll
    for (int k = 0; k < kJoinedStreams; ++k) {
      if (k < n) mixed += comb[k * n + j] * Wide(old[k].value[i]);
    }
    out[i] = RoundToBF16(post * Wide(y.value[i]) + mixed);
  }
  return {out[0], out[1], out[2], out[3]};
}

// Four neighbouring columns of the streams, from column c on.
template <bool kJoined>
__device__ float4 StreamsFour(const HyperPredictParams& p, const Update& update, int64_t row,
                              int64_t c) {
  if constexpr (kJoined) {
    const auto stream =
        static_cast<int64_t>(static_cast<uint32_t>(c) / static_cast<uint32_t>(p.hidden));
    return FinishedFour(update, row, stream, c - stream * p.hidden);
  } else {
    const int64_t width = p.streams_n * p.hidden;
    return FourHalves(p.streams + row * width, c, width);
  }
}

// A warp's products of a segment of the streams of rows [first, end) with part `part` of fn, kEach
// rows of it, and the sum of squares: partial [rows, segments, chunks, 32]. A row adds up the same
// way whatever else the warp does, and whatever kEach is.
template <bool kJoined, int kEach>
__device__ void AddSegment(const HyperPredictParams& p, const Update& update, int64_t first,
                           int64_t end, int64_t segment, int part, float* partial) {
  static_assert(kMixChunk % kEach == 0);
  const int lane = static_cast<int>(threadIdx.x) % kWarp, mixes = Mixes(p);
  const int64_t width = p.streams_n * p.hidden, c = segment * kSegment + lane * 4;
  float4 f[kEach];
#pragma unroll
  for (int m = 0; m < kEach; ++m) {
    const int mix = part * kEach + m;
    f[m] = mix < mixes ? FourFloats(p.fn + mix * width, c, width) : float4{};
  }
  WaitForEarlier();  // fn is nobody's output
  const int64_t segments = SegmentsOf(p), chunks = ChunksOfMixes(mixes);
  const int chunk = part * kEach / kMixChunk, place = part * kEach % kMixChunk;
  float4 next = first < end ? StreamsFour<kJoined>(p, update, first, c) : float4{};
#pragma unroll 1
  for (int64_t row = first; row < end; ++row) {
    const float4 x = next;
    // The next row is on its way while this one is added up.
    if (row + 1 < end) next = StreamsFour<kJoined>(p, update, row + 1, c);
    float v[kWarp] = {};
#pragma unroll
    for (int m = 0; m < kEach; ++m) v[m] = Dot4(f[m], x);
    v[kEach] = Dot4(x, x);
    const float sum = SumAcross<kEach>(v, lane);
    float* to = partial + ((row * segments + segment) * chunks + chunk) * kWarp;
    if (lane < kEach) to[place + lane] = sum;
    if (lane == kEach && place == 0) to[kMixChunk] = sum;
  }
}

// The input of this sublayer, for shapes that SharedRow has no place for.
__device__ void MakeOddInput(const HyperPredictParams& p, int64_t row, BF16* collapsed) {
  const int64_t n = p.streams_n;
  CollapseRow(p.streams + row * n * p.hidden, p.pre_in + row * n, n, p.hidden, collapsed);
  NormRow(collapsed, p.norm_weight, p.hidden, p.norm_eps, p.quantise, p.normed + row * p.hidden,
          p.normed_quantised + row * p.hidden);
}

// A row of four streams on its way through shared memory, where bulk copies bring it; the blocks of
// a cluster have equal parts of its columns. Loops are not unrolled over the columns: code that
// runs once costs its way from memory.
struct SharedRow {
  static constexpr int kMostSums = kMostShared / kSegment;
  struct Head {
    uint64_t barrier[3];     // of what comes: row and update, weights, sums
    double sums[kMostSums];  // of squares, of 128 columns each: of the whole row
    float comb[kJoinedStreams * kJoinedStreams], post[kJoinedStreams], mix[kJoinedStreams];
  };
  static constexpr int kHeadBytes = (sizeof(Head) + 15) / 16 * 16;

  const HyperPredictParams& p;
  const Update& u;
  int64_t row;
  int parts;  // blocks of the cluster
  Head& head;
  int hidden = static_cast<int>(p.hidden), width = hidden / parts;
  int begin = parts > 1 ? ClusterRank() * width : 0;  // the first column of this block
  BF16* streams;                                      // [4, width]
  BF16* weight;                                       // [width], of the norm
  BF16* update;  // [1, or topk + 1 of them, width]; then the input

  __device__ SharedRow(const HyperPredictParams& params, const Update& finished, int64_t at,
                       int blocks, unsigned char* shared)
      : p(params), u(finished), row(at), parts(blocks), head(*reinterpret_cast<Head*>(shared)) {
    streams = reinterpret_cast<BF16*>(shared + kHeadBytes);
    weight = streams + kJoinedStreams * width;
    update = weight + width;
  }

  __host__ __device__ static int64_t Bytes(int64_t width, int64_t updates) {
    return kHeadBytes + (kJoinedStreams + 1 + updates) * width * 2;
  }

  // Asks for what is nobody's output.
  __device__ void Open() const {
    if (threadIdx.x == 0) {
      for (uint64_t& barrier : head.barrier) InitBarrier(SharedAddress(&barrier), 1);
      ArriveExpecting(SharedAddress(&head.barrier[2]),
                      hidden / kSegment * static_cast<int>(sizeof(double)));
      PublishBarriers();
      PublishShared();
      ArriveExpecting(SharedAddress(&head.barrier[1]), width * 2);
      Bring(p.norm_weight, weight, 1);
    }
    __syncwarp();
    if (parts > 1) ArriveCluster();
  }
  // This block's columns of a row.
  __device__ void Bring(const BF16* from, BF16* to, int which = 0) const {
    CopyBulk(SharedAddress(to), from + begin, width * 2, SharedAddress(&head.barrier[which]));
  }

  // By the first warp, a lane a copy.
  template <bool kJoined>
  __device__ void Ask() const {
    const int lane = static_cast<int>(threadIdx.x);
    const CombineJob& made = u.combine;
    const int updates = !kJoined ? 0 : made.rows > 0 ? static_cast<int>(made.topk) + 1 : 1;
    const int copies = kJoinedStreams + updates;
    if (lane == 0) ArriveExpecting(SharedAddress(&head.barrier[0]), copies * width * 2);
    __syncwarp();
    if (lane < kJoinedStreams) {
      Bring(p.streams + (row * kJoinedStreams + lane) * hidden, streams + lane * width);
    } else if (kJoined && lane < copies) {
      const int i = lane - kJoinedStreams;
      const int64_t at = i < made.topk ? row * made.topk + i : made.rows * made.topk + row;
      Bring(made.rows > 0 ? made.y + at * hidden : u.finish.update + row * hidden,
            update + i * width);
    }
  }

  template <bool kJoined>
  __device__ void Load() const {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < kWarp) Ask<kJoined>();
    constexpr int kMixes = kJoinedStreams * kJoinedStreams;
    if (kJoined && thread < kMixes) head.comb[thread] = u.finish.comb[row * kMixes + thread];
    if (thread < kJoinedStreams) {
      if (kJoined) head.post[thread] = u.finish.post[row * kJoinedStreams + thread];
      head.mix[thread] = p.pre_in[row * kJoinedStreams + thread];
    }
    __syncthreads();
    WaitBarrier(SharedAddress(&head.barrier[0]), 0);
    WaitBarrier(SharedAddress(&head.barrier[1]), 0);
  }

  __device__ float4 Four(const BF16* from) const { return FourHalves(from, 0, 4); }
  __device__ void Put(BF16* to, float4 x) const {
    *reinterpret_cast<Piece<4>*>(to) = {{Narrow(x.x), Narrow(x.y), Narrow(x.z), Narrow(x.w)}};
  }

  // What the update adds at columns c to c + 3 of the block.
  __device__ float4 UpdateAt(int c) const {
    const auto experts = static_cast<int>(u.combine.rows > 0 ? u.combine.topk : 0);
    const float4 last = Four(update + experts * width + c);
    if (experts == 0) return last;
    float4 sum = {};
#pragma unroll 2
    for (int i = 0; i < experts; ++i) sum = Add(sum, 1.0f, Four(update + i * width + c));
    return {RoundToBF16(sum.x + last.x), RoundToBF16(sum.y + last.y), RoundToBF16(sum.z + last.z),
            RoundToBF16(sum.w + last.w)};
  }

  // Finishes the update of all streams there.
  __device__ void FinishAt(int c) const {
    const float4 y = UpdateAt(c);
    float4 old[kJoinedStreams];
#pragma unroll
    for (int k = 0; k < kJoinedStreams; ++k) old[k] = Four(streams + k * width + c);
#pragma unroll 1
    for (int j = 0; j < kJoinedStreams; ++j) {
      float4 mixed = {};
#pragma unroll
      for (int k = 0; k < kJoinedStreams; ++k)
        mixed = Add(mixed, head.comb[k * kJoinedStreams + j], old[k]);
      const float w = head.post[j];
      Put(streams + j * width + c,
          {w * y.x + mixed.x, w * y.y + mixed.y, w * y.z + mixed.z, w * y.w + mixed.w});
    }
  }
  __device__ static float4 Add(float4 sum, float w, float4 x) {
    return {sum.x + w * x.x, sum.y + w * x.y, sum.z + w * x.z, sum.w + w * x.w};
  }

  // Collapses the streams, and sends the sums of squares of 128 columns to all blocks.
  template <bool kJoined>
  __device__ void Collapse() const {
#pragma unroll 1
    for (int c = static_cast<int>(threadIdx.x) * 4; c < width; c += kSiteThreads * 4) {
      if constexpr (kJoined) FinishAt(c);
      float4 sum = {};
#pragma unroll 1
      for (int j = 0; j < kJoinedStreams; ++j)
        sum = Add(sum, head.mix[j], Four(streams + j * width + c));
      Put(update + c, sum);
      const float4 x = Four(update + c);
      const double a = x.x, b = x.y, e = x.z, f = x.w;
      SendSquares(a * a + b * b + e * e + f * f, (begin + c) / kSegment);
    }
  }
  __device__ void SendSquares(double squares, int place) const {
#pragma unroll 1
    for (int step = kWarp / 2; step > 0; step /= 2)
      squares += __shfl_xor_sync(kAllLanes, squares, step);
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    if (parts == 1) {
      head.sums[place] = squares;
    } else if (lane < parts) {
      SendRemote(PlaceIn(lane, &head.sums[place]), squares, PlaceIn(lane, &head.barrier[2]));
    }
  }

  // Their sum: of two a lane, then of lanes. The same whatever the number of blocks.
  __device__ double Squares() const {
    if (parts == 1) {
      __syncthreads();
    } else {
      AwaitRemote(&head.barrier[2]);
    }
    const int lane = static_cast<int>(threadIdx.x) % kWarp, count = hidden / kSegment;
    double sum = lane < count ? head.sums[lane] : 0.0;
    if (lane + kWarp < count) sum += head.sums[lane + kWarp];
#pragma unroll 1
    for (int step = kWarp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
    return sum;
  }

  // Four columns as a reader of the encoded row sees them; groups are those of neighbouring lanes.
  __device__ Piece<4> RoundTrip(const Piece<4>& x) const {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) largest = fmaxf(largest, fabsf(Wide(x.value[i])));
    const int lanes = p.quantise == RowFormat::kFp4E4M3 ? 4 : 8;
#pragma unroll 1
    for (int step = 1; step < lanes; step *= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
    }
    const uint8_t scale = ScaleCode(p.quantise, largest);
    Piece<4> out;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out.value[i] = Narrow(CodeValue(p.quantise, scale, Wide(x.value[i])).value);
    }
    return out;
  }

  __device__ void Normalise() const {
    const auto mean = static_cast<float>(Squares() / static_cast<double>(hidden));
    const float inverse = 1.0f / sqrtf(mean + p.norm_eps);
    const int64_t first = row * hidden + begin;
#pragma unroll 1
    for (int c = static_cast<int>(threadIdx.x) * 4; c < width; c += kSiteThreads * 4) {
      auto x = *reinterpret_cast<const Piece<4>*>(update + c);
      const auto w = *reinterpret_cast<const Piece<4>*>(weight + c);
#pragma unroll
      for (int i = 0; i < 4; ++i) x.value[i] = NormValue(x.value[i], w.value[i], inverse);
      *reinterpret_cast<Piece<4>*>(p.normed + first + c) = x;
      *reinterpret_cast<Piece<4>*>(p.normed_quantised + first + c) = RoundTrip(x);
    }
  }

  // The finished streams back to where they were.
  __device__ void StoreStreams() const {
    const int pieces = width / 8;
    const auto* from = reinterpret_cast<const uint4*>(streams);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kJoinedStreams * pieces; i += kSiteThreads) {
      const int64_t to = (row * kJoinedStreams + i / pieces) * hidden + begin;
      reinterpret_cast<uint4*>(u.finish.streams + to)[i % pieces] = from[i];
    }
  }
};

// The input of a sublayer. Joined: finishes the update of the row too, and stores the streams when
// the blocks of the segments have read the old ones.
template <bool kJoined>
__device__ void MakeInput(const HyperPredictParams& p, const Update& update, int64_t row, int parts,
                          const unsigned* readers, unsigned segment_blocks, unsigned char* shared) {
  const SharedRow own(p, update, row, parts, shared);
  own.Open();
  WaitForEarlier();
  own.Load<kJoined>();
  if (parts > 1) WaitCluster();  // the others' barriers are there
  own.Collapse<kJoined>();
  own.Normalise();
  if constexpr (kJoined) {
    if (threadIdx.x == 0) AwaitReaders(readers, segment_blocks);
    __syncthreads();
    own.StoreStreams();
  }
}

// Shapes of SharedRow.
__host__ __device__ bool FitsSharedRow(const HyperPredictParams& p) {
  return p.streams_n == kJoinedStreams && p.hidden % kSegment == 0 && p.hidden <= kMostShared;
}

template <bool kJoined>
__host__ __device__ int64_t PartsOf(const HyperPredictParams& p) {
  return (Mixes(p) + kMixesOf<kJoined> - 1) / kMixesOf<kJoined>;
}

// Blocks that share a row's input, a cluster: as many as the device has room for at once.
int PartsOfRow(const HyperPredictParams& p) {
  constexpr int64_t kRoom = 132;
  int parts = 1;
  while (parts < 4 && FitsSharedRow(p) && p.hidden % (2 * parts * kSegment) == 0 &&
         2 * parts * p.rows <= kRoom) {
    parts *= 2;
  }
  return parts;
}

// Blocks of the segments first, `each` rows at a time, then those of the rows' inputs, `parts` a
// row. Joined: the update before is finished on the way.
template <bool kJoined>
__global__ void __launch_bounds__(kSiteThreads)
    InputAndPartialsKernel(const __grid_constant__ HyperPredictParams p,
                           const __grid_constant__ Update update, int64_t each, int parts,
                           unsigned segment_blocks, float* partial, unsigned* readers) {
  extern __shared__ __align__(16) unsigned char shared_row[];
  if (blockIdx.x >= segment_blocks) {
    const int64_t row = (blockIdx.x - segment_blocks) / static_cast<unsigned>(parts);
    if (FitsSharedRow(p)) {
      return MakeInput<kJoined>(p, update, row, parts, readers, segment_blocks, shared_row);
    }
    WaitForEarlier();
    return MakeOddInput(p, row, reinterpret_cast<BF16*>(shared_row));
  }
  const int64_t segments = SegmentsOf(p), mixed = PartsOf<kJoined>(p);
  const int64_t task = blockIdx.x * int64_t{kSiteThreads / kWarp} + threadIdx.x / kWarp;
  const int64_t first = task / (segments * mixed) * each;
  if (first < p.rows) {
    AddSegment<kJoined, kMixesOf<kJoined>>(p, update, first, min(first + each, p.rows),
                                           task / mixed % segments, static_cast<int>(task % mixed),
                                           partial);
  } else {
    WaitForEarlier();  // the counter is not set back before
  }
  if constexpr (kJoined) {
    __syncthreads();
    if (threadIdx.x == 0) NoteReader(readers);
  }
}

// Partial sums alone, of many rows: a warp has a whole chunk of fn in registers, and so half the
// exchanges between lanes of two parts. Warps of a block have neighbouring segments.
__global__ void __launch_bounds__(kManyThreads, 3)
    PartialsKernel(const __grid_constant__ HyperPredictParams p, float* partial) {
  const int64_t segment = int64_t{blockIdx.x} * (kManyThreads / kWarp) + threadIdx.x / kWarp;
  if (segment >= SegmentsOf(p)) return;
  const int64_t first = int64_t{blockIdx.y} * kManyRows;
  AddSegment<false, kMixChunk>(p, {}, first, min(first + kManyRows, p.rows), segment,
                               static_cast<int>(blockIdx.z), partial);
}

__global__ void __launch_bounds__(kRowThreads) CollapseKernel(CollapseParams p) {
  WaitForEarlier();
  extern __shared__ BF16 collapsed[];
  const int64_t row = blockIdx.x, n = p.streams_n;
  CollapseRow(p.streams + row * n * p.hidden, p.pre_mix + row * n, n, p.hidden, collapsed);
  if (p.collapsed != nullptr) {
    for (int64_t c = threadIdx.x; c < p.hidden; c += blockDim.x) {
      p.collapsed[row * p.hidden + c] = collapsed[c];
    }
  }
  NormRow(collapsed, p.norm_weight, p.hidden, p.norm_eps, RowFormat::kBF16,
          p.normed + row * p.hidden, nullptr);
}

__global__ void __launch_bounds__(kRowThreads) TapKernel(TapParams p) {
  WaitForEarlier();
  const int64_t row = blockIdx.x;
  const BF16* streams = p.streams + row * p.streams_n * p.hidden;
  ForColumns(p.hidden, [&](int64_t c, bool active) {
    float sum = 0;
    for (int64_t j = 0; active && j < p.streams_n; ++j) sum += Wide(streams[j * p.hidden + c]);
    const BF16 mean = Narrow(sum / static_cast<float>(p.streams_n));
    const Coded coded = QuantiseLane(p.quantise, Wide(mean));
    if (!active) return;
    p.out[row * p.out_stride + c] = mean;
    p.out_quantised[row * p.out_stride + c] = Narrow(coded.value);
  });
}

// Whether the update that is held can be finished on the way to p.
bool Joins(const HeldJobs& held, const HyperPredictParams& p) {
  const HyperFinishParams& f = held.finish;
  return f.rows > 0 && f.rows == p.rows && f.streams == p.streams && p.rows <= kJoinedRows &&
         FitsSharedRow(p) && held.combine.topk < kMostUpdates && held.coefficients.rows == 0;
}

}  // namespace

void Embed(const EmbedParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  EmbedParams d = p;
  d.ids = queue.Stage(p.ids, p.rows);
  LaunchEarly(&queue, EmbedKernel, Count(p.rows), kThreads, 0, d);
}

void LaunchFinish(Queue* queue, const HyperFinishParams& p) {
  const auto kernel = p.hidden % kWidePiece == 0 ? HyperFinishKernel<kWidePiece>
                      : p.hidden % kPiece == 0   ? HyperFinishKernel<kPiece>
                                                 : HyperFinishKernel<1>;
  const int64_t each = p.hidden % kWidePiece == 0 ? kWidePiece
                       : p.hidden % kPiece == 0   ? kPiece
                                                  : 1;
  const int64_t blocks = base::CeilDiv<int64_t>(p.hidden / each, kThreads);
  LaunchEarly(queue, kernel, dim3(Count(blocks), Count(p.rows)), kThreads, 0, p);
}

void HyperFinish(const HyperFinishParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  HeldJobs& held = queue.held();
  const bool combined = held.combine.rows == p.rows && held.combine.out == p.update &&
                        held.finish.rows == 0 && held.coefficients.rows == 0;
  if (!combined && (held.coefficients.rows > 0 || held.in_the_way())) queue.LaunchHeld();
  held.finish = p;
}

void HyperPredict(const HyperPredictParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  HeldJobs& held = queue.held();
  Update update;
  if (Joins(held, p)) {
    update.finish = std::exchange(held.finish, HyperFinishParams());
    update.combine = std::exchange(held.combine, CombineJob());
  }
  if (held.in_the_way() || held.coefficients.rows > 0) queue.LaunchHeld();
  const int64_t sums = SegmentsOf(p) * ChunksOfMixes(Mixes(p)) * kWarp;
  const int64_t bytes = p.rows * sums * static_cast<int64_t>(sizeof(float));
  auto* partial = static_cast<float*>(queue.Scratch(bytes, Queue::kHeldSlot));
  if (partial == nullptr) return;
  const bool many = p.rows > kJoinedRows;  // which never finish an update on the way (Joins)
  if (many) {
    const BesideHeld beside(&queue);
    const int64_t blocks = base::CeilDiv<int64_t>(SegmentsOf(p), kManyThreads / kWarp);
    const dim3 grid(Count(blocks), Count(base::CeilDiv<int64_t>(p.rows, kManyRows)),
                    Count(ChunksOfMixes(Mixes(p))));
    LaunchEarly(&queue, PartialsKernel, grid, kManyThreads, 0, p, partial);
  }
  const int64_t each = std::clamp<int64_t>(p.rows / kRowsOfOne, 1, kMostRows);
  const bool joined = update.finish.rows > 0;
  const int64_t tasks = SegmentsOf(p) * (joined ? PartsOf<true>(p) : PartsOf<false>(p));
  const int64_t all = many ? 0 : base::CeilDiv(p.rows, each) * tasks;
  const int parts = PartsOfRow(p);  // clusters are of one kind of blocks
  const auto segment_blocks =
      Count(base::RoundUp<int64_t>(base::CeilDiv<int64_t>(all, kSiteThreads / kWarp), parts));
  const int64_t updates = update.combine.rows > 0 ? update.combine.topk + 1 : 1;
  const int64_t shared =
      FitsSharedRow(p) ? SharedRow::Bytes(p.hidden / parts, updates) : p.hidden * 2;
  const auto kernel = joined ? InputAndPartialsKernel<true> : InputAndPartialsKernel<false>;
  AllowShared(&queue, kernel, shared);
  {
    const BesideHeld beside(&queue);
    LaunchClusters(&queue, kernel, segment_blocks + Count(p.rows * parts), parts, kSiteThreads,
                   shared, p, update, each, parts, segment_blocks, partial, queue.readers());
  }
  held.coefficients = p;
  held.partial = partial;
  held.readers = queue.readers();
}

void Collapse(const CollapseParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const int64_t shared = p.hidden * static_cast<int64_t>(sizeof(BF16));
  AllowShared(&queue, CollapseKernel, shared);
  LaunchEarly(&queue, CollapseKernel, Count(p.rows), kRowThreads, shared, p);
}

void Tap(const TapParams& p) {
  if (p.rows == 0) return;
  LaunchEarly(&QueueOf(p.stream), TapKernel, Count(p.rows), kRowThreads, 0, p);
}

void Norm(const NormParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  if (queue.held().in_the_way()) queue.LaunchHeld();
  queue.held().norm = p;
}

}  // namespace thalweg::kernels::cuda
