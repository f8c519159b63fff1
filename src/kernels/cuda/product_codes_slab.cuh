// The product of one or two input rows with fp8 weights where K has eight ranks, by matrix
// instructions of e4m3 (codes.cuh). A warp has sixteen weight rows and one rank of K; its weights
// come by bulk copies into a ring of its own, the first of them before the kernel in front has
// ended, and flow on from tile to tile. The warps of a block are all ranks of some slabs, so that
// no sum leaves the block. Sums run in the order of product.cuh.
//
// An instruction is one of four warps, and multiplies each one's rows by the same columns: where
// the warps have different ranks, their pieces of K stand beside one another as columns, eight for
// each rank, of which a warp keeps its own.
//
// Input rows become codes in each block while its first weights come.
//
// Beside what product.cuh asks of an Op: StoreOutput(item, o, n, value), output o of the tile and
// input row n, by 32 lanes that have neighbouring outputs where the tile has as many. All tiles
// have the same input rows.
#pragma once

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/product_launch.cuh"
#include "kernels/cuda/wgmma_codes.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kBesideWarps = 8, kBesideThreads = kBesideWarps * kWarp;
inline constexpr int kMostBesideRows = 2, kBesideRanks = 8, kBeside = 4;  // ranks of a warpgroup
inline constexpr int kBesideColumns = 8;  // of an instruction, for a rank
inline constexpr int kBesideUnits = 2, kBesideSlotBytes = kBesideUnits * kFp8UnitBytes;
inline constexpr int kMostBesideStages = 6;
inline constexpr int kHalfBytes = 113 << 10, kWholeBytes = 226 << 10;  // of a multiprocessor

struct BesidePlan {
  int units = 0, ranks = 1, columns = 0, stages = 0;

  __host__ __device__ int TileSlabs() const { return kBesideWarps / ranks; }
  __host__ __device__ int RankUnits() const { return units / ranks; }
  __host__ __device__ int RingBytes() const { return stages * kBesideSlotBytes; }
  __host__ __device__ int InputsAt() const { return kBesideWarps * RingBytes(); }
  __host__ __device__ int SumsAt() const { return InputsAt() + units * kInputUnitBytes; }
  __host__ __device__ int BarriersAt() const {
    return SumsAt() + 2 * kBesideWarps * kBesideColumns * kUnitRows * 4;
  }
  __host__ __device__ int Bytes() const {
    return BarriersAt() + kBesideWarps * stages * kBarrierBytes;
  }
};

template <typename Op>
class BesideWarp {
 public:
  __device__ BesideWarp(const Op& op, const BesidePlan& plan, uint32_t shared)
      : op_(op),
        plan_(plan),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        rank_(warp_ % plan.ranks),
        slots_(plan.RankUnits() / kBesideUnits),
        ring_(shared + warp_ * plan.RingBytes()),
        inputs_(shared + plan.InputsAt()),
        barriers_(shared + plan.BarriersAt() + warp_ * plan.stages * kBarrierBytes),
        tiles_(op.Tiles()) {}

  __device__ void Open() {
    if (lane_ < plan_.stages) InitBarrier(barriers_ + lane_ * kBarrierBytes, 1);
    PublishShared();
    __syncwarp();
    if (lane_ != 0) return;
    NextTile();
    for (int i = 0; i < plan_.stages; ++i) Ask(i);
  }

  __device__ void Multiply(float (&acc)[4]) {
    const int rank_bytes = plan_.RankUnits() * kInputUnitBytes;
    const uint32_t beside = inputs_ + rank_ / kBeside * kBeside * rank_bytes;
    const uint32_t scales = inputs_ + rank_ * rank_bytes + kCodesBytes + lane_ % 4 * 16;
#pragma unroll 1
    for (int i = 0; i < slots_; ++i) {
      WaitBarrier(barriers_ + slot_ * kBarrierBytes, parity_);
      const uint32_t from = ring_ + slot_ * kBesideSlotBytes;
      const int at = i * kBesideUnits * kInputUnitBytes;
      const CodeColumns columns(beside + at, static_cast<uint32_t>(rank_bytes));
      Partial partial[kBesideUnits];
#pragma unroll
      for (int u = 0; u < kBesideUnits; ++u) {
        Begin(from + u * kFp8UnitBytes, columns.Behind(u * kInputUnitBytes), &partial[u]);
      }
      WaitProducts<0>();
      __syncwarp();
      if (lane_ == 0) Ask(slot_);
#pragma unroll
      for (int u = 0; u < kBesideUnits; ++u) {
        Add(scales + at + u * kInputUnitBytes, &partial[u], acc);
      }
      if (++slot_ == plan_.stages) {
        slot_ = 0;
        parity_ ^= 1;
      }
    }
  }

  // sums: [warps, columns, outputs of a slab].
  __device__ void Spread(const float (&acc)[4], float* sums) const {
    float* mine = sums + (warp_ * kBesideColumns + lane_ % 4 * 2) * kUnitRows + lane_ / 4;
#pragma unroll
    for (int j = 0; j < 4; ++j) mine[j % 2 * kUnitRows + j / 2 * 8] = acc[j];
  }

 private:
  // What a unit has under way.
  struct Partial {
    float sums[kUnitBlocks][kBeside * 4] = {};
    RowScales scales;
  };

