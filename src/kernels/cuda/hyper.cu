// Single-pass hyper-connections, embedding, taps, the last collapse and norms (model.md 2.1, 2.2).
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kRowThreads = 512;     // that share a row
constexpr int kMaxStreams = 8;       // as the checkpoint room limits them
constexpr int kSplitColumns = 1024;  // of the coefficients' product, whatever the batch
constexpr int kManyRows = 8, kFewRows = 2;
constexpr int kMixThreads = 128;  // at least the mixes of kMaxStreams
constexpr int kMixesEach = 4;     // sums of a warp at a time

__global__ void EmbedKernel(EmbedParams p) {
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

__device__ int Mixes(const HyperPredictParams& p) {
  return static_cast<int>(2 * p.streams_n + p.streams_n * p.streams_n);
}

// Each warp makes kMixesEach of the sums from `first_mix` on, for all rows.
template <int kRows>
__device__ void AddPartials(const HyperPredictParams& p, const BF16 (&x)[kRows][kSplitColumns],
                            int64_t begin, int columns, int first_mix, double* partial) {
  constexpr int kWarps = kThreads / kWarp;
  const int64_t width = p.streams_n * p.hidden;
  const int mixes = Mixes(p), lane = static_cast<int>(threadIdx.x) % kWarp;
  const int mine = first_mix + static_cast<int>(threadIdx.x) / kWarp;
  float sum[kMixesEach][kRows] = {};
  for (int c = lane; c < columns; c += kWarp) {
    float f[kMixesEach];
#pragma unroll
    for (int m = 0; m < kMixesEach; ++m) {
      const int i = mine + m * kWarps;
      f[m] = i < mixes ? p.fn[i * width + begin + c] : 0.0f;
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float v = Wide(x[r][c]);
#pragma unroll
      for (int m = 0; m < kMixesEach; ++m) {
        sum[m][r] = fmaf(mine + m * kWarps == mixes ? v : f[m], v, sum[m][r]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kMixesEach; ++m) {
    const int i = mine + m * kWarps;
    if (i > mixes) return;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const int64_t row = static_cast<int64_t>(blockIdx.y) * kRows + r;
      double total = sum[m][r];
      for (int step = kWarp / 2; step > 0; step /= 2) {
        total += __shfl_xor_sync(kAllLanes, total, step);
      }
      if (lane == 0 && row < p.rows) {
        partial[(row * gridDim.x + blockIdx.x) * (mixes + 1) + i] = total;
      }
    }
  }
}

// Products of kRows rows of the streams with every row of fn over one split of the columns, and
// behind them the sums of squares: partial [rows, splits, mixes + 1]. A row adds up the same way
// whatever kRows is.
template <int kRows>
__global__ void MixPartialsKernel(HyperPredictParams p, double* partial) {
  __shared__ BF16 x[kRows][kSplitColumns];
  const int64_t width = p.streams_n * p.hidden;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kRows;
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kSplitColumns;
  const int columns = static_cast<int>(min(static_cast<int64_t>(kSplitColumns), width - begin));
  for (int r = 0; r < kRows; ++r) {
    for (int c = static_cast<int>(threadIdx.x); c < columns; c += kThreads) {
      x[r][c] = first + r < p.rows ? p.streams[(first + r) * width + begin + c] : BF16{0};
    }
  }
  __syncthreads();
  for (int first_mix = 0; first_mix <= Mixes(p); first_mix += kThreads / kWarp * kMixesEach) {
    AddPartials<kRows>(p, x, begin, columns, first_mix, partial);
  }
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

__device__ void PredictRow(const HyperPredictParams& p, int64_t row, const double* partial,
                           int64_t splits) {
  __shared__ double total[2 * kMaxStreams + kMaxStreams * kMaxStreams + 1];
  __shared__ float comb[kMaxStreams * kMaxStreams];
  const int n = static_cast<int>(p.streams_n);
  const int mixes = 2 * n + n * n;
  const int i = static_cast<int>(threadIdx.x);
  if (i <= mixes) {
    double sum = 0;
    for (int64_t s = 0; s < splits; ++s) sum += partial[(row * splits + s) * (mixes + 1) + i];
    total[i] = sum;
  }
  __syncthreads();
  const auto mean = static_cast<float>(total[mixes] / static_cast<double>(n * p.hidden));
  const float rr = 1.0f / sqrtf(mean + p.norm_eps);
  if (i < mixes) {
    const float mix = static_cast<float>(total[i]) * rr;
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

// The coefficients of the next sublayer.
__global__ void __launch_bounds__(kMixThreads)
    CoefficientsKernel(HyperPredictParams p, const double* partial, int64_t splits) {
  PredictRow(p, blockIdx.x, partial, splits);
}

// The input of this sublayer.
__global__ void __launch_bounds__(kRowThreads) InputKernel(HyperPredictParams p) {
  extern __shared__ BF16 collapsed[];
  const int64_t row = blockIdx.x, n = p.streams_n;
  CollapseRow(p.streams + row * n * p.hidden, p.pre_in + row * n, n, p.hidden, collapsed);
  NormRow(collapsed, p.norm_weight, p.hidden, p.norm_eps, p.quantise, p.normed + row * p.hidden,
          p.normed_quantised + row * p.hidden);
}

__global__ void __launch_bounds__(kRowThreads) CollapseKernel(CollapseParams p) {
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

__global__ void __launch_bounds__(kRowThreads) NormKernel(NormParams p) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * p.width;
  NormRow(p.x + at, p.weight, p.width, p.eps, p.quantise, p.out == nullptr ? nullptr : p.out + at,
          p.out_quantised == nullptr ? nullptr : p.out_quantised + at);
}

template <int kRows>
void LaunchPartials(const HyperPredictParams& p, int64_t splits, double* partial, Queue* queue) {
  const dim3 grid(Count(splits), Count(base::CeilDiv<int64_t>(p.rows, kRows)));
  MixPartialsKernel<kRows><<<grid, kThreads, 0, queue->stream()>>>(p, partial);
}

}  // namespace

void Embed(const EmbedParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  EmbedParams d = p;
  d.ids = queue.Stage(p.ids, p.rows);
  EmbedKernel<<<Count(p.rows), kThreads, 0, queue.stream()>>>(d);
}

void HyperFinish(const HyperFinishParams& p) {
  if (p.rows == 0) return;
  const bool pieces = p.hidden % kPiece == 0;
  const int64_t threads = pieces ? p.hidden / kPiece : p.hidden;
  const dim3 grid(Count(base::CeilDiv<int64_t>(threads, kThreads)), Count(p.rows));
  const cudaStream_t stream = QueueOf(p.stream).stream();
  if (pieces) {
    HyperFinishKernel<kPiece><<<grid, kThreads, 0, stream>>>(p);
  } else {
    HyperFinishKernel<1><<<grid, kThreads, 0, stream>>>(p);
  }
}

void HyperPredict(const HyperPredictParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const int64_t mixes = 2 * p.streams_n + p.streams_n * p.streams_n;
  const int64_t splits = base::CeilDiv<int64_t>(p.streams_n * p.hidden, kSplitColumns);
  const int64_t bytes = p.rows * splits * (mixes + 1) * static_cast<int64_t>(sizeof(double));
  auto* partial = static_cast<double*>(queue.Scratch(bytes));
  if (partial == nullptr) return;
  if (p.rows > 2 * kManyRows) {
    LaunchPartials<kManyRows>(p, splits, partial, &queue);
  } else {
    LaunchPartials<kFewRows>(p, splits, partial, &queue);
  }
  const int64_t shared = p.hidden * static_cast<int64_t>(sizeof(BF16));
  CoefficientsKernel<<<Count(p.rows), kMixThreads, 0, queue.stream()>>>(p, partial, splits);
  AllowShared(&queue, InputKernel, shared);
  InputKernel<<<Count(p.rows), kRowThreads, static_cast<size_t>(shared), queue.stream()>>>(p);
}

void Collapse(const CollapseParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const int64_t shared = p.hidden * static_cast<int64_t>(sizeof(BF16));
  AllowShared(&queue, CollapseKernel, shared);
  CollapseKernel<<<Count(p.rows), kRowThreads, static_cast<size_t>(shared), queue.stream()>>>(p);
}

void Tap(const TapParams& p) {
  if (p.rows == 0) return;
  TapKernel<<<Count(p.rows), kRowThreads, 0, QueueOf(p.stream).stream()>>>(p);
}

void Norm(const NormParams& p) {
  if (p.rows == 0) return;
  NormKernel<<<Count(p.rows), kRowThreads, 0, QueueOf(p.stream).stream()>>>(p);
}

}  // namespace thalweg::kernels::cuda
