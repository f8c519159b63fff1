// The matrix product of packed fp8 weights and many packed rows of codes, with the roles of
// product_codes.cuh changed: input rows are operand A in registers, 64 a warpgroup, and 128 weight
// rows operand B, from shared memory as they were packed. A thread's sums belong to two input rows
// and four tiles of 32 weight rows, whose scales are eight factors for 64 sums. Same bits: an
// instruction's sums do not depend on which operand is which, and are added up in the same order.
#pragma once

#include "kernels/cuda/product_codes.cuh"

namespace thalweg::kernels::cuda {

// kGroups warpgroups that multiply, 64 input rows each; kUnits units of K a slot; kStages slots;
// kBlocks blocks on a multiprocessor.
template <int kGroups_, int kUnits_, int kStages_, int kBlocks_>
struct DenseShape {
  static constexpr int kGroups = kGroups_, kUnits = kUnits_, kFp8Units = kUnits_;
  static constexpr int kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kQuads = 2, kRows = kQuads * 64, kSlabs = kRows / kUnitRows;
  static constexpr int kCols = kGroups * 64;
  static constexpr int kThreads = kGroups * 128 + 128;
  static constexpr int kInputWarp = kGroups * 4;
  static constexpr int kEven = 65536 / (kThreads * kBlocks) / 8 * 8;
  static constexpr int kStart = kEven > 240 ? 240 : kEven;
  static constexpr int kCopying = kGroups > 2 || kBlocks > 1 ? 32 : 40;
  static constexpr int kFree = (kStart * kThreads - kCopying * 128) / (kGroups * 128) / 8 * 8;
  static constexpr int kMultiplying = kFree > 240 ? 240 : kFree;
};

template <typename S>
struct DenseLayout {
  static constexpr int kSlabBytes = S::kUnits * kFp8UnitBytes;
  static constexpr int kInputsAt = (S::kSlabs * kSlabBytes + 127) / 128 * 128;
  static constexpr int kSlotBytes =
      (kInputsAt + S::kUnits * S::kCols / 8 * kInputUnitBytes + 127) / 128 * 128;
  static constexpr int kSumsAt = S::kStages * kSlotBytes;
  static constexpr int kWarpSums = kUnitRows * kSumPitch;  // floats
  static constexpr int kBarriersAt = kSumsAt + S::kGroups * 4 * kWarpSums * 4;
  static constexpr int kBytes = kBarriersAt + 2 * S::kStages * kBarrierBytes;
};

// Blocks of a cluster meet twice for each quad of a tile.
template <typename S>
__device__ inline void MeetDense(int cluster) {
  if (cluster == 1) return;
  for (int i = 0; i < 2 * S::kQuads; ++i) LeaveRanks(cluster);
}

// A warp that copies weights.
template <typename Op, typename S>
__device__ inline void CopyDenseWeights(const Op& op, const RingWork& work, uint32_t slots,
                                        int part, RingPlace<S::kStages> place) {
  using L = DenseLayout<S>;
  work.ForTiles(op, [&](const typename Op::Item& item) {
    CopySlabs<Op, S, L::kSlotBytes, L::kSlabBytes>(op, item, work, slots, part, &place);
    MeetDense<S>(work.cluster);
  });
}

template <typename Op, typename S>
__device__ inline void CopyDenseInputs(const Op& op, const RingWork& work, uint32_t slots,
                                       RingPlace<S::kStages> place) {
  using L = DenseLayout<S>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  work.ForTiles(op, [&](const typename Op::Item& item) {
    const int unit_bytes = (op.Columns(item) + 7) / 8 * kInputUnitBytes;
    const uint8_t* from = op.Packed(item);
    work.ForSlots(S::kUnits, [&](int unit, int units) {
      WaitBarrier(place.Empty(), place.parity ^ 1);
      if (lane == 0) {
        ArriveExpecting(place.Full(), units * unit_bytes);
        CopyBulk(slots + place.slot * L::kSlotBytes + L::kInputsAt,
                 from + static_cast<int64_t>(unit) * unit_bytes, units * unit_bytes, place.Full());
      }
      __syncwarp();
      place.Advance();
    });
    MeetDense<S>(work.cluster);
  });
}

// A warpgroup that multiplies: 64 input rows.
template <typename Op, typename S>
class DenseConsumer {
 public:
  using L = DenseLayout<S>;
  __device__ DenseConsumer(const Op& op, const RingWork& work, uint32_t slots,
                           RingPlace<S::kStages> place, float* sums)
      : op_(op), work_(work), ring_(slots, place), sums_(sums) {}

