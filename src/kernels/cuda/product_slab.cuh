// The product of up to eight input rows with packed FP8 weights. A warp has sixteen weight rows and
// one rank of K; its weights come by bulk copies into a ring of its own, the first of them before
// the kernel in front has ended, and flow on from tile to tile. The warps of a block are all ranks
// of some slabs, so that no sum leaves the block. Sums run in the order of product.cuh.
#pragma once

#include "kernels/cuda/rank_block.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int64_t kMostSlabInputs = kRankColumns;
inline constexpr int64_t kMostShortInputs = 4;  // where K is one rank
inline constexpr int kSlabSlotUnits = 2;
inline constexpr int kMostSlabBytes = 220 << 10;

struct SlabPlan {
  int units = 0, ranks = 1, columns = 0, stages = 0;

  __host__ __device__ int TileSlabs() const { return kRankWarps / ranks; }
  // Rows on different banks: a whole number of units.
  __host__ __device__ int InputPitch() const {
    return (units + ranks - 1) / ranks * kUnitCols * 2 + kUnitCols * 4 + 16;
  }
  __host__ __device__ int WarpBytes() const {
    return (stages * kSlabSlotUnits * kFp8UnitBytes + columns * InputPitch() + 127) / 128 * 128;
  }
  __host__ __device__ int SumsAt() const { return kRankWarps * WarpBytes(); }
  __host__ __device__ int BarriersAt() const { return SumsAt() + kRankSumBytes; }
  __host__ __device__ int Bytes() const {
    return BarriersAt() + kRankWarps * (stages + 1) * kBarrierBytes;
  }
};

template <typename Op_>
class SlabBody {
 public:
  using Op = Op_;
  using Plan = SlabPlan;
  using Ring = WarpRing<Op, 0, kSlabSlotUnits>;
  static constexpr float kFactor = kUnitsFactor;

  __device__ SlabBody(const Op& op, const SlabPlan& plan, uint32_t shared)
      : op_(op),
        plan_(plan),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        rank_(warp_ % plan.ranks),
        begin_(SplitBegin(plan.units, rank_, plan.ranks)),
        units_(SplitBegin(plan.units, rank_ + 1, plan.ranks) - begin_),
        inputs_(shared + warp_ * plan.WarpBytes() + plan.stages * Ring::kSlotBytes),
        barrier_(shared + plan.BarriersAt() +
                 (warp_ * (plan.stages + 1) + plan.stages) * kBarrierBytes),
        ring_(op, plan.stages, shared + warp_ * plan.WarpBytes(),
              barrier_ - plan.stages * kBarrierBytes) {}

  __device__ void Open() {
    ring_.Init();
    if (lane_ == 0) InitBarrier(barrier_, 1);
    PublishShared();
    __syncwarp();
    ring_.Start(blockIdx.x, op_.Tiles(), gridDim.x, warp_ / plan_.ranks, begin_, units_);
  }
  __device__ void Begin(unsigned char*) const {}

  // The input rows of a tile, unless they are there.
  __device__ void Inputs(const typename Op::Item& item) {
    const BF16* row = lane_ < plan_.columns ? op_.InputRow(item, lane_) : nullptr;
    const BF16* first = FirstOf(row);
    if (first == inputs_of_) return;
    inputs_of_ = first;
    const int bytes = units_ * kUnitCols * 2;
    __syncwarp();
    if (lane_ == 0) ArriveExpecting(barrier_, bytes * plan_.columns);
    __syncwarp();
    if (row != nullptr) {
      CopyBulk(inputs_ + lane_ * plan_.InputPitch(), row + begin_ * kUnitCols, bytes, barrier_);
    }
    WaitBarrier(barrier_, parity_);
    parity_ ^= 1;
  }

  __device__ void Multiply(float (&acc)[4]) {
    const uint32_t input =
        inputs_ + min(lane_ % 8, plan_.columns - 1) * plan_.InputPitch() + lane_ / 8 * 16;
#pragma unroll 1
    for (int unit = 0; unit < units_; unit += kSlabSlotUnits) {
      const uint32_t from = ring_.Wait();
      Fp8Lane units[kSlabSlotUnits];
#pragma unroll
      for (int u = 0; u < kSlabSlotUnits; ++u) {
        units[u].LoadShared(from + u * kFp8UnitBytes, lane_);
      }
#pragma unroll
      for (int u = 0; u < kSlabSlotUnits; ++u) {
        uint32_t a[kUnitSteps][4];
        units[u].Unpack(a);
#pragma unroll
        for (int s = 0; s < kUnitSteps; s += 2) {
          uint32_t b[4];
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                       : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                       : "r"(input + ((unit + u) * kUnitCols + s * 16) * 2));
          MultiplySmall(acc, a[s], b[0], b[1]);
          MultiplySmall(acc, a[s + 1], b[2], b[3]);
        }
      }
      ring_.Release();
    }
  }

 private:
  __device__ static const BF16* FirstOf(const BF16* row) {
    const auto place = reinterpret_cast<unsigned long long>(row);
    return reinterpret_cast<const BF16*>(__shfl_sync(kAllLanes, place, 0));
  }

  const Op& op_;
  const SlabPlan& plan_;
  int warp_, lane_, rank_, begin_, units_;
  uint32_t inputs_, barrier_;
  Ring ring_;
  uint32_t parity_ = 0;
  const BF16* inputs_of_ = nullptr;
};

template <typename Op>
SlabPlan SlabPlanOf(const Op& op) {
  SlabPlan plan{UnitsOf(op.width), RanksOf(op.width), static_cast<int>(op.rows), 4};
  if (plan.Bytes() > kMostSlabBytes) plan.stages = 2;
  return plan;
}

// Whether such blocks can run an op of FP8 weights.
template <typename Op>
bool SlabTakes(const Op& op) {
  if (op.rows > kMostSlabInputs || !RingTakes(op) || !HasWarpgroups()) return false;
  const SlabPlan plan = SlabPlanOf(op);
  if (plan.ranks == 1 && op.rows > kMostShortInputs) return false;
  return plan.units % (2 * plan.ranks) == 0 && plan.Bytes() <= kMostSlabBytes;
}

// op.tile_slabs and what goes with it is set.
template <typename Op>
void LaunchSlabs(Queue* queue, const Op& op, int64_t tiles) {
  LaunchRankBlocks<SlabBody<Op>>(queue, op, SlabPlanOf(op), tiles, kMostSlabBytes);
}

}  // namespace thalweg::kernels::cuda
