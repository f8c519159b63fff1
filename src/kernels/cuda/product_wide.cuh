// The matrix product over packed weights for tiles of many input rows (ring_kernel.cuh): weights
// are operand A of the wide instructions, turned into bf16 in registers on the way from shared
// memory; input rows are operand B, which PackInputs has brought into the order of core matrices.
// The order of sums is that of product.cuh.
//
// Beside what product_ring.cuh asks of an Op:
//   InputTiles(), InputItem(i): tiles of input rows, and an item of each; Packed(item): where the
//     packed input rows of a tile are, 8 rows by `width` values for each group of 8.
#pragma once

#include "kernels/cuda/product_ring.cuh"

namespace thalweg::kernels::cuda {

// kGroups warpgroups that multiply, kQuads times 64 weight rows each; kStages slots of a unit of K;
// kBlocks blocks on a multiprocessor; widths of a tile, ascending. Behind the warpgroups that
// multiply one whole warpgroup copies, so that it can leave registers to the others.
template <int kGroups_, int kQuads_, int kStages_, int kBlocks_, int... kWidths>
struct WideShape {
  static constexpr int kGroups = kGroups_, kQuads = kQuads_;
  static constexpr int kUnits = 1, kFp8Units = 1;
  static constexpr int kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kRows = kGroups * kQuads * 64, kSlabs = kRows / kUnitRows;
  using Widths = std::integer_sequence<int, kWidths...>;
  static constexpr int kCols = std::max({kWidths...});
  // Whether products stay under way from one unit to the next. Several widths would leave the
  // compiler without registers to keep them apart.
  static constexpr bool kFlows = sizeof...(kWidths) == 1 && kQuads == 1;
  static constexpr int kThreads = kGroups * 128 + 128;
  static constexpr int kInputWarp = kGroups * 4;
  // Registers of a thread as the block begins; the warpgroup that copies leaves some to the others.
  static constexpr int kEven = 65536 / (kThreads * kBlocks) / 8 * 8;
  static constexpr int kStart = kEven > 240 ? 240 : kEven;
  static constexpr int kCopying = 40;
  static constexpr int kFree = (kStart * kThreads - kCopying * 128) / (kGroups * 128) / 8 * 8;
  static constexpr int kMultiplying = kFree > 240 ? 240 : kFree;
};

inline constexpr int kGroupBytes = 8 * kCoreBytes;  // 8 input rows of a unit

template <typename S>
struct WideLayout {
  static constexpr int kSlabBytes = std::max(kFp4UnitBytes, kFp8UnitBytes);
  static constexpr int kWeightBytes = (S::kSlabs * kSlabBytes + 127) / 128 * 128;
  static constexpr int kSlotBytes = kWeightBytes + S::kCols * kUnitCols * 2;
  static constexpr int kSumBytes = S::kGroups * kSumColsOf<S> * kSumPitch * 4;
  static constexpr int kSumsAt = S::kStages * kSlotBytes;
  static constexpr int kBarriersAt = kSumsAt + kSumBytes;
  static constexpr int kBytes = kBarriersAt + 2 * S::kStages * kBarrierBytes;
};

// A warpgroup that multiplies.
template <typename Op, typename S>
class WideConsumer : public TileConsumer<WideConsumer<Op, S>, Op, S> {
 public:
  using Base = TileConsumer<WideConsumer, Op, S>;
  using L = WideLayout<S>;
  __device__ WideConsumer(const Op& op, const RingWork& work, uint32_t slots,
                          RingPlace<S::kStages> place, float* sums)
      : Base(op, work, sums), ring_(slots, place) {}

  template <int kWidth>
  __device__ void Multiply(int units, TileSums<S, kWidth>* acc) {
    if constexpr (S::kFlows) {
      if (this->fp4()) {
        Flow<kWidth, Fp4Lane>(units, acc->value[0]);
      } else {
        Flow<kWidth, Fp8Lane>(units, acc->value[0]);
      }
    } else {
      MultiplyTogether<kWidth>(units, acc);
    }
  }

 private:
  // The codes of a unit are turned while the products of the one before run.
  template <int kWidth, typename Lane>
  __device__ void Flow(int units, float (&acc)[kWidth / 2]) {
    uint32_t a[2][kUnitSteps][4];
#pragma unroll 1
    for (int unit = 0; unit < units; unit += 2) {
      FlowUnit<kWidth, Lane>(unit > 0, a[0], acc);
      if (unit + 1 == units) break;
      FlowUnit<kWidth, Lane>(true, a[1], acc);
    }
    WaitProducts<0>();
    ring_.FreeBehindProducts();
  }
  // behind: the slot before is not free yet.
  template <int kWidth, typename Lane>
  __device__ void FlowUnit(bool behind, uint32_t (&a)[kUnitSteps][4], float (&acc)[kWidth / 2]) {
    slot_ = ring_.Wait();
    Turn<Lane>(0, a);
    Begin<kWidth>(a, acc);
    WaitProducts<1>();
    if (behind) ring_.FreeBehindProducts();
  }