  __device__ void Run() {
    work_.ForTiles(op_, [&](const typename Op::Item& item) {
      const int columns = op_.Columns(item);
      unit_bytes_ = (columns + 7) / 8 * kInputUnitBytes;
      Tile(item, columns > warp_ / 4 * 64);
    });
  }

 private:
  static constexpr int kHalves = 2;                     // of the slabs' rows
  static constexpr int kMine = S::kRows / 4 * kHalves;  // sums of a thread
  struct Sums {
    float value[kMine] = {};
  };

  __device__ void Tile(const typename Op::Item& item, bool active) {
    Sums acc, sums;
#pragma unroll 1
    for (int rank = work_.Rank(); rank < work_.LastRank(); ++rank) {
      const int units = work_.Begin(rank + 1) - work_.Begin(rank);
      if (active) {
        Multiply(units, acc.value);
      } else {
        Skip(units);
      }
      if constexpr (Op::kSplits) {
#pragma unroll
        for (int i = 0; i < kMine; ++i) {
          float& mine = acc.value[i];
          sums.value[i] = rank == work_.Rank() ? mine : sums.value[i] + mine;
          mine = 0;
        }
      }
    }
    Store(item, Op::kSplits ? sums : acc);
  }

  __device__ void Skip(int units) {
    for (int unit = 0; unit < units; unit += S::kUnits) {
      ring_.Wait();
      ring_.Free();
    }
  }

  __device__ void Multiply(int units, float (&acc)[kMine]) {
    int unit = 0;
#pragma unroll 1
    for (; unit + S::kUnits <= units; unit += S::kUnits) {
      slot_ = ring_.Wait();
      MultiplyUnits<S::kUnits>(0, acc);
      ring_.Free();
    }
    if (unit == units) return;
    slot_ = ring_.Wait();
#pragma unroll 1
    for (int u = 0; unit + u < units; ++u) MultiplyUnits<1>(u, acc);
    ring_.Free();
  }

  // The factors of a step: of two input rows and the tiles of 32 weight rows.
  struct Factors {
    float rows[2], tiles[S::kRows / 32];
    __device__ float Of(int sum) const { return rows[sum / 2 % 2] * tiles[sum / 8]; }
  };

  // Units `first` on of the slot. A step of 32 columns of K is an instruction for each half: the
  // first eight rows of every slab, and the others, which lie a slab apart. No products are under
  // way at the end: they would cross branches that the compiler takes for divergent.
  template <int kCount>
  __device__ void MultiplyUnits(int first, float (&acc)[kMine]) {
    constexpr int kSums = S::kRows / 4, kAll = 2 * kHalves * kCount;
    const uint32_t weights = slot_ + first * kFp8UnitBytes;
    const uint32_t inputs = slot_ + L::kInputsAt + first * unit_bytes_;
    const uint32_t mine = inputs + warp_ * (2 * kInputUnitBytes);
    const uint32_t codes =
        mine + lane_ / 8 % 2 * kInputUnitBytes + lane_ / 16 * kCoreBytes + lane_ % 8 * 16;
    const int row = lane_ / 4;
    const uint32_t scales = mine + kCodesBytes + row / 2 * 16 + row % 2 * 4;
    const CodeColumns columns(weights, L::kSlabBytes);
    uint32_t a[2][4];
    Factors factors[2];
    float products[2][kSums];
    const auto load = [&](int step) {
      uint32_t(&to)[4] = a[step % 2];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "r"(codes + step / 2 * unit_bytes_ + step % 2 * 2 * kCoreBytes));
    };
    const auto load_factors = [&](int step) {
      Factors& to = factors[step % 2];
      const uint32_t at = scales + step / 2 * unit_bytes_ + step % 2 * 8;
      to.rows[0] = LoadSharedFloat(at);
      to.rows[1] = LoadSharedFloat(at + kInputUnitBytes);
#pragma unroll
      for (int i = 0; i < S::kRows / 32; ++i) {
        to.tiles[i] = LoadSharedFloat(weights + step / 2 * kFp8UnitBytes + i * 2 * L::kSlabBytes +
                                      2 * kCodesBytes + step % 2 * 4);
      }
    };
    const auto issue = [&](int q) {
      const int step = q / kHalves;
      BeginProducts();
      MultiplyCodes<S::kRows / 2>(
          products[q % 2], a[step % 2],
          columns.Behind(step / 2 * kFp8UnitBytes + step % 2 * 2 * kCoreBytes +
                         q % kHalves * kCodesBytes));
      CommitProducts();
    };
    load(0);
    load_factors(0);
    issue(0);
#pragma unroll
    for (int q = 0; q < kAll; ++q) {
      const int step = q / kHalves;
      if (q + 1 < kAll) issue(q + 1);
      if (q % kHalves == 0 && step + 1 < 2 * kCount) {
        load(step + 1);
        load_factors(step + 1);
      }
      if (q + 1 < kAll) {
        WaitProducts<1>();
      } else {
        WaitProducts<0>();
      }
      Settle(products[q % 2]);
#pragma unroll
      for (int i = 0; i < kSums; ++i) {
        float& sum = acc[q % kHalves * kSums + i];
        sum = fmaf(products[q % 2][i], factors[step % 2].Of(i), sum);
      }
    }
  }

