// Kernels that begin while the one before them on their queue ends: their blocks are in place, and
// wait inside, so that a queue of short kernels has no gaps. Such a kernel calls WaitForEarlier
// before it reads or writes anything that another kernel may have to do with.
#pragma once

#include "kernels/cuda/launch.h"

namespace thalweg::kernels::cuda {

// Lets the next kernel come, and waits until those before are done and what they wrote is there.
__device__ inline void WaitForEarlier() {
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
}

// Whether the device has warpgroups' matrix instructions (Hopper).
inline bool HasWarpgroups() {
  static const bool has = [] {
    int device = 0, major = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    return major == 9;
  }();
  return has;
}

// `cluster` neighbouring blocks of the grid's first dimension are a cluster.
template <typename... Params, typename... Args>
void LaunchClusters(Queue* queue, void (*kernel)(Params...), dim3 grid, int cluster, int threads,
                    int64_t shared, const Args&... args) {
  cudaLaunchAttribute attributes[3] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1] = MostShared();
  attributes[2].id = cudaLaunchAttributeClusterDimension;
  attributes[2].val.clusterDim = {Count(cluster), 1, 1};
  const cudaLaunchConfig_t config = {.gridDim = grid,
                                     .blockDim = dim3(Count(threads)),
                                     .dynamicSmemBytes = static_cast<size_t>(shared),
                                     .stream = queue->stream(),
                                     .attrs = attributes,
                                     .numAttrs = cluster > 1 ? 3u : 2u};
  queue->Note(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...));
}

template <typename... Params, typename... Args>
void LaunchEarly(Queue* queue, void (*kernel)(Params...), dim3 grid, int threads, int64_t shared,
                 const Args&... args) {
  LaunchClusters(queue, kernel, grid, 1, threads, shared, args...);
}

}  // namespace thalweg::kernels::cuda
