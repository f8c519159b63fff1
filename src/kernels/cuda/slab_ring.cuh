// Weights as codes on their way to the warp that multiplies them: a warp brings the slabs of one
// tile after another, all of K, by bulk copies through a ring of its own. And the products of a
// slot of that ring with input rows in shared memory (codes.cuh), by the four warps of a warpgroup.
#pragma once

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/wgmma_codes.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kSlotFp4Units = 4, kSlotFp8Units = 2;
inline constexpr int kSlabSlotBytes = kSlotFp4Units * kFp4UnitBytes;
static_assert(kSlotFp8Units * kFp8UnitBytes <= kSlabSlotBytes);

// kStages slots; `slab` of each tile. K has a whole number of slots.
template <typename Op, int kStages>
class SlabRing {
 public:
  static constexpr int kBytes = kStages * kSlabSlotBytes, kBarriers = kStages * kBarrierBytes;
  __device__ SlabRing(const Op& op, int units, int slab, uint32_t slots, uint32_t barriers)
      : op_(op),
        units_(units),
        slab_(slab),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        slots_(slots),
        barriers_(barriers) {}

  // Before the block meets.
  __device__ void Init() const {
    if (lane_ < kStages) InitBarrier(barriers_ + lane_ * kBarrierBytes, 1);
  }
  // Tiles `tile` to `end` - 1.
  __device__ void Start(int tile, int end) {
    if (lane_ != 0) return;
    tile_ = tile;
    end_ = end;
    NextTile();
    for (int i = 0; i < kStages; ++i) Ask(i);
  }
  // Where the next slot is, when it has come.
  __device__ uint32_t Wait() const {
    WaitBarrier(barriers_ + slot_ * kBarrierBytes, parity_);
    return slots_ + slot_ * kSlabSlotBytes;
  }
  // That slot has been read.
  __device__ void Release() {
    __syncwarp();
    if (lane_ == 0) Ask(slot_);
    if (++slot_ < kStages) return;
    slot_ = 0;
    parity_ ^= 1;
  }

 private:
  __device__ void NextTile() {
    asked_ = 0;
    weights_ = nullptr;
    if (tile_ >= end_) return;
    const typename Op::Item item = op_.Locate(tile_++);
    weights_ = static_cast<const char*>(op_.SlabAt(item, slab_).data);
    const bool fp4 = op_.FormatOf(item) == WeightFormat::kFp4;
    slot_bytes_ = fp4 ? kSlotFp4Units * kFp4UnitBytes : kSlotFp8Units * kFp8UnitBytes;
    slots_n_ = units_ / (fp4 ? kSlotFp4Units : kSlotFp8Units);
  }
  __device__ void Ask(int slot) {
    if (weights_ == nullptr) return;
    const uint32_t barrier = barriers_ + slot * kBarrierBytes;
    ArriveExpecting(barrier, slot_bytes_);
    CopyBulk(slots_ + slot * kSlabSlotBytes, weights_ + static_cast<int64_t>(asked_) * slot_bytes_,
             slot_bytes_, barrier);
    if (++asked_ == slots_n_) NextTile();
  }

  const Op& op_;
  int units_, slab_, lane_;
  uint32_t slots_, barriers_;
  int tile_ = 0, end_ = 0;
  const char* weights_ = nullptr;
  int slot_bytes_ = 0, slots_n_ = 0, asked_ = 0, slot_ = 0;
  uint32_t parity_ = 0;
};

// Units under way together.
template <int kBatch, int kCols>
struct PartialSums {
  float sums[kBatch][kUnitBlocks][kCols / 2] = {};
  RowScales scales[kBatch];
};

template <typename Codes, int kBatch, int kCols>
__device__ inline void BeginUnits(uint32_t units, const CodeColumns& columns, int unit_bytes,
                                  PartialSums<kBatch, kCols>* partial) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Codes codes[kBatch];
  uint32_t a[kBatch][kUnitBlocks][4];
#pragma unroll
  for (int u = 0; u < kBatch; ++u) codes[u].Load(units + u * Codes::kUnitBytes, lane);
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
    codes[u].Unpack(a[u]);
    codes[u].Scales(partial->scales[u]);
  }
  BeginProducts();
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
#pragma unroll
    for (int s = 0; s < kUnitBlocks; ++s) {
      MultiplyCodes<kCols>(partial->sums[u][s], a[u][s],
                           columns.Behind(u * unit_bytes + s * 2 * kCoreBytes));
    }
  }
  CommitProducts();
}

// acc += what has come, with the scales of the inputs.
template <int kBatch, int kCols>
__device__ inline void AddUnits(uint32_t inputs, int unit_bytes,
                                PartialSums<kBatch, kCols>* partial, float (&acc)[kCols / 2]) {
  const uint32_t mine = inputs + kCodesBytes + threadIdx.x % 4 * 16;
#pragma unroll
  for (int u = 0; u < kBatch; ++u) {
#pragma unroll
    for (int s = 0; s < kUnitBlocks; ++s) Settle(partial->sums[u][s]);
#pragma unroll
    for (int i = 0; i < kCols / 8; ++i) {
      const uint4 x = LoadShared128(mine + u * unit_bytes + i * kInputUnitBytes);
      AddBlock(partial->sums[u][0] + i * 4, partial->scales[u][0], __uint_as_float(x.x),
               __uint_as_float(x.y), acc + i * 4);
      AddBlock(partial->sums[u][1] + i * 4, partial->scales[u][1], __uint_as_float(x.z),
               __uint_as_float(x.w), acc + i * 4);
    }
  }
}

// acc += the products of a slot of kUnits units at `from` with the columns whose chunks are at
// `inputs`, unit_bytes a unit; kBuffers batches of kBatch units are under way. Calls release() when
// the weights have been read.
template <typename Codes, int kUnits, int kBatch, int kBuffers, int kCols, typename Release>
__device__ inline void MultiplySlot(uint32_t from, uint32_t inputs, int unit_bytes,
                                    float (&acc)[kCols / 2], Release release) {
  constexpr int kBatches = kUnits / kBatch;
  const CodeColumns columns(inputs, kInputUnitBytes);
  PartialSums<kBatch, kCols> partial[kBuffers];
#pragma unroll
  for (int b = 0; b < kBatches + kBuffers - 1; ++b) {
    if (b < kBatches) {
      BeginUnits<Codes>(from + b * kBatch * Codes::kUnitBytes,
                        columns.Behind(b * kBatch * unit_bytes), unit_bytes,
                        &partial[b % kBuffers]);
    }
    if (b == kBatches - 1) release();
    const int done = b - kBuffers + 1;
    if (done < 0) continue;
    if (b < kBatches) {
      WaitProducts<kBuffers - 1>();
    } else {
      WaitProducts<0>();
    }
    AddUnits(inputs + done * kBatch * unit_bytes, unit_bytes, &partial[done % kBuffers], acc);
  }
}

}  // namespace thalweg::kernels::cuda
