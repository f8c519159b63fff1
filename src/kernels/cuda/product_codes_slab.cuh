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
// All tiles of an Op have the same input rows.
#pragma once

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/rank_block.cuh"
#include "kernels/cuda/wgmma_codes.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kMostBesideRows = 2, kBesideRanks = 8, kBeside = 4;  // ranks of a warpgroup
inline constexpr int kBesideUnits = 2;                                    // of a slot
inline constexpr int kMostBesideStages = 6;
inline constexpr int kHalfBytes = 113 << 10, kWholeBytes = 226 << 10;  // of a multiprocessor

struct BesidePlan {
  int units = 0, ranks = 1, columns = 0, stages = 0;

  __host__ __device__ int TileSlabs() const { return kRankWarps / ranks; }
  __host__ __device__ int RankUnits() const { return units / ranks; }
  __host__ __device__ int RingBytes() const { return stages * kBesideUnits * kFp8UnitBytes; }
  __host__ __device__ int InputsAt() const { return kRankWarps * RingBytes(); }
  __host__ __device__ int SumsAt() const { return InputsAt() + units * kInputUnitBytes; }
  __host__ __device__ int BarriersAt() const { return SumsAt() + kRankSumBytes; }
  __host__ __device__ int Bytes() const {
    return BarriersAt() + kRankWarps * stages * kBarrierBytes;
  }
};

template <typename Op_>
class BesideBody {
 public:
  using Op = Op_;
  using Plan = BesidePlan;
  using Ring = WarpRing<Op, 0, kBesideUnits>;
  static constexpr float kFactor = 1.0f;

  __device__ BesideBody(const Op& op, const BesidePlan& plan, uint32_t shared)
      : op_(op),
        plan_(plan),
        warp_(static_cast<int>(threadIdx.x) / kWarp),
        lane_(static_cast<int>(threadIdx.x) % kWarp),
        rank_(warp_ % plan.ranks),
        inputs_(shared + plan.InputsAt()),
        ring_(op, plan.stages, shared + warp_ * plan.RingBytes(),
              shared + plan.BarriersAt() + warp_ * plan.stages * kBarrierBytes) {}

  __device__ void Open() {
    ring_.Init();
    PublishShared();
    __syncwarp();
    ring_.Start(blockIdx.x, op_.Tiles(), gridDim.x, warp_ / plan_.ranks, rank_ * plan_.RankUnits(),
                plan_.RankUnits());
  }
  __device__ void Begin(unsigned char* shared) const {
    const typename Op::Item first = op_.Locate(0);
    EncodeRows<kRankBlockThreads>(
        plan_.columns, plan_.units, [&](int n) { return op_.InputRow(first, n); },
        shared + plan_.InputsAt());
    PublishShared();
    __syncthreads();
  }
  __device__ void Inputs(const typename Op::Item&) const {}

  __device__ void Multiply(float (&acc)[4]) {
    const int rank_bytes = plan_.RankUnits() * kInputUnitBytes;
    const uint32_t beside = inputs_ + rank_ / kBeside * kBeside * rank_bytes;
    const uint32_t scales = inputs_ + rank_ * rank_bytes + kCodesBytes + lane_ % 4 * 16;
#pragma unroll 1
    for (int unit = 0; unit < plan_.RankUnits(); unit += kBesideUnits) {
      const uint32_t from = ring_.Wait();
      const int at = unit * kInputUnitBytes;
      const CodeColumns columns(beside + at, static_cast<uint32_t>(rank_bytes));
      Partial partial[kBesideUnits];
#pragma unroll
      for (int u = 0; u < kBesideUnits; ++u) {
        Begin(from + u * kFp8UnitBytes, columns.Behind(u * kInputUnitBytes), &partial[u]);
      }
      WaitProducts<0>();
      ring_.Release();
#pragma unroll
      for (int u = 0; u < kBesideUnits; ++u) {
        Add(scales + at + u * kInputUnitBytes, &partial[u], acc);
      }
    }
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

  const Op& op_;
  const BesidePlan& plan_;
  int warp_, lane_, rank_;
  uint32_t inputs_;
  Ring ring_;
};

// As many stages as leave room for two blocks, or for one where they are less than half a ring.
template <typename Op>
BesidePlan BesidePlanOf(const Op& op) {
  BesidePlan plan{UnitsOf(op.width), RanksOf(op.width), static_cast<int>(op.rows),
                  kMostBesideStages};
  while (plan.stages > kMostBesideStages / 2 && plan.Bytes() > kHalfBytes) --plan.stages;
  if (plan.Bytes() > kHalfBytes) plan.stages = kMostBesideStages;
  return plan;
}

// Whether such blocks can run an op of fp8 weights.
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
  LaunchRankBlocks<BesideBody<Op>>(queue, op, BesidePlanOf(op), tiles, kWholeBytes);
}

}  // namespace thalweg::kernels::cuda