  // Two units of a quad, or one of two quads, at a time: while the products of the first run, the
  // codes of the second are turned. They end together: other warpgroups multiply meanwhile.
  template <int kWidth>
  __device__ void MultiplyTogether(int units, TileSums<S, kWidth>* acc) {
    static_assert(S::kQuads <= 2);
    constexpr int kAtOnce = S::kQuads == 2 ? 1 : 2;
#pragma unroll 1
    for (int unit = 0; unit < units; unit += kAtOnce) {
      uint32_t a[2][kUnitSteps][4];
      const bool two = kAtOnce == 2 && unit + 1 < units;
      slot_ = ring_.Wait();
      Step<kWidth>(0, a[0], acc->value[0]);
      if (S::kQuads == 2) {
        Step<kWidth>(1, a[1], acc->value[S::kQuads - 1]);
      } else if (two) {
        slot_ = ring_.Wait();
        Step<kWidth>(0, a[1], acc->value[0]);
      }
      WaitProducts<0>();
      ring_.FreeBehindProducts();
      if (two) ring_.FreeBehindProducts();
    }
  }
  template <int kWidth>
  __device__ void Step(int quad, uint32_t (&a)[kUnitSteps][4], float (&acc)[kWidth / 2]) {
    if (this->fp4()) {
      Turn<Fp4Lane>(quad, a);
    } else {
      Turn<Fp8Lane>(quad, a);
    }
    Begin<kWidth>(a, acc);
  }

  template <int kWidth>
  __device__ void Begin(const uint32_t (&a)[kUnitSteps][4], float (&acc)[kWidth / 2]) const {
    const uint32_t inputs = slot_ + L::kWeightBytes;
    BeginProducts();
#pragma unroll
    for (int s = 0; s < kUnitSteps; ++s) {
      cuda::Multiply<kWidth>(acc, a[s], inputs + s * 2 * kCoreBytes, kGroupBytes);
    }
    CommitProducts();
  }
  // This warp's slab of a quad.
  template <typename Lane>
  __device__ void Turn(int quad, uint32_t (&a)[kUnitSteps][4]) const {
    Lane lane;
    lane.LoadShared(slot_ + ((warp_ / 4 * S::kQuads + quad) * 4 + warp_ % 4) * L::kSlabBytes,
                    lane_);
    lane.Unpack(a);
  }

  SlotReader<S, L> ring_;
  const int lane_ = static_cast<int>(threadIdx.x) % kWarp, warp_ = WarpOfBlock();
  uint32_t slot_ = 0;
};

// What a kernel with such tiles is made of.
template <typename Op_, typename S>
struct WideRing {
  using Op = Op_;
  using Shape = S;
  using Layout = WideLayout<S>;
  using Consumer = WideConsumer<Op, S>;
  static constexpr int kCopyWarps = cuda::kCopyWarps;
  static constexpr bool kTrades = true;
  // The kernel before has packed the inputs: what it waited for is there, lists among it.
  static constexpr bool kWeightsWait = false;

  __device__ static void CopyWeights(const Op& op, const RingWork& work, uint32_t slots, int part,
                                     RingPlace<S::kStages> place) {
    work.ForTiles(op, [&](const typename Op::Item& item) {
      CopySlabs<Op, S, Layout::kSlotBytes, Layout::kSlabBytes>(op, item, work, slots, part, &place);
      work.Meet<S>(op.Columns(item));
    });
  }
  __device__ static void CopyInputs(const Op& op, const RingWork& work, uint32_t slots,
                                    RingPlace<S::kStages> place) {
    work.ForTiles(op, [&](const typename Op::Item& item) {
      const int columns = op.Columns(item), bytes = (columns + 7) / 8 * kGroupBytes;
      const auto* from = reinterpret_cast<const unsigned char*>(op.Packed(item));
      work.ForSlots(1, [&](int unit, int) {
        WaitBarrier(place.Empty(), place.parity ^ 1);
        if (threadIdx.x % kWarp == 0) {
          ArriveExpecting(place.Full(), bytes);
          CopyBulk(slots + place.slot * Layout::kSlotBytes + Layout::kWeightBytes,
                   from + static_cast<int64_t>(unit) * bytes, bytes, place.Full());
        }
        __syncwarp();
        place.Advance();
      });
      work.Meet<S>(columns);
    });
  }
};

// Brings input rows into the order of core matrices, unit by unit: what the wide instructions read.
// Columns of a group behind the last row are zeros.
template <typename Op>
__global__ void PackInputsKernel(const __grid_constant__ Op op) {
  AwaitKernelBefore();
  LetNextKernelStart();
  const int unit = static_cast<int>(blockIdx.x);
  for (int64_t i = blockIdx.y; i < op.InputTiles(); i += gridDim.y) {
    const typename Op::Item item = op.InputItem(i);
    const int columns = op.Columns(item), pieces = (columns + 7) / 8 * 64;
    auto* to = reinterpret_cast<uint4*>(op.Packed(item)) + static_cast<int64_t>(unit) * pieces;
    for (int piece = static_cast<int>(threadIdx.x); piece < pieces;
         piece += static_cast<int>(blockDim.x)) {
      const int n = piece / 64 * 8 + piece % 8, col = unit * kUnitCols + piece % 64 / 8 * 8;
      uint4 value = {};
      if (n < columns) value = *reinterpret_cast<const uint4*>(op.InputRow(item, n) + col);
      to[piece] = value;
    }
  }
}

}  // namespace thalweg::kernels::cuda
