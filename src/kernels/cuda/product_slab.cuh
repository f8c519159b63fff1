// The product of up to eight input rows with packed FP8 weights. A warp has sixteen weight rows and
// one rank of K; its weights come by bulk copies into a ring of its own, the first of them before
// the kernel in front has ended, and flow on from tile to tile. The warps of a block are all ranks
// of some slabs, so that no sum leaves the block. Sums run in the order of product.cuh.
//
// Beside what product_ring.cuh asks of an Op: StoreOutput(item, o, n, value), output o of the tile
// and input row n, by 32 lanes that have neighbouring outputs where the tile has as many.
#pragma once

#include "kernels/cuda/product_launch.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kSlabWarps = 8, kSlabThreads = kSlabWarps * kWarp;
inline constexpr int64_t kMostSlabInputs = 8;
inline constexpr int64_t kMostShortInputs = 4;  // where K is one rank
inline constexpr int kSlotUnits = 2, kSlotBytes = kSlotUnits * kFp8UnitBytes;
inline constexpr int kMostSlabBytes = 220 << 10;

struct SlabPlan {
  int units = 0, ranks = 1, columns = 0, stages = 0;

  __host__ __device__ int TileSlabs() const { return kSlabWarps / ranks; }
  // Rows on different banks: a whole number of units.
  __host__ __device__ int InputPitch() const {
    return (units + ranks - 1) / ranks * kUnitCols * 2 + kUnitCols * 4 + 16;
  }
  __host__ __device__ int WarpBytes() const {
    return (stages * kSlotBytes + columns * InputPitch() + 127) / 128 * 128;
  }
  __host__ __device__ int SumsAt() const { return kSlabWarps * WarpBytes(); }
  __host__ __device__ int BarriersAt() const {
    return SumsAt() + 2 * kSlabWarps * static_cast<int>(kMostSlabInputs) * kUnitRows * 4;
  }
  __host__ __device__ int Bytes() const {
    return BarriersAt() + kSlabWarps * (stages + 1) * kBarrierBytes;
  }
};

template <typename Op>
class SlabWarp {
 public:
  __device__ SlabWarp(const Op& op, const SlabPlan& plan, uint32_t shared)
      : op_(op),
        plan_(plan),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        rank_(warp_ % plan.ranks),
        slab_(warp_ / plan.ranks),
        begin_(SplitBegin(plan.units, rank_, plan.ranks)),
        slots_((SplitBegin(plan.units, rank_ + 1, plan.ranks) - begin_) / kSlotUnits),
        ring_(shared + warp_ * plan.WarpBytes()),
        inputs_(ring_ + plan.stages * kSlotBytes),
        barriers_(shared + plan.BarriersAt() + warp_ * (plan.stages + 1) * kBarrierBytes),
        tiles_(op.Tiles()) {}

  __device__ void Open() {
    if (lane_ <= plan_.stages) InitBarrier(barriers_ + lane_ * kBarrierBytes, 1);
    PublishShared();
    __syncwarp();
    if (lane_ != 0) return;
    NextTile();
    for (int i = 0; i < plan_.stages; ++i) Ask(i);
  }

  // The input rows of a tile, unless they are there.
  __device__ void Inputs(const typename Op::Item& item) {
    const BF16* row = lane_ < plan_.columns ? op_.InputRow(item, lane_) : nullptr;
    const BF16* first = FirstOf(row);
    if (first == inputs_of_) return;
    inputs_of_ = first;
    const int bytes = slots_ * kSlotUnits * kUnitCols * 2;
    const uint32_t barrier = barriers_ + plan_.stages * kBarrierBytes;
    __syncwarp();
    if (lane_ == 0) ArriveExpecting(barrier, bytes * plan_.columns);
    __syncwarp();
    if (row != nullptr) {
      CopyBulk(inputs_ + lane_ * plan_.InputPitch(), row + begin_ * kUnitCols, bytes, barrier);
    }
    WaitBarrier(barrier, inputs_parity_);
    inputs_parity_ ^= 1;
  }

