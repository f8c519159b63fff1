// The router's choice (model.md 2.6); its product is Product's.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_early.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kRowsPerBlock = 4;
constexpr int kMaxTopk = kWarp;
constexpr int kMaxExperts = 1024;

// sqrt(softplus(z)); the linear branch is where log1p(exp(z)) = z in fp32 anyway.
__device__ float RouterScore(float z) {
  constexpr float kLinearAbove = 20.0f;
  return sqrtf(z > kLinearAbove ? z : log1pf(expf(z)));
}

// Higher first, equal ones by the lowest index; NaN last.
struct Candidate {
  float score;
  int index;
};
__device__ bool Better(Candidate a, Candidate b) {
  return a.score > b.score || (a.score == b.score && a.index < b.index);
}

// A lane's experts: lane, lane + 32, ... Scores stay in registers.
template <int kEach>
struct RowScores {
  float score[kEach], biased[kEach];
  unsigned taken = 0;
  int lane = static_cast<int>(threadIdx.x) % kWarp, experts;

  __device__ void Load(const float* z, const float* bias) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const int e = lane + k * kWarp;
      score[k] = e < experts ? z[e] : 0.0f;
      biased[k] = e < experts ? bias[e] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      score[k] = RouterScore(score[k]);
      const float sum = score[k] + biased[k];
      biased[k] = isnan(sum) ? -INFINITY : sum;
      if (lane + k * kWarp >= experts) taken |= 1u << k;
    }
  }

  // The best of those not taken, in every lane; it is taken then. `value` is its score.
  __device__ int Take(float* value) {
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
    float own = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (lane + k * kWarp != best.index) continue;
      taken |= 1u << k;
      own = score[k];
    }
    *value = __shfl_sync(kAllLanes, own, best.index % kWarp);
    return best.index;
  }
};

// A warp chooses for a row; z [rows, experts] holds the products.
template <int kEach>
__global__ void ChooseKernel(GateParams p, const float* z) {
  WaitForEarlier();
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kWarp;
  if (row >= p.rows) return;
  const bool image = p.row_is_image != nullptr && p.row_is_image[row] != 0;
  const int experts = static_cast<int>(p.experts), topk = static_cast<int>(p.topk);
  RowScores<kEach> scores{.experts = experts};
  const int lane = scores.lane;
  scores.Load(z + row * experts, image ? p.image_bias : p.bias);
  int mine = experts;  // lane i keeps the i-th best
  float score = 0;
  for (int i = 0; i < topk; ++i) {
    float value = 0;
    const int best = scores.Take(&value);
    if (lane == i) mine = best;
    if (lane == i) score = value;
  }
  int place = 0;
  for (int i = 0; i < topk; ++i) place += __shfl_sync(kAllLanes, mine, i) < mine ? 1 : 0;
  float sum = 0;
  for (int i = 0; i < topk; ++i) {  // ascending
    const unsigned there = __ballot_sync(kAllLanes, lane < topk && place == i);
    sum += __shfl_sync(kAllLanes, score, __ffs(static_cast<int>(there)) - 1);
  }
  if (lane >= topk) return;
  p.chosen[row * topk + place] = mine;
  p.weights[row * topk + place] = score / (sum + 1e-20f) * p.route_scale;
}

template <int kEach>
void Choose(const GateParams& p, const float* z, Queue* queue) {
  const int64_t blocks = base::CeilDiv<int64_t>(p.rows, kRowsPerBlock);
  LaunchEarly(queue, ChooseKernel<kEach>, Count(blocks), kRowsPerBlock * kWarp, 0, p, z);
}

}  // namespace

void Gate(const GateParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  if (p.topk > kMaxTopk || p.experts > kMaxExperts) return queue.Note(cudaErrorNotSupported);
  auto* z =
      static_cast<float*>(queue.Scratch(p.rows * p.experts * static_cast<int64_t>(sizeof(float))));
  if (z == nullptr) return;
  Product(p.stream, p.weight, p.x, p.hidden, p.rows, z);
  GateParams d = p;
  d.row_is_image = queue.Stage(p.row_is_image, p.rows);
  if (p.experts <= 4 * kWarp) return Choose<4>(d, z, &queue);
  if (p.experts <= 12 * kWarp) return Choose<12>(d, z, &queue);
  Choose<kMaxExperts / kWarp>(d, z, &queue);
}

}  // namespace thalweg::kernels::cuda
