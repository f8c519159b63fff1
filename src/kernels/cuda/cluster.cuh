// Blocks of a cluster: they meet, and send values to each other's shared memory.
#pragma once

#include "kernels/cuda/mma.cuh"

namespace thalweg::kernels::cuda {

// All threads of the cluster meet. Nothing is made visible by it: what passes between blocks has
// barriers of its own, for a release here waits until all memory has seen what the block wrote.
__device__ inline void ArriveCluster() {
  asm volatile("barrier.cluster.arrive.relaxed;\n" ::: "memory");
}
__device__ inline void WaitCluster() { asm volatile("barrier.cluster.wait;\n" ::: "memory"); }
// Lets barriers of this thread's be seen by the cluster, once it has met.
__device__ inline void PublishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

// Of this block in its cluster, which is a line.
__device__ inline int ClusterRank() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}

// Where a place of this block's shared memory is in that of another block of the cluster.
__device__ inline uint32_t PlaceIn(int block, const void* place) {
  uint32_t out;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n"
               : "=r"(out)
               : "r"(SharedAddress(place)), "r"(block));
  return out;
}
// Stores in another block, and tells a barrier there.
__device__ inline void SendRemote(uint32_t place, float x, uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];\n" ::"r"(
          place),
      "r"(__float_as_uint(x)), "r"(barrier)
      : "memory");
}
__device__ inline void SendRemote(uint32_t place, double x, uint32_t barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];\n" ::"r"(
          place),
      "l"(__double_as_longlong(x)), "r"(barrier)
      : "memory");
}
__device__ inline void ArriveRemote(uint32_t barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];\n" ::"r"(barrier)
               : "memory");
}
// Waits for the first phase of what others tell.
__device__ inline void AwaitRemote(uint64_t* barrier) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 0;\n"
      "@!done bra again;\n}\n" ::"r"(SharedAddress(barrier))
      : "memory");
}

}  // namespace thalweg::kernels::cuda
