// The product of up to 32 input rows with fp8 weights, by matrix instructions of e4m3 (codes.cuh).
// A block is one warpgroup, which has 64 weight rows of a tile and one rank of K; a cluster has all
// ranks. The input rows of its rank stay in shared memory. Each warp's weights come by bulk copies
// into a ring of its own, the first of them before the kernel in front has ended, and flow on from
// tile to tile. Sums run in the order of product.cuh.
//
// Of an Op it asks what product.cuh does; all tiles have the same input rows. Up to kMostEncoded
// rows become codes in the blocks that read them, while the first weights come; more of them stand
// packed in op.codes (pack_inputs.cuh).
#pragma once

#include "kernels/cuda/pack_inputs.cuh"
#include "kernels/cuda/warp_ring.cuh"
#include "kernels/cuda/wgmma_codes.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kRankThreads = 128;
inline constexpr int kRankSlotUnits = 2;
inline constexpr int kMostEncoded = 8, kMostRankRows = 32;

// kCols: input rows of a tile.
template <int kCols_>
struct RankShape {
  static constexpr int kGroups = 1, kQuads = 1, kCols = kCols_, kSlabs = 4, kRows = 64;
  static constexpr int kStages = kCols > 8 ? 4 : 3;
  static constexpr int kBlocks = kCols > 16 ? 3 : kCols > 8 ? 4 : 5;  // room for registers
};

struct RankPlan {
  int units = 0, ranks = 1, rows = 0, columns = 8, stages = 0;
  __host__ __device__ int Groups() const { return (rows + 7) / 8; }
  // Of the largest rank.
  __host__ __device__ int RankUnits() const { return ((units + 1) / 2 + ranks - 1) / ranks * 2; }
  __host__ __device__ int SumsAt() const { return 4 * stages * kRankSlotUnits * kFp8UnitBytes; }
  __host__ __device__ int BarriersAt() const {
    return SumsAt() + (columns < kSumCols ? columns : kSumCols) * kSumPitch * 4;
  }
  __host__ __device__ int InputsAt() const {
    return (BarriersAt() + 4 * stages * kBarrierBytes + 127) / 128 * 128;
  }
  // Instructions of more columns than there are rows read behind the last chunk.
  __host__ __device__ int Bytes() const {
    return InputsAt() + (RankUnits() * Groups() + columns / 8) * kInputUnitBytes;
  }
};

template <typename Op, typename S>
class RankWarp {
 public:
  using Acc = float[1][S::kCols / 2];
  using Ring = WarpRing<Op, 0, kRankSlotUnits>;
  __device__ RankWarp(const Op& op, const RankPlan& plan, int rank, uint32_t shared)
      : op_(op),
        plan_(plan),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        begin_(SplitBegin(plan.units, rank, plan.ranks)),
        units_(SplitBegin(plan.units, rank + 1, plan.ranks) - begin_),
        inputs_(shared + plan.InputsAt()),
        ring_(op, plan.stages, shared + warp_ * plan.stages * Ring::kSlotBytes,
              shared + plan.BarriersAt() + warp_ * plan.stages * kBarrierBytes) {}

  __device__ void Open() {
    ring_.Init();
    PublishShared();
    __syncwarp();
    ring_.Start(blockIdx.x / plan_.ranks, op_.Tiles(), gridDim.x / plan_.ranks, warp_, begin_,
                units_);
  }

  // The input rows of the rank, by the block.
  __device__ void Inputs(unsigned char* to) const {
    const int units = units_, unit_bytes = plan_.Groups() * kInputUnitBytes;
    if (plan_.rows <= kMostEncoded) {
      const typename Op::Item item = op_.Locate(0);
      EncodeRows<kRankThreads>(
          plan_.rows, units, [&](int n) { return op_.InputRow(item, n) + begin_ * kUnitCols; }, to);
    } else {
      const uint8_t* from = op_.codes + static_cast<int64_t>(begin_) * unit_bytes;
      for (int i = static_cast<int>(threadIdx.x); i < units * unit_bytes / 16; i += kRankThreads) {
        CopyAsync16(inputs_ + i * 16, from + i * 16);
      }
      CommitCopies();
      WaitCopies<0>();
    }
    PublishShared();
    __syncthreads();
  }

