// Single-pass hyper-connections, embedding, taps, the last collapse and norms (model.md 2.1, 2.2).
#include <algorithm>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/row_pieces.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowPieces = 3;     // of a thread, of rows that are kept in registers
constexpr int kRowThreads = 512;  // that share a row
constexpr int kMaxStreams = 8;    // as the checkpoint room limits them
constexpr int kSegment = 128;     // columns of a warp in the coefficients' product
constexpr int kMixChunk = 24;     // rows of fn that a warp multiplies at a time
constexpr int kMostMixes = 2 * kMaxStreams + kMaxStreams * kMaxStreams;
constexpr int kMostChunks = (kMostMixes + kMixChunk - 1) / kMixChunk;
constexpr int kRowsOfOne = 8, kMostRows = 16;  // a warp has more rows where there are many

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
constexpr int kPiece = 4;

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

// RMSNorm of a row; `normed` and `quantised` may be null.
__device__ void NormRow(const BF16* row, const BF16* weight, int64_t width, float eps,
                        RowFormat format, BF16* normed, BF16* quantised) {
  const float inverse = InverseRms(row, width, eps);
  ForColumns(width, [&](int64_t c, bool active) {
    const BF16 x = active ? NormValue(row[c], weight[c], inverse) : BF16{0};
    if (active && normed != nullptr) normed[c] = x;
    if (quantised == nullptr) return;
    const Coded coded = QuantiseLane(format, Wide(x));
    if (active) quantised[c] = Narrow(coded.value);
  });
}

// The same of a row in registers.
template <int kPieces>
__device__ void NormPieces(RowPieces<kPieces>& row, const BF16* weight, float eps, RowFormat format,
                           BF16* normed, BF16* quantised) {
  row.Norm(weight, eps);
  if (normed != nullptr) row.Store(normed);
  if (quantised == nullptr) return;
  row.RoundTrip(format);
  row.Store(quantised);
}

__host__ __device__ int Mixes(const HyperPredictParams& p) {
  return static_cast<int>(2 * p.streams_n + p.streams_n * p.streams_n);
}
__host__ __device__ int64_t ChunksOfMixes(int mixes) { return (mixes + kMixChunk - 1) / kMixChunk; }
__host__ __device__ int64_t SegmentsOf(const HyperPredictParams& p) {
  return (p.streams_n * p.hidden + kSegment - 1) / kSegment;
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

// Sums of 32 values over the lanes: lane i gets that of value i.
__device__ float SumAcross(float (&v)[kWarp], int lane) {
  HalveValues<kWarp / 2>(v, lane);
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

// A warp's products of a segment of the streams of rows [first, end) with kMixChunk rows of fn from
// `mix` on, and the sum of squares: partial [rows, segments, chunks, 32]. A row adds up the same
// way whatever else the warp does.
__device__ void AddSegment(const HyperPredictParams& p, int64_t first, int64_t end, int64_t segment,
                           int chunk, float* partial) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, mixes = Mixes(p);
  const int64_t width = p.streams_n * p.hidden, c = segment * kSegment + lane * 4;
  float4 f[kMixChunk];
#pragma unroll
  for (int m = 0; m < kMixChunk; ++m) {
    const int mix = chunk * kMixChunk + m;
    f[m] = mix < mixes ? FourFloats(p.fn + mix * width, c, width) : float4{};
  }
  WaitForEarlier();  // fn is nobody's output
  const int64_t segments = SegmentsOf(p), chunks = ChunksOfMixes(mixes);
#pragma unroll 2
  for (int64_t row = first; row < end; ++row) {
    const float4 x = FourHalves(p.streams + row * width, c, width);
    float v[kWarp] = {};
#pragma unroll
    for (int m = 0; m < kMixChunk; ++m) v[m] = Dot4(f[m], x);
    v[kMixChunk] = Dot4(x, x);
    partial[((row * segments + segment) * chunks + chunk) * kWarp + lane] = SumAcross(v, lane);
  }
}

// The input of this sublayer.
__device__ void MakeInput(const HyperPredictParams& p, int64_t row, BF16* collapsed) {
  const int64_t n = p.streams_n;
  const BF16* streams = p.streams + row * n * p.hidden;
  BF16 *normed = p.normed + row * p.hidden, *quantised = p.normed_quantised + row * p.hidden;
  if (FitsPieces<kRowPieces>(p.hidden, kThreads)) {
    RowPieces<kRowPieces> pieces{.width = static_cast<int>(p.hidden)};
    pieces.LoadMixed(streams, p.pre_in + row * n, n);
    NormPieces(pieces, p.norm_weight, p.norm_eps, p.quantise, normed, quantised);
    return;
  }
  CollapseRow(streams, p.pre_in + row * n, n, p.hidden, collapsed);
  NormRow(collapsed, p.norm_weight, p.hidden, p.norm_eps, p.quantise, normed, quantised);
}

// Blocks of the rows' inputs first, then those of the segments: `each` rows at a time.
__global__ void __launch_bounds__(kThreads)
    InputAndPartialsKernel(HyperPredictParams p, int64_t each, float* partial) {
  extern __shared__ BF16 collapsed[];
  if (blockIdx.x < p.rows) {
    WaitForEarlier();
    return MakeInput(p, blockIdx.x, collapsed);
  }
  const int64_t segments = SegmentsOf(p), chunks = ChunksOfMixes(Mixes(p));
  const int64_t task = (blockIdx.x - p.rows) * (kThreads / kWarp) + threadIdx.x / kWarp;
  const int64_t first = task / (segments * chunks) * each;
  if (first >= p.rows) return;
  AddSegment(p, first, min(first + each, p.rows), task / chunks % segments,
             static_cast<int>(task % chunks), partial);
}

// Divides element (a, b) by the sum over its row (or column) + eps; one thread an element.
__device__ void NormaliseLine(float* comb, int n, bool row, float eps, bool wide) {
  const int i = static_cast<int>(threadIdx.x);
  const int first = row ? i / n * n : i % n;
  float value = 0;
  if (i < n * n) {
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += comb[first + k * (row ? 1 : n)];
    value = comb[i] / (sum + eps);
  }
  wide ? __syncthreads() : __syncwarp();
  if (i < n * n) comb[i] = value;
  wide ? __syncthreads() : __syncwarp();
}

// The same of four streams, an element a lane of the first warp.
__device__ float NormaliseFour(float value, int first, int stride, float eps) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) sum += __shfl_sync(kAllLanes, value, first + k * stride);
  return value / (sum + eps);
}

