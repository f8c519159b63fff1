// Coefficients of hyper-connections: partial products of rows of streams with the matrix that
// predicts them, added up, and Sinkhorn's passes (model.md 2.2).
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/norm_rows.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kMaxStreams = 8;  // as the checkpoint room limits them
inline constexpr int kSegment = 128;   // columns of a warp in the coefficients' product
inline constexpr int kMixChunk = 24;   // rows of fn that a warp multiplies at a time
inline constexpr int kMostMixes = 2 * kMaxStreams + kMaxStreams * kMaxStreams;
inline constexpr int kMostChunks = (kMostMixes + kMixChunk - 1) / kMixChunk;

__host__ __device__ inline int Mixes(const HyperPredictParams& p) {
  return static_cast<int>(2 * p.streams_n + p.streams_n * p.streams_n);
}
__host__ __device__ inline int64_t ChunksOfMixes(int mixes) {
  return (mixes + kMixChunk - 1) / kMixChunk;
}
__host__ __device__ inline int64_t SegmentsOf(const HyperPredictParams& p) {
  return (p.streams_n * p.hidden + kSegment - 1) / kSegment;
}

// Divides element (a, b) by the sum over its row (or column) + eps; one thread an element.
__device__ inline void NormaliseLine(float* comb, int n, bool row, float eps, bool wide) {
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
__device__ inline float NormaliseFour(float value, int first, int stride, float eps) {
  float sum = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) sum += __shfl_sync(kAllLanes, value, first + k * stride);
  return value / (sum + eps);
}

// Softmax over the rows, a column pass, then iters - 1 row and column passes.
__device__ inline void Sinkhorn(float* comb, int n, int iters, float eps) {
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
  double part[kRowJobThreads / kWarp][kMostChunks * kWarp];
  double total[kMostChunks * kWarp];
};

// Adds the partial sums of a row up: each warp a run of segments in order, then the runs in order.
__device__ inline void AddPartials(const HyperPredictParams& p, int64_t row, const float* partial,
                                   Totals* totals) {
  constexpr int kWarps = kRowJobThreads / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int64_t segments = SegmentsOf(p), chunks = ChunksOfMixes(Mixes(p));
  const int64_t run = (segments + kWarps - 1) / kWarps;
  const int64_t begin = warp * run, end = min(begin + run, segments);
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const float* from = partial + (row * segments * chunks + chunk) * kWarp + lane;
    // Behind the last mix there is nothing but the squares.
    const bool mix = lane < kMixChunk && chunk * kMixChunk + lane < Mixes(p);
    const int64_t last = mix || lane == kMixChunk ? end : begin;
    double sum = 0;
#pragma unroll 10
    for (int64_t s = begin; s < last; ++s) sum += from[s * chunks * kWarp];
    totals->part[warp][chunk * kWarp + lane] = sum;
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < chunks * kWarp; i += kRowJobThreads) {
    double sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += totals->part[w][i];
    totals->total[i] = sum;
  }
  __syncthreads();
}

// The coefficients of the next sublayer for a row, by a block of kRowJobThreads.
__device__ inline void MakeCoefficients(const HyperPredictParams& p, const float* partial,
                                        int64_t row) {
  __shared__ Totals totals;
  __shared__ float comb[kMaxStreams * kMaxStreams];
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

}  // namespace thalweg::kernels::cuda
