// What goes into the caches: window rows, pooled latents, main compressed rows and index keys
// (model.md 2.5, 5.3).
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/encode_rows.cuh"
#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = kRowJobThreads;

__global__ void EncodeKernel(EncodeJob job) {
  WaitForEarlier();
  extern __shared__ BF16 shared_row[];
  EncodeOne(job, blockIdx.x, shared_row);
}

void Encode(const EncodeJob& job, int64_t rows, Queue* queue) {
  const int64_t shared = job.width * static_cast<int64_t>(sizeof(BF16));
  LaunchEarly(queue, EncodeKernel, Count(rows), kThreads, shared, job);
}

// The two tokens of each group.
struct Pairs {
  const float* const* first_kv;
  const float* const* first_score;
  const float* const* second_kv;
  const float* const* second_score;
};

// Softmax over the two tokens of a channel's scores, weighted sum of their values.
__device__ float PoolPair(float kv0, float kv1, float score0, float score1) {
  const float top = fmaxf(score0, score1);
  const float e0 = expf(score0 - top), e1 = expf(score1 - top);
  const float sum = e0 + e1;
  return (e0 / sum) * kv0 + (e1 / sum) * kv1;
}

__global__ void PoolKernel(const BF16* single, Pairs pairs, int64_t width, const BF16* weight,
                           float eps, BF16* latent) {
  WaitForEarlier();
  extern __shared__ BF16 pooled[];
  const int64_t g = blockIdx.x;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    pooled[c] = single != nullptr
                    ? single[g * width + c]
                    : Narrow(PoolPair(pairs.first_kv[g][c], pairs.second_kv[g][c],
                                      pairs.first_score[g][c], pairs.second_score[g][c]));
  }
  __syncthreads();
  const float inverse = InverseRms(pooled, width, eps);
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    latent[g * width + c] = NormValue(pooled[c], weight[c], inverse);
  }
}

}  // namespace

void WindowRows(const WindowRowsParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  // What is copied may be rows that are made here.
  if (queue.held().copies.count > 0 || queue.held().window_rows > 0) queue.LaunchHeld();
  queue.held().window = EncodeJob{.x = p.kv,
                                  .width = p.width,
                                  .norm_weight = p.norm_weight,
                                  .eps = p.norm_eps,
                                  .rotation = StageRotation(&queue, p.rotation, p.rows),
                                  .format = p.format,
                                  .out = p.out,
                                  .row_bytes = tensor::RowBytes(p.format, p.width)};
  queue.held().window_rows = p.rows;
}

void StoreRows(const StoreRowsParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  Encode({.x = p.x,
          .width = p.width,
          .norm_weight = p.norm_weight,
          .eps = p.norm_eps,
          .rotation = StageRotation(&queue, p.rotation, p.rows),
          .format = p.format,
          .destination = queue.Stage(p.destination, p.rows)},
         p.rows, &queue);
}

void Pool(const PoolParams& p) {
  if (p.groups == 0) return;
  Queue& queue = QueueOf(p.stream);
  Pairs pairs = {};
  if (p.ratio != 1) {
    pairs = {queue.Stage(p.first_kv.data(), p.groups), queue.Stage(p.first_score.data(), p.groups),
             queue.Stage(p.second_kv.data(), p.groups),
             queue.Stage(p.second_score.data(), p.groups)};
  }
  const int64_t shared = p.width * static_cast<int64_t>(sizeof(BF16));
  const BF16* single = p.ratio == 1 ? p.kv_bf16 : nullptr;
  LaunchEarly(&queue, PoolKernel, Count(p.groups), kThreads, shared, single, pairs, p.width,
              p.norm_weight, p.norm_eps, p.latent);
}

}  // namespace thalweg::kernels::cuda
