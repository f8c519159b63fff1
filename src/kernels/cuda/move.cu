// Rows moved as bytes.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;

// `bytes` bytes by the block, in the widest words that both places allow.
__device__ void CopyBytes(char* to, const char* from, int64_t bytes) {
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

__global__ void CopyRowsKernel(CopyRowsParams p) {
  CopyBytes(static_cast<char*>(p.to[blockIdx.x]), static_cast<const char*>(p.from[blockIdx.x]),
            p.bytes);
}

__global__ void GatherKernel(CompactRowsParams p) {
  CopyBytes(static_cast<char*>(p.scratch) + blockIdx.x * p.bytes,
            static_cast<const char*>(p.data) + p.kept[blockIdx.x] * p.bytes, p.bytes);
}

}  // namespace

void CopyRows(const CopyRowsParams& p) {
  if (p.count == 0 || p.bytes == 0) return;
  Queue& queue = QueueOf(p.stream);
  CopyRowsParams d = p;
  d.from = queue.Stage(p.from, p.count);
  d.to = queue.Stage(p.to, p.count);
  CopyRowsKernel<<<Count(p.count), kThreads, 0, queue.stream()>>>(d);
}

void CompactRows(const CompactRowsParams& p) {
  if (p.count == 0 || p.bytes == 0) return;
  Queue& queue = QueueOf(p.stream);
  CompactRowsParams d = p;
  d.kept = queue.Stage(p.kept, p.count);
  GatherKernel<<<Count(p.count), kThreads, 0, queue.stream()>>>(d);
  queue.Note(cudaMemcpyAsync(p.data, p.scratch, static_cast<size_t>(p.count * p.bytes),
                             cudaMemcpyDefault, queue.stream()));
}

}  // namespace thalweg::kernels::cuda
