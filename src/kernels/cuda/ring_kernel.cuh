// The body of every kernel whose blocks keep a ring of slots: warps that copy weights and one that
// copies input rows fill them, warpgroups that multiply empty them. What a slot holds and what is
// done with it says a Ring:
//   Op, Shape, Layout: of which Shape has kThreads, kBlocks, kStages, kInputWarp, kGroups;
//   kCopyWarps: warps that arrive at a full slot;
//   kTrades: whether warps that copy leave registers to those that multiply;
//   kWeightsWait: whether weights of a tile may depend on the kernel before;
//   CopyWeights(op, work, slots, part, place), CopyInputs(op, work, slots, place): for warps that
//     copy, `part` counts those of weights;
//   Consumer(op, work, slots, place, sums).Run(): a warpgroup that multiplies.
#pragma once

#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/ring_work.cuh"

namespace thalweg::kernels::cuda {

template <typename Ring>
__global__ void __launch_bounds__(Ring::Shape::kThreads, Ring::Shape::kBlocks)
    RingKernel(const __grid_constant__ typename Ring::Op op, int units, int ranks, int cluster) {
  using Op = typename Ring::Op;
  using S = typename Ring::Shape;
  using L = typename Ring::Layout;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t slots = SharedAddress(shared);
  const RingPlace<S::kStages> place{slots + L::kBarriersAt};
  if (threadIdx.x < S::kStages) {
    InitBarrier(place.barriers + threadIdx.x * kBarrierBytes, Ring::kCopyWarps);
    InitBarrier(place.barriers + (S::kStages + threadIdx.x) * kBarrierBytes,
                S::kGroups * 4 * kFreeingLanes);
  }
  PublishShared();
  __syncthreads();
  const RingWork work{units, ranks, cluster};
  const int warp = WarpOfBlock();
  if (warp >= S::kInputWarp) {
    if constexpr (Ring::kTrades) KeepRegisters<S::kCopying>();
    if (warp > S::kInputWarp) {
      if constexpr (Ring::kWeightsWait) AwaitKernelBefore();
      Ring::CopyWeights(op, work, slots, warp - S::kInputWarp - 1, place);
    } else {
      AwaitKernelBefore();
      Ring::CopyInputs(op, work, slots, place);
    }
  } else {
    if constexpr (Ring::kTrades) TakeRegisters<S::kMultiplying>();
    // The next kernel may read before it waits what the one in front has made (kWeightsKnown).
    if constexpr (Op::kLeadsEarly) LetNextKernelStart();
    AwaitKernelBefore();
    if constexpr (!Op::kLeadsEarly) LetNextKernelStart();
    auto* sums = reinterpret_cast<float*>(shared + L::kSumsAt);
    typename Ring::Consumer(op, work, slots, place, sums).Run();
  }
}

}  // namespace thalweg::kernels::cuda
