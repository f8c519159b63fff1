// The router's choice from its products (model.md 2.6), a warp a row.
#pragma once

#include "kernels/cuda/device.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kMaxTopk = kWarp;
inline constexpr int kMaxExperts = 1024;

// sqrt(softplus(z)); the linear branch is where log1p(exp(z)) = z in fp32 anyway.
__device__ inline float RouterScore(float z) {
  constexpr float kLinearAbove = 20.0f;
  return sqrtf(z > kLinearAbove ? z : log1pf(expf(z)));
}

// Higher first, equal ones by the lowest index; NaN last.
struct Candidate {
  float score;
  int index;
};
__device__ inline bool Better(Candidate a, Candidate b) {
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

// Products of some rows as scores, by a block, and what they are chosen by. Code that runs once
// costs its way from memory: no loop is unrolled here.
struct ScoreTable {
  float* biased;  // [rows, experts]
  float* score;

  __device__ void Fill(const GateParams& p, const float* z, int64_t first, int rows) const {
    const int experts = static_cast<int>(p.experts);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < rows * experts;
         i += static_cast<int>(blockDim.x)) {
      const int64_t row = first + i / experts;
      const bool image = p.row_is_image != nullptr && p.row_is_image[row] != 0;
      const float one = RouterScore(z[first * experts + i]);
      const float sum = one + (image ? p.image_bias : p.bias)[i % experts];
      score[i] = one;
      biased[i] = isnan(sum) ? -INFINITY : sum;
    }
  }
};
inline int64_t ScoreBytes(int64_t rows, int64_t experts) { return 2 * rows * experts * 4; }

// A lane's experts: lane, lane + 32, ...
template <int kEach>
struct RowScores {
  float biased[kEach];
  unsigned taken = 0;
  int lane = static_cast<int>(threadIdx.x) % kWarp, experts;

  __device__ void Load(const float* from) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = lane + k * kWarp;
      biased[k] = e < experts ? from[e] : 0.0f;
      if (e >= experts) taken |= 1u << k;
    }
  }

  // The best of those not taken, in every lane; it is taken then.
  __device__ int Take() {
    Candidate best = {-INFINITY, experts};
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const Candidate next = {biased[k], lane + k * kWarp};
      if ((taken >> k & 1u) == 0 && Better(next, best)) best = next;
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const Candidate other = {__shfl_xor_sync(kAllLanes, best.score, step),
                               __shfl_xor_sync(kAllLanes, best.index, step)};
      if (Better(other, best)) best = other;
    }
    if (best.index % kWarp == lane) taken |= 1u << best.index / kWarp;
    return best.index;
  }
};

// A warp chooses for a row, from its line of the table.
template <int kEach>
__device__ inline void ChooseFew(const GateParams& p, const float* biased, const float* scores,
                                 int64_t row) {
  const int experts = static_cast<int>(p.experts), topk = static_cast<int>(p.topk);
  RowScores<kEach> rest{.experts = experts};
  const int lane = rest.lane;
  rest.Load(biased);
  int mine = experts;  // lane i keeps the i-th best
#pragma unroll 1
  for (int i = 0; i < topk; ++i) {
    const int best = rest.Take();
    if (lane == i) mine = best;
  }
  const float score = mine < experts ? scores[mine] : 0.0f;
  int place = 0;
#pragma unroll 1
  for (int i = 0; i < topk; ++i) place += __shfl_sync(kAllLanes, mine, i) < mine ? 1 : 0;
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < topk; ++i) {  // ascending
    const unsigned there = __ballot_sync(kAllLanes, lane < topk && place == i);
    sum += __shfl_sync(kAllLanes, score, __ffs(static_cast<int>(there)) - 1);
  }
  if (lane >= topk) return;
  p.chosen[row * topk + place] = mine;
  p.weights[row * topk + place] = score / (sum + 1e-20f) * p.route_scale;
}

// Rows [first, first + rows) by a block, a warp each; table: ScoreBytes.
__device__ inline void ChooseByBlock(const GateParams& p, const float* z, int64_t first, int rows,
                                     float* table) {
  const int experts = static_cast<int>(p.experts);
  const ScoreTable scores{table, table + rows * experts};
  scores.Fill(p, z, first, rows);
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) / kWarp;
  if (row >= rows) return;
  const float *biased = scores.biased + row * experts, *score = scores.score + row * experts;
  if (experts <= 12 * kWarp) return ChooseFew<12>(p, biased, score, first + row);
  ChooseFew<kMaxExperts / kWarp>(p, biased, score, first + row);
}

}  // namespace thalweg::kernels::cuda