  __device__ void Multiply(float (&acc)[4]) {
    const uint32_t input =
        inputs_ + min(lane_ % 8, plan_.columns - 1) * plan_.InputPitch() + lane_ / 8 * 16;
#pragma unroll 1
    for (int i = 0; i < slots_; ++i) {
      WaitBarrier(barriers_ + slot_ * kBarrierBytes, parity_);
      const uint32_t from = ring_ + slot_ * kSlotBytes;
      Fp8Lane units[kSlotUnits];
#pragma unroll
      for (int u = 0; u < kSlotUnits; ++u) units[u].LoadShared(from + u * kFp8UnitBytes, lane_);
#pragma unroll
      for (int u = 0; u < kSlotUnits; ++u) {
        uint32_t a[kUnitSteps][4];
        units[u].Unpack(a);
#pragma unroll
        for (int s = 0; s < kUnitSteps; s += 2) {
          uint32_t b[4];
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                       : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                       : "r"(input + ((i * kSlotUnits + u) * kUnitCols + s * 16) * 2));
          MultiplySmall(acc, a[s], b[0], b[1]);
          MultiplySmall(acc, a[s + 1], b[2], b[3]);
        }
      }
      __syncwarp();
      if (lane_ == 0) Ask(slot_);
      if (++slot_ == plan_.stages) {
        slot_ = 0;
        parity_ ^= 1;
      }
    }
  }

  // sums: [warps, columns, outputs of a slab].
  __device__ void Spread(const float (&acc)[4], float* sums) const {
    float* mine = sums + (warp_ * kMostSlabInputs + lane_ % 4 * 2) * kUnitRows + lane_ / 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      mine[j % 2 * kUnitRows + j / 2 * 8] = acc[j] * kUnitsFactor;
    }
  }

 private:
  __device__ static const BF16* FirstOf(const BF16* row) {
    const auto place = reinterpret_cast<unsigned long long>(row);
    return reinterpret_cast<const BF16*>(__shfl_sync(kAllLanes, place, 0));
  }
  // Lane 0: the weights of the next tile.
  __device__ void NextTile() {
    const int64_t tile = blockIdx.x + asked_round_ * gridDim.x;
    ++asked_round_;
    asked_ = 0;
    weights_ = nullptr;
    if (tile >= tiles_) return;
    weights_ = static_cast<const char*>(op_.SlabAt(op_.Locate(tile), slab_).data) +
               static_cast<int64_t>(begin_) * kFp8UnitBytes;
  }
  __device__ void Ask(int slot) {
    if (weights_ == nullptr) return;
    const uint32_t barrier = barriers_ + slot * kBarrierBytes;
    ArriveExpecting(barrier, kSlotBytes);
    CopyBulk(ring_ + slot * kSlotBytes, weights_ + static_cast<int64_t>(asked_) * kSlotBytes,
             kSlotBytes, barrier);
    if (++asked_ == slots_) NextTile();
  }

  const Op& op_;
  const SlabPlan& plan_;
  int warp_, lane_, rank_, slab_, begin_, slots_;
  uint32_t ring_, inputs_, barriers_;
  int64_t tiles_;
  const char* weights_ = nullptr;
  int64_t asked_round_ = 0;
  int asked_ = 0, slot_ = 0;
  uint32_t parity_ = 0, inputs_parity_ = 0;
  const BF16* inputs_of_ = nullptr;
};

template <typename Op>
__global__ void __launch_bounds__(kSlabThreads, 2)
    SlabKernel(const __grid_constant__ Op op, const __grid_constant__ SlabPlan plan) {
  extern __shared__ __align__(128) unsigned char shared[];
  LetNextKernelStart();
  SlabWarp<Op> warp(op, plan, SharedAddress(shared));
  warp.Open();
  AwaitKernelBefore();
  const int64_t tiles = op.Tiles();
  constexpr int kWarpSums = static_cast<int>(kMostSlabInputs) * kUnitRows;
  float* sums = reinterpret_cast<float*>(shared + plan.SumsAt());
  const int outputs = plan.TileSlabs() * kUnitRows;
  int half = 0;
#pragma unroll 1
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, half ^= 1) {
    const typename Op::Item item = op.Locate(tile);
    warp.Inputs(item);
    float acc[4] = {};
    warp.Multiply(acc);
    float* mine = sums + half * kSlabWarps * kWarpSums;
    warp.Spread(acc, mine);
    __syncthreads();
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < outputs * plan.columns; i += kSlabThreads) {
      const int o = i % outputs, n = i / outputs;
      const float* part =
          mine + o / kUnitRows * plan.ranks * kWarpSums + n * kUnitRows + o % kUnitRows;
      float sum = part[0];
      for (int r = 1; r < plan.ranks; ++r) sum += part[r * kWarpSums];
      op.StoreOutput(item, o, n, sum);
    }
  }
}

template <typename Op>
SlabPlan SlabPlanOf(const Op& op) {
  SlabPlan plan{UnitsOf(op.width), RanksOf(op.width), static_cast<int>(op.rows), 4};
  if (plan.Bytes() > kMostSlabBytes) plan.stages = 2;
  return plan;
}

// Whether SlabKernel can run an op of FP8 weights.
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
  const SlabPlan plan = SlabPlanOf(op);
  AllowShared(queue, SlabKernel<Op>, kMostSlabBytes);
  const int resident = ResidentBlocks(queue, SlabKernel<Op>, kSlabThreads, plan.Bytes());
  LaunchAs(queue, SlabKernel<Op>, dim3(Count(std::min<int64_t>(tiles, resident))), kSlabThreads,
           plan.Bytes(), {1, true}, op, plan);
}

}  // namespace thalweg::kernels::cuda
