// Small things that every launch needs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "base/math.h"
#include "kernels/cuda/queue.h"
#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

inline constexpr int64_t kFreeShared = 48 << 10;  // a block gets this much without asking

inline unsigned Count(int64_t n) { return static_cast<unsigned>(n); }

// Lets a kernel have `bytes` of dynamic shared memory. More than the device has is an error of the
// queue, and so is the launch behind it.
template <typename Kernel>
void AllowShared(Queue* queue, Kernel* kernel, int64_t bytes) {
  if (bytes <= kFreeShared) return;
  queue->Note(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(bytes)));
}

// As much shared memory as there is: kernels of one division run side by side, others wait until a
// multiprocessor is empty and can be divided anew.
inline cudaLaunchAttribute MostShared() {
  cudaLaunchAttribute wide = {};
  wide.id = cudaLaunchAttributePreferredSharedMemoryCarveout;
  wide.val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  return wide;
}

// Angles as kernels read them.
struct DeviceRotation {
  const float* cos = nullptr;  // [rows, half]
  const float* sin = nullptr;
  int64_t half = 0;
};

inline DeviceRotation StageRotation(Queue* queue, const Rotation& rotation, int64_t rows) {
  const int64_t half = rotation.rope_dim / 2;
  return {queue->Stage(rotation.cos, rows * half), queue->Stage(rotation.sin, rows * half), half};
}

}  // namespace thalweg::kernels::cuda