// Softmax over the rows, a column pass, then iters - 1 row and column passes.
__device__ void Sinkhorn(float* comb, int n, int iters, float eps) {
  const int i = static_cast<int>(threadIdx.x);
  const bool wide = n * n > kWarp;
  float value = 0;
  if (i < n * n) {
    const float* row = comb + i / n * n;
    float top = row[0], sum = 0;
    for (int k = 1; k < n; ++k) top = fmaxf(top, row[k]);
    for (int k = 0; k < n; ++k) sum += expf(row[k] - top);
    value = expf(comb[i] - top) / sum + eps;
  }
  if (n == 4) {
    if (i >= kWarp) return;
    const int lane = i % 16;  // the upper half repeats the lower
    value = __shfl_sync(kAllLanes, value, lane);
    value = NormaliseFour(value, lane % 4, 4, eps);
    for (int pass = 1; pass < iters; ++pass) {
      value = NormaliseFour(value, lane / 4 * 4, 1, eps);
      value = NormaliseFour(value, lane % 4, 4, eps);
    }
    if (i < 16) comb[i] = value;
    return;
  }
  __syncthreads();
  if (i < n * n) comb[i] = value;
  __syncthreads();
  if (!wide && i >= kWarp) return;
  NormaliseLine(comb, n, false, eps, wide);
  for (int pass = 1; pass < iters; ++pass) {
    NormaliseLine(comb, n, true, eps, wide);
    NormaliseLine(comb, n, false, eps, wide);
  }
}

struct Totals {
  double part[kThreads / kWarp][kMostChunks * kWarp];
  double total[kMostChunks * kWarp];
};

// Adds the partial sums of a row up: each warp a run of segments in order, then the runs in order.
__device__ void AddPartials(const HyperPredictParams& p, int64_t row, const float* partial,
                            Totals* totals) {
  constexpr int kWarps = kThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t segments = SegmentsOf(p), chunks = ChunksOfMixes(Mixes(p));
  const int64_t run = (segments + kWarps - 1) / kWarps;
  const int64_t begin = warp * run, end = min(begin + run, segments);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const float* from = partial + (row * segments * chunks + chunk) * kWarp + lane;
    double sum = 0;
#pragma unroll 10
    for (int64_t s = begin; s < end; ++s) sum += from[s * chunks * kWarp];
    totals->part[warp][chunk * kWarp + lane] = sum;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < chunks * kWarp; i += kThreads) {
    double sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += totals->part[w][i];
    totals->total[i] = sum;
  }
  __syncthreads();
}

