// The router's choice (model.md 2.6); its product is Product's.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kRowsPerBlock = 4;
constexpr int kMaxTopk = kWarp;

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

// A warp chooses for a row. z [rows, experts] holds the products and is left with the scores.
__global__ void ChooseKernel(GateParams p, float* z) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kWarp;
  if (row >= p.rows) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, experts = static_cast<int>(p.experts);
  const bool image = p.row_is_image != nullptr && p.row_is_image[row] != 0;
  const float* bias = image ? p.image_bias : p.bias;
  float* score = z + row * p.experts;
  for (int e = lane; e < experts; e += kWarp) score[e] = RouterScore(score[e]);
  __syncwarp();
  int mine = 0;  // lane i keeps the i-th best
  Candidate last = {INFINITY, -1};
  for (int i = 0; i < p.topk; ++i) {
    Candidate best = {-INFINITY, experts};
    for (int e = lane; e < experts; e += kWarp) {
      const float biased = score[e] + bias[e];
      const Candidate next = {isnan(biased) ? -INFINITY : biased, e};
      if (Better(last, next) && Better(next, best)) best = next;
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const Candidate other = {__shfl_xor_sync(kAllLanes, best.score, step),
                               __shfl_xor_sync(kAllLanes, best.index, step)};
      if (Better(other, best)) best = other;
    }
    last = best;
    if (lane == i) mine = best.index;
  }
  const int topk = static_cast<int>(p.topk);
  int place = 0;
  for (int i = 0; i < topk; ++i) place += __shfl_sync(kAllLanes, mine, i) < mine ? 1 : 0;
  if (lane < topk) p.chosen[row * topk + place] = mine;
  __syncwarp();
  float sum = 0;
  for (int i = 0; i < topk; ++i) sum += score[p.chosen[row * topk + i]];
  if (lane < topk) {
    p.weights[row * topk + place] = score[mine] / (sum + 1e-20f) * p.route_scale;
  }
}

}  // namespace

void Gate(const GateParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  if (p.topk > kMaxTopk) return queue.Note(cudaErrorNotSupported);
  auto* z =
      static_cast<float*>(queue.Scratch(p.rows * p.experts * static_cast<int64_t>(sizeof(float))));
  if (z == nullptr) return;
  Product(p.stream, p.weight, p.x, p.hidden, p.rows, z);
  GateParams d = p;
  d.row_is_image = queue.Stage(p.row_is_image, p.rows);
  const int64_t blocks = base::CeilDiv<int64_t>(p.rows, kRowsPerBlock);
  ChooseKernel<<<Count(blocks), kRowsPerBlock * kWarp, 0, queue.stream()>>>(d, z);
}

}  // namespace thalweg::kernels::cuda
