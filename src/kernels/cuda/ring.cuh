// A ring of slots in shared memory: warps that copy fill them, warps that multiply empty them, and
// two barriers of each slot say whose it is. Weights come as bulk copies, which need no register
// and no instruction of a thread while they are under way.
#pragma once

#include "kernels/cuda/mma.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kBarrierBytes = 8;

__device__ inline void InitBarrier(uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(barrier), "r"(arrivals)
               : "memory");
}
__device__ inline void Arrive(uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(barrier) : "memory");
}
// For the lanes where `arrives` is true, without a branch: products may be under way.
__device__ inline void ArriveWhere(uint32_t barrier, bool arrives) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %1, 0;\n"
      "@p mbarrier.arrive.shared::cta.b64 _, [%0];\n}\n" ::"r"(barrier),
      "r"(static_cast<int>(arrives))
      : "memory");
}
// Arrives, and holds the phase until `bytes` of bulk copies have come.
__device__ inline void ArriveExpecting(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// More bytes of bulk copies for the phase, ahead of the arrival.
__device__ inline void AddExpected(uint32_t barrier, int bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;\n" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}
// Waits for the end of the phase of that parity.
__device__ inline void WaitBarrier(uint32_t barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nAgain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra Done;\nbra Again;\nDone:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

// Copies `bytes` (a multiple of 16) and tells the barrier.
__device__ inline void CopyBulk(uint32_t to, const void* from, int bytes, uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(to),
      "l"(from), "r"(bytes), "r"(barrier)
      : "memory");
}

// The warp's number in its block, which the compiler then knows to be one for all lanes.
__device__ inline int WarpOfBlock() {
  return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
}

// Registers of a thread from here on, for all warps of a warpgroup.
template <int kRegisters>
__device__ inline void KeepRegisters() {
#ifdef THALWEG_WGMMA
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
#endif
}
template <int kRegisters>
__device__ inline void TakeRegisters() {
#ifdef THALWEG_WGMMA
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
#endif
}

// A kernel may start before the one in front of it has ended (LaunchOn): what that has written is
// there when this returns.
__device__ inline void AwaitKernelBefore() { asm volatile("griddepcontrol.wait;\n" ::: "memory"); }
// Lets the next kernel of the queue start where there is room.
__device__ inline void LetNextKernelStart() {
  asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
}

// Lanes of a warp that arrive at an empty barrier when all of them have read: the first, behind
// __syncwarp. The checking build lets all of them, for racecheck knows of an arrival what the lane
// itself has read, and nothing of __syncwarp in front (docs/verification.md).
#ifdef THALWEG_CHECKED_RING
inline constexpr int kFreeingLanes = 32;
#else
inline constexpr int kFreeingLanes = 1;
#endif

// Why a slot is never overwritten while it is read, and never read before it is full. Call a
// filling of slot s its round r; the barriers of s count rounds, a warp that waits for one by
// parity is at most one behind, for it takes part in every round itself.
//
// - Full: each warp that copies arrives once a round and adds the bytes that it asks for, so the
//   round cannot end before all bytes of it are there. A bulk copy's end is what completes the
//   barrier, and who has waited sees what it wrote: reads of round r come after its copies.
// - Empty: a lane's reads of round r (its own loads are done when their registers are used, matrix
//   instructions have ended with WaitProducts) come before the __syncwarp of its warp; that comes
//   before the arrival of lane 0, which releases what it knows of; the arrival of every warp that
//   reads ends the round; a lane that copies has waited for that, by itself, before it asks for
//   round r + 1. So all reads of round r come before the copies of round r + 1.
//
// The __syncwarp is part of it: the arrival of lane 0 alone says nothing about other lanes' reads,
// even where the warp goes in step. Where the warp that copies is the one that reads (WarpRing) the
// __syncwarp alone is the second half.
//
// Where a thread is in a ring of kStages slots, and the barriers: full ones, then empty ones.
template <int kStages>
struct RingPlace {
  uint32_t barriers = 0;
  int slot = 0;
  uint32_t parity = 0;
  __device__ uint32_t Full() const { return barriers + slot * kBarrierBytes; }
  __device__ uint32_t Empty() const { return barriers + (kStages + slot) * kBarrierBytes; }
  __device__ void Advance() {
    if (++slot < kStages) return;
    slot = 0;
    parity ^= 1;
  }
};

}  // namespace thalweg::kernels::cuda