  // Each warp its 16 input rows, 64 outputs at a time; each rank its share.
  __device__ void Store(const typename Op::Item& item, const Sums& sums) {
    float* mine = sums_ + warp_ * L::kWarpSums;
#pragma unroll
    for (int quad = 0; quad < S::kQuads; ++quad) {
#pragma unroll
      for (int i = 0; i < 16 * kHalves; ++i) {
        const int slab = i % 16 / 4, half = i / 16, j = i % 4;
        const int row = lane_ / 4 + j / 2 * 8;
        const int output = slab * kUnitRows + half * 8 + lane_ % 4 * 2 + j % 2;
        mine[row * kSumPitch + output] = sums.value[i / 16 * (S::kRows / 4) + quad * 16 + i % 16];
      }
      Meet();
      if (work_.cluster == 1) {
#pragma unroll 8
        for (int n = 0; n < kUnitRows; ++n) {
          StoreRow(item, quad, n, PlainSums{mine + n * kSumPitch});
        }
      } else {
        for (int n = work_.Rank(); n < kUnitRows; n += work_.cluster) {
          StoreRow(item, quad, n, ClusterSums{mine + n * kSumPitch, work_.cluster});
        }
      }
      Meet();
    }
  }
  template <typename RowSums>
  __device__ void StoreRow(const typename Op::Item& item, int quad, int n,
                           const RowSums& sums) const {
    const int column = warp_ * kUnitRows + n;
    op_.Store(item, quad, column, op_.ColumnAt(item, column), sums);
  }
  __device__ void Meet() const {
    if (work_.cluster > 1) {
      SyncRanks(work_.cluster);
    } else {
      __syncwarp();
    }
  }

  const Op& op_;
  const RingWork& work_;
  SlotReader<S, L> ring_;
  float* sums_;
  const int lane_ = static_cast<int>(threadIdx.x) % kWarp, warp_ = WarpOfBlock();
  uint32_t slot_ = 0;
  int unit_bytes_ = 0;
};

// What a kernel with such tiles is made of.
template <typename Op_, typename S>
struct DenseRing {
  using Op = Op_;
  using Shape = S;
  using Layout = DenseLayout<S>;
  using Consumer = DenseConsumer<Op, S>;
  static constexpr int kCopyWarps = cuda::kCopyWarps;
  static constexpr bool kTrades = true;
  // The kernel before has encoded the inputs: what it waited for is there, lists among it.
  static constexpr bool kWeightsWait = false;
  __device__ static void CopyWeights(const Op& op, const RingWork& work, uint32_t slots, int part,
                                     RingPlace<S::kStages> place) {
    CopyDenseWeights<Op, S>(op, work, slots, part, place);
  }
  __device__ static void CopyInputs(const Op& op, const RingWork& work, uint32_t slots,
                                    RingPlace<S::kStages> place) {
    CopyDenseInputs<Op, S>(op, work, slots, place);
  }
};

}  // namespace thalweg::kernels::cuda