  __device__ void Begin(uint32_t unit, const CodeColumns& columns, Partial* to) const {
    Fp8Codes codes;
    uint32_t a[kUnitBlocks][4];
    codes.Load(unit, lane_);
    codes.Unpack(a);
    codes.Scales(to->scales);
    BeginProducts();
#pragma unroll
    for (int s = 0; s < kUnitBlocks; ++s) {
      MultiplyCodes<kBeside * 8>(to->sums[s], a[s], columns.Behind(s * 2 * kCoreBytes));
    }
    CommitProducts();
  }
  __device__ void Add(uint32_t scales, Partial* partial, float (&acc)[4]) const {
    const uint4 inputs = LoadShared128(scales);
    const float even[] = {__uint_as_float(inputs.x), __uint_as_float(inputs.z)};
    const float odd[] = {__uint_as_float(inputs.y), __uint_as_float(inputs.w)};
#pragma unroll
    for (int s = 0; s < kUnitBlocks; ++s) {
      Settle(partial->sums[s]);
      float mine[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        mine[j] = partial->sums[s][j];
        // No branch: what is under way must not be read in one.
#pragma unroll
        for (int i = 1; i < kBeside; ++i) {
          const float other = partial->sums[s][i * 4 + j];
          mine[j] = warp_ % kBeside == i ? other : mine[j];
        }
      }
      AddBlock(mine, partial->scales[s], even[s], odd[s], acc);
    }
  }
  // Lane 0: the weights of the next tile.
  __device__ void NextTile() {
    const int64_t tile = blockIdx.x + asked_round_ * gridDim.x;
    ++asked_round_;
    asked_ = 0;
    weights_ = nullptr;
    if (tile >= tiles_) return;
    weights_ = static_cast<const char*>(op_.SlabAt(op_.Locate(tile), warp_ / plan_.ranks).data) +
               static_cast<int64_t>(rank_) * plan_.RankUnits() * kFp8UnitBytes;
  }
  __device__ void Ask(int slot) {
    if (weights_ == nullptr) return;
    const uint32_t barrier = barriers_ + slot * kBarrierBytes;
    ArriveExpecting(barrier, kBesideSlotBytes);
    CopyBulk(ring_ + slot * kBesideSlotBytes,
             weights_ + static_cast<int64_t>(asked_) * kBesideSlotBytes, kBesideSlotBytes, barrier);
    if (++asked_ == slots_) NextTile();
  }

  const Op& op_;
  const BesidePlan& plan_;
  int warp_, lane_, rank_, slots_;
  uint32_t ring_, inputs_, barriers_;
  int64_t tiles_;
  const char* weights_ = nullptr;
  int64_t asked_round_ = 0;
  int asked_ = 0, slot_ = 0;
  uint32_t parity_ = 0;
};

template <typename Op>
__global__ void __launch_bounds__(kBesideThreads, 2)
    BesideKernel(const __grid_constant__ Op op, const __grid_constant__ BesidePlan plan) {
  extern __shared__ __align__(128) unsigned char shared[];
  LetNextKernelStart();
  BesideWarp<Op> warp(op, plan, SharedAddress(shared));
  warp.Open();
  AwaitKernelBefore();
  const typename Op::Item first = op.Locate(0);
  EncodeRows<kBesideThreads>(
      plan.columns, plan.units, [&](int n) { return op.InputRow(first, n); },
      shared + plan.InputsAt());
  PublishShared();
  __syncthreads();
  const int64_t tiles = op.Tiles();
  constexpr int kWarpSums = kBesideColumns * kUnitRows;
  float* sums = reinterpret_cast<float*>(shared + plan.SumsAt());
  const int outputs = plan.TileSlabs() * kUnitRows;
  int half = 0;
#pragma unroll 1
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x, half ^= 1) {
    float acc[4] = {};
    warp.Multiply(acc);
    float* mine = sums + half * kBesideWarps * kWarpSums;
    warp.Spread(acc, mine);
    __syncthreads();
    const typename Op::Item item = op.Locate(tile);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < outputs * plan.columns; i += kBesideThreads) {
      const int o = i % outputs, n = i / outputs;
      const float* part =
          mine + o / kUnitRows * plan.ranks * kWarpSums + n * kUnitRows + o % kUnitRows;
      float sum = part[0];
      for (int r = 1; r < plan.ranks; ++r) sum += part[r * kWarpSums];
      op.StoreOutput(item, o, n, sum);
    }
  }
}

// As many stages as leave room for two blocks, or for one where they are less than half a ring.
template <typename Op>
BesidePlan BesidePlanOf(const Op& op) {
  BesidePlan plan{UnitsOf(op.width), RanksOf(op.width), static_cast<int>(op.rows),
                  kMostBesideStages};
  while (plan.stages > kMostBesideStages / 2 && plan.Bytes() > kHalfBytes) --plan.stages;
  if (plan.Bytes() > kHalfBytes) plan.stages = kMostBesideStages;
  return plan;
}

// Whether BesideKernel can run an op of fp8 weights.
template <typename Op>
bool BesideTakes(const Op& op) {
  if (op.rows > kMostBesideRows || !RingTakes(op) || !HasWarpgroups()) return false;
  const BesidePlan plan = BesidePlanOf(op);
  return plan.ranks == kBesideRanks && plan.units % (kBesideUnits * plan.ranks) == 0 &&
         plan.Bytes() <= kWholeBytes;
}

// op.tile_slabs and what goes with it is set.
template <typename Op>
void LaunchBeside(Queue* queue, const Op& op, int64_t tiles) {
  const BesidePlan plan = BesidePlanOf(op);
  const auto kernel = BesideKernel<Op>;
  const int resident = ResidentBlocks(queue, kernel, kBesideThreads, plan.Bytes());
  LaunchAs(queue, kernel, dim3(Count(std::min<int64_t>(tiles, resident))), kBesideThreads,
           plan.Bytes(), {1, true}, op, plan);
}

}  // namespace thalweg::kernels::cuda
