// Bytes moved by a block.
#pragma once

#include <cstdint>

namespace thalweg::kernels::cuda {

// `bytes` bytes by the block, in the widest words that both places allow.
__device__ inline void CopyBytes(char* to, const char* from, int64_t bytes) {
  const auto places = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  int64_t done = 0;
  if (places % sizeof(uint4) == 0) {
    done = bytes / static_cast<int64_t>(sizeof(uint4));
    for (int64_t i = threadIdx.x; i < done; i += blockDim.x) {
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
    }
    done *= static_cast<int64_t>(sizeof(uint4));
  }
  for (int64_t i = done + threadIdx.x; i < bytes; i += blockDim.x) to[i] = from[i];
}

}  // namespace thalweg::kernels::cuda