  __device__ void Multiply(Acc& acc) {
    const int unit_bytes = plan_.Groups() * kInputUnitBytes;
#pragma unroll 1
    for (int unit = 0; unit < units_; unit += kRankSlotUnits) {
      const uint32_t from = ring_.Wait();
      const uint32_t inputs = inputs_ + unit * unit_bytes;
      const CodeColumns columns(inputs, kInputUnitBytes);
      Partial partial[kRankSlotUnits];
#pragma unroll
      for (int u = 0; u < kRankSlotUnits; ++u) {
        Begin(from + u * kFp8UnitBytes, columns.Behind(u * unit_bytes), &partial[u]);
      }
      WaitProducts<1>();
      Add(inputs, &partial[0], acc[0]);
      WaitProducts<0>();
      ring_.Release();
      Add(inputs + unit_bytes, &partial[1], acc[0]);
    }
  }

 private:
  // What a unit has under way.
  struct Partial {
    float sums[kUnitBlocks][S::kCols / 2] = {};
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
      MultiplyCodes<S::kCols>(to->sums[s], a[s], columns.Behind(s * 2 * kCoreBytes));
    }
    CommitProducts();
  }
  __device__ void Add(uint32_t inputs, Partial* partial, float (&acc)[S::kCols / 2]) const {
#pragma unroll
    for (int s = 0; s < kUnitBlocks; ++s) Settle(partial->sums[s]);
#pragma unroll
    for (int i = 0; i < S::kCols / 8; ++i) {
      const uint4 x = LoadShared128(inputs + i * kInputUnitBytes + kCodesBytes + lane_ % 4 * 16);
      AddBlock(partial->sums[0] + i * 4, partial->scales[0], __uint_as_float(x.x),
               __uint_as_float(x.y), acc + i * 4);
      AddBlock(partial->sums[1] + i * 4, partial->scales[1], __uint_as_float(x.z),
               __uint_as_float(x.w), acc + i * 4);
    }
  }

  const Op& op_;
  const RankPlan& plan_;
  int warp_, lane_, begin_, units_;
  uint32_t inputs_;
  Ring ring_;
};

template <typename Op, typename S>
__global__ void __launch_bounds__(kRankThreads, S::kBlocks)
    RankKernel(const __grid_constant__ Op op, const __grid_constant__ RankPlan plan) {
  extern __shared__ __align__(128) unsigned char shared[];
  LetNextKernelStart();
  const int rank = static_cast<int>(blockIdx.x) % plan.ranks;
  RankWarp<Op, S> warp(op, plan, rank, SharedAddress(shared));
  warp.Open();
  AwaitKernelBefore();
  warp.Inputs(shared + plan.InputsAt());
  auto* sums = reinterpret_cast<float*>(shared + plan.SumsAt());
  const int64_t tiles = op.Tiles(), step = gridDim.x / plan.ranks;
#pragma unroll 1
  for (int64_t tile = blockIdx.x / plan.ranks; tile < tiles; tile += step) {
    typename RankWarp<Op, S>::Acc acc = {};
    warp.Multiply(acc);
    StoreTile<Op, S>(op, op.Locate(tile), acc, 1.0f, sums, rank, plan.ranks);
  }
}

inline int RankColumns(int64_t rows) { return rows <= 8 ? 8 : rows <= 16 ? 16 : 32; }

// Calls run(shape) with the shape for so many rows.
template <typename Run>
void ChooseRankShape(int64_t rows, Run run) {
  switch (RankColumns(rows)) {
    case 8: return run(RankShape<8>());
    case 16: return run(RankShape<16>());
    default: return run(RankShape<32>());
  }
}

template <typename S, typename Op>
RankPlan RankPlanOf(const Op& op) {
  return {UnitsOf(op.width), RanksOf(op.width), static_cast<int>(op.rows), S::kCols, S::kStages};
}

// Whether RankKernel can run an op of fp8 weights.
template <typename Op>
bool RanksTake(const Op& op) {
  constexpr int kWhole = 226 << 10;
  if (op.rows > kMostRankRows || !RingTakes(op) || !HasWarpgroups()) return false;
  if (UnitsOf(op.width) % 2 != 0) return false;
  const RankPlan plan = RankPlanOf<RankShape<32>>(op);
  return plan.Bytes() <= kWhole;
}

// op.tile_slabs, op.codes and what goes with them is set.
template <typename S, typename Op>
void LaunchRanks(Queue* queue, const Op& op, int64_t tiles) {
  const RankPlan plan = RankPlanOf<S>(op);
  const auto kernel = RankKernel<Op, S>;
  const int bytes = plan.Bytes();
  const int resident = ResidentBlocks(queue, kernel, kRankThreads, bytes);
  const int64_t clusters = std::min<int64_t>(tiles, std::max(resident / plan.ranks, 1));
  LaunchAs(queue, kernel, dim3(Count(clusters * plan.ranks)), kRankThreads, bytes,
           {plan.ranks, true}, op, plan);
}

}  // namespace thalweg::kernels::cuda
