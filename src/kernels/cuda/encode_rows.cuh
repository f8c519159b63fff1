// Rows on their way into the caches: normalised, rotated, encoded (model.md 2.5, 5.3).
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {

// Row `row` by a block; shared_row: [width].
__device__ inline void EncodeOne(const EncodeJob& job, int64_t row, BF16* shared_row) {
  const BF16* x = job.x + row * job.width;
  const bool norm = job.norm_weight != nullptr;
  const float inverse = norm ? InverseRms(x, job.width, job.eps) : 1.0f;
  for (int64_t c = threadIdx.x; c < job.width; c += blockDim.x) {
    shared_row[c] = norm ? NormValue(x[c], job.norm_weight[c], inverse) : x[c];
  }
  __syncthreads();
  const int64_t half = job.rotation.half;
  for (int64_t i = threadIdx.x; i < half; i += blockDim.x) {
    RotatePair(shared_row + job.width - 2 * half + 2 * i, job.rotation.cos[row * half + i],
               job.rotation.sin[row * half + i], false);
  }
  __syncthreads();
  uint8_t* out = job.destination != nullptr ? job.destination[row] : job.out + row * job.row_bytes;
  ForColumns(job.width, [&](int64_t c, bool active) {
    const Coded coded = QuantiseLane(job.format, active ? Wide(shared_row[c]) : 0.0f);
    StoreCoded(job.format, coded, c, job.width, active, out);
  });
}

}  // namespace thalweg::kernels::cuda