// The coefficients of the next sublayer.
__global__ void __launch_bounds__(kThreads)
    CoefficientsKernel(HyperPredictParams p, const float* partial) {
  WaitForEarlier();
  __shared__ Totals totals;
  __shared__ float comb[kMaxStreams * kMaxStreams];
  const int64_t row = blockIdx.x;
  const int n = static_cast<int>(p.streams_n), mixes = Mixes(p);
  const int i = static_cast<int>(threadIdx.x);
  AddPartials(p, row, partial, &totals);
  const double squares = totals.total[kMixChunk];
  const auto mean = static_cast<float>(squares / static_cast<double>(n * p.hidden));
  const float rr = 1.0f / sqrtf(mean + p.norm_eps);
  if (i < mixes) {
    const double product = totals.total[i / kMixChunk * kWarp + i % kMixChunk];
    const float mix = static_cast<float>(product) * rr;
    const float scaled = mix * p.scale[i < n ? 0 : i < 2 * n ? 1 : 2] + p.base[i];
    if (i < n) {
      p.pre_out[row * n + i] = SigmoidOf(scaled) + p.hc_eps;
    } else if (i < 2 * n) {
      p.post[row * n + i - n] = 2.0f * SigmoidOf(scaled);
    } else {
      comb[i - 2 * n] = scaled;
    }
  }
  __syncthreads();
  Sinkhorn(comb, n, p.sinkhorn_iters, p.hc_eps);
  if (i < n * n) p.comb[row * n * n + i] = comb[i];
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

template <int kPieces>
__device__ void NormWhole(const NormParams& p, int64_t at) {
  RowPieces<kPieces> pieces{.width = static_cast<int>(p.width)};
  pieces.Load(p.x + at);
  NormPieces(pieces, p.weight, p.eps, p.quantise, p.out == nullptr ? nullptr : p.out + at,
             p.out_quantised == nullptr ? nullptr : p.out_quantised + at);
}

__global__ void __launch_bounds__(kThreads) NormKernel(NormParams p) {
  WaitForEarlier();
  const int64_t at = static_cast<int64_t>(blockIdx.x) * p.width;
  if (FitsPieces<1>(p.width, kThreads)) return NormWhole<1>(p, at);
  if (FitsPieces<kRowPieces>(p.width, kThreads)) return NormWhole<kRowPieces>(p, at);
  NormRow(p.x + at, p.weight, p.width, p.eps, p.quantise, p.out == nullptr ? nullptr : p.out + at,
          p.out_quantised == nullptr ? nullptr : p.out_quantised + at);
}

}  // namespace

void Embed(const EmbedParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  EmbedParams d = p;
  d.ids = queue.Stage(p.ids, p.rows);
  LaunchEarly(&queue, EmbedKernel, Count(p.rows), kThreads, 0, d);
}

void HyperFinish(const HyperFinishParams& p) {
  if (p.rows == 0) return;
  const bool pieces = p.hidden % kPiece == 0;
  const int64_t threads = pieces ? p.hidden / kPiece : p.hidden;
  const dim3 grid(Count(base::CeilDiv<int64_t>(threads, kThreads)), Count(p.rows));
  const auto kernel = pieces ? HyperFinishKernel<kPiece> : HyperFinishKernel<1>;
  LaunchEarly(&QueueOf(p.stream), kernel, grid, kThreads, 0, p);
}

void HyperPredict(const HyperPredictParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const int64_t tasks = SegmentsOf(p) * ChunksOfMixes(Mixes(p));
  const int64_t bytes = p.rows * tasks * kWarp * static_cast<int64_t>(sizeof(float));
  auto* partial = static_cast<float*>(queue.Scratch(bytes));
  if (partial == nullptr) return;
  const int64_t each = std::clamp<int64_t>(p.rows / kRowsOfOne, 1, kMostRows);
  const int64_t all = base::CeilDiv(p.rows, each) * tasks;
  const int64_t blocks = p.rows + base::CeilDiv<int64_t>(all, kThreads / kWarp);
  const int64_t shared = p.hidden * static_cast<int64_t>(sizeof(BF16));
  AllowShared(&queue, InputAndPartialsKernel, shared);
  LaunchEarly(&queue, InputAndPartialsKernel, Count(blocks), kThreads, shared, p, each, partial);
  LaunchEarly(&queue, CoefficientsKernel, Count(p.rows), kThreads, 0, p, partial);
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
  LaunchEarly(&QueueOf(p.stream), NormKernel, Count(p.rows), kThreads, 0, p);
}

}  // namespace thalweg::kernels::cuda
