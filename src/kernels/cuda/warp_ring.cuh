// Packed weights on their way to the warp that multiplies them: a warp brings one slab of one tile
// after another, all of K or one range of it, by bulk copies through a ring of its own. Copies flow
// on from tile to tile; nobody else is waited for.
#pragma once

#include <algorithm>

#include "kernels/cuda/operand.cuh"
#include "kernels/cuda/ring.cuh"

namespace thalweg::kernels::cuda {

// Slots of kFp4Units units of fp4 or kFp8Units of fp8 weights; 0: there are none of that format.
// The range of K has a whole number of slots.
template <typename Op, int kFp4Units, int kFp8Units>
class WarpRing {
 public:
  static constexpr int kSlotBytes = std::max(kFp4Units * kFp4UnitBytes, kFp8Units* kFp8UnitBytes);

  __device__ WarpRing(const Op& op, int stages, uint32_t slots, uint32_t barriers)
      : op_(op),
        stages_(stages),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        slots_(slots),
        barriers_(barriers) {}

  // Before any copy; what follows it publishes the barriers.
  __device__ void Init() const {
    if (lane_ < stages_) InitBarrier(barriers_ + lane_ * kBarrierBytes, 1);
  }
  // The weights of `units` units from unit `begin` on of slab `slab` of tiles first, first + step
  // and so on before end: their first slots are asked for.
  __device__ void Start(int64_t first, int64_t end, int64_t step, int slab, int begin, int units) {
    if (lane_ != 0) return;
    tile_ = first;
    end_ = end;
    step_ = step;
    slab_ = slab;
    begin_ = begin;
    units_ = units;
    NextTile();
    for (int i = 0; i < stages_; ++i) Ask(i);
  }
  // Where the next slot is, when it has come.
  __device__ uint32_t Wait() const {
    WaitBarrier(barriers_ + slot_ * kBarrierBytes, parity_);
    return slots_ + slot_ * kSlotBytes;
  }
  // All lanes have read that slot.
  __device__ void Release() {
    __syncwarp();
    if (lane_ == 0) Ask(slot_);
    if (++slot_ < stages_) return;
    slot_ = 0;
    parity_ ^= 1;
  }

 private:
  __device__ void NextTile() {
    asked_ = 0;
    weights_ = nullptr;
    if (tile_ >= end_) return;
    const typename Op::Item item = op_.Locate(tile_);
    tile_ += step_;
    const bool fp4 = kFp8Units == 0 || (kFp4Units > 0 && op_.FormatOf(item) == WeightFormat::kFp4);
    const int unit_bytes = fp4 ? kFp4UnitBytes : kFp8UnitBytes;
    const int slot_units = fp4 ? kFp4Units : kFp8Units;
    slot_bytes_ = slot_units * unit_bytes;
    slots_n_ = units_ / slot_units;
    weights_ = static_cast<const char*>(op_.SlabAt(item, slab_).data) +
               static_cast<int64_t>(begin_) * unit_bytes;
  }
  __device__ void Ask(int slot) {
    if (weights_ == nullptr) return;
    const uint32_t barrier = barriers_ + slot * kBarrierBytes;
    ArriveExpecting(barrier, slot_bytes_);
    CopyBulk(slots_ + slot * kSlotBytes, weights_ + static_cast<int64_t>(asked_) * slot_bytes_,
             slot_bytes_, barrier);
    if (++asked_ == slots_n_) NextTile();
  }

  const Op& op_;
  int stages_, lane_;
  uint32_t slots_, barriers_;
  int64_t tile_ = 0, end_ = 0, step_ = 1;
  int slab_ = 0, begin_ = 0, units_ = 0;
  const char* weights_ = nullptr;
  int slot_bytes_ = 0, slots_n_ = 0, asked_ = 0, slot_ = 0;
  uint32_t parity_ = 0;
};

}  // namespace thalweg::kernels::cuda
