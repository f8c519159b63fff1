// The matrix product over packed weights with warps that copy and warps that multiply. Copies are
// bulk ones into a ring of slots, which takes neither registers nor the attention of those that
// multiply: as many bytes as the ring holds are always on their way. The order of sums is that of
// product.cuh.
//
// Tiles of up to 32 input rows: each row's piece of K is copied, and runs through the small
// instructions. Codes become bf16 in registers, on the way from shared memory.
//
// Beside what product.cuh asks of an Op:
//   Columns(item): the input rows of a tile.
//   kWeightsKnown: weights of a tile do not depend on the kernel before.
//   kLeadsEarly: the kernel behind may start while the one in front runs.
// K is a multiple of kUnitCols, and input rows are aligned (RingTakes).
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/cuda/product_few.cuh"
#include "kernels/cuda/ring_kernel.cuh"
#include "kernels/cuda/tile_consumer.cuh"

namespace thalweg::kernels::cuda {

// kGroups warpgroups that multiply, 64 weight rows each; kUnits units of fp4 or half as many of fp8
// a slot; kStages slots; kBlocks blocks on a multiprocessor; widths of a tile, ascending. Behind
// the warpgroups two warps copy weights and input rows.
template <int kGroups_, int kUnits_, int kStages_, int kBlocks_, int... kWidths>
struct RingShape {
  static constexpr int kGroups = kGroups_, kQuads = 1;
  static constexpr int kUnits = kUnits_, kFp8Units = (kUnits + 1) / 2;
  static constexpr int kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kRows = kGroups * 64, kSlabs = kRows / kUnitRows;
  using Widths = std::integer_sequence<int, kWidths...>;
  static constexpr int kCols = std::max({kWidths...});
  static_assert(kCols <= 32);
  static constexpr int kThreads = kGroups * 128 + 64;
  static constexpr int kInputWarp = kGroups * 4;
};

template <typename S>
struct RingLayout {
  static constexpr int kSlabBytes =
      std::max(S::kUnits * kFp4UnitBytes, S::kFp8Units* kFp8UnitBytes);
  static constexpr int kWeightBytes = (S::kSlabs * kSlabBytes + 127) / 128 * 128;
  // Rows on different banks.
  static constexpr int kRowPitch = S::kUnits * kUnitCols * 2 + 16;
  static constexpr int kSlotBytes = kWeightBytes + (S::kCols * kRowPitch + 127) / 128 * 128;
  static constexpr int kSumBytes = S::kGroups * kSumColsOf<S> * kSumPitch * 4;
  static constexpr int kSumsAt = S::kStages * kSlotBytes;
  static constexpr int kBarriersAt = kSumsAt + kSumBytes;
  static constexpr int kBytes = kBarriersAt + 2 * S::kStages * kBarrierBytes;
};

template <typename S, typename Op>
__device__ inline int UnitsOfSlot(const Op& op, const typename Op::Item& item) {
  return op.FormatOf(item) == WeightFormat::kFp4 ? S::kUnits : S::kFp8Units;
}

// Warps that copy weights, behind the one that copies inputs. Each has every third slab, and one
// lane that copies: a copy takes uniform registers, lanes would only go one after another.
inline constexpr int kWeightWarps = 3, kCopyWarps = 1 + kWeightWarps;

// `part` of kWeightWarps. Slabs of a slot are kPitch apart.
template <typename Op, typename S, int kSlotBytes, int kPitch>
__device__ inline void CopySlabs(const Op& op, const typename Op::Item& item, const RingWork& work,
                                 uint32_t slots, int part, RingPlace<S::kStages>* place) {
  constexpr int kMost = (S::kSlabs + kWeightWarps - 1) / kWeightWarps;
  const int unit_bytes = op.FormatOf(item) == WeightFormat::kFp4 ? kFp4UnitBytes : kFp8UnitBytes;
  const char* slabs[kMost];
  int mine = 0;
#pragma unroll
  for (int i = 0; i < kMost; ++i) {
    const int slab = part + i * kWeightWarps;
    if (slab >= S::kSlabs) continue;
    slabs[i] = static_cast<const char*>(op.SlabAt(item, slab).data);
    ++mine;
  }
  work.ForSlots(UnitsOfSlot<S>(op, item), [&](int unit, int units) {
    const int bytes = units * unit_bytes;
    WaitBarrier(place->Empty(), place->parity ^ 1);
    if (threadIdx.x % kWarp == 0) {
      ArriveExpecting(place->Full(), bytes * mine);
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        const int slab = part + i * kWeightWarps;
        if (slab >= S::kSlabs) continue;
        CopyBulk(slots + place->slot * kSlotBytes + slab * kPitch,
                 slabs[i] + static_cast<int64_t>(unit) * unit_bytes, bytes, place->Full());
      }
    }
    __syncwarp();
    place->Advance();
  });
}

// Weights by one warp: a lane copies those of a slab.
template <typename Op, typename S>
__device__ inline void CopyWeights(const Op& op, const RingWork& work, uint32_t slots,
                                   RingPlace<S::kStages> place) {
  using L = RingLayout<S>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  work.ForTiles(op, [&](const typename Op::Item& item) {
    const int unit_bytes = op.FormatOf(item) == WeightFormat::kFp4 ? kFp4UnitBytes : kFp8UnitBytes;
    const char* slab = nullptr;
    if (lane < S::kSlabs) slab = static_cast<const char*>(op.SlabAt(item, lane).data);
    work.ForSlots(UnitsOfSlot<S>(op, item), [&](int unit, int units) {
      const int bytes = units * unit_bytes;
      WaitBarrier(place.Empty(), place.parity ^ 1);
      if (lane == 0) ArriveExpecting(place.Full(), bytes * S::kSlabs);
      __syncwarp();
      if (lane < S::kSlabs) {
        CopyBulk(slots + place.slot * L::kSlotBytes + lane * L::kSlabBytes,
                 slab + static_cast<int64_t>(unit) * unit_bytes, bytes, place.Full());
      }
      place.Advance();
    });
    work.Meet<S>(op.Columns(item));
  });
}

// The warp that copies input rows, a lane each.
template <typename Op, typename S>
__device__ inline void CopyInputs(const Op& op, const RingWork& work, uint32_t slots,
                                  RingPlace<S::kStages> place) {
  using L = RingLayout<S>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  work.ForTiles(op, [&](const typename Op::Item& item) {
    const int columns = op.Columns(item);
    const BF16* from = lane < columns ? op.InputRow(item, lane) : nullptr;
    work.ForSlots(UnitsOfSlot<S>(op, item), [&](int unit, int units) {
      const int bytes = units * kUnitCols * 2;
      WaitBarrier(place.Empty(), place.parity ^ 1);
      if (lane == 0) ArriveExpecting(place.Full(), bytes * columns);
      __syncwarp();
      if (lane < columns) {
        CopyBulk(slots + place.slot * L::kSlotBytes + L::kWeightBytes + lane * L::kRowPitch,
                 from + static_cast<int64_t>(unit) * kUnitCols, bytes, place.Full());
      }
      place.Advance();
    });
    work.Meet<S>(columns);
  });
}

// A warpgroup that multiplies.
template <typename Op, typename S>
class RingConsumer : public TileConsumer<RingConsumer<Op, S>, Op, S> {
 public:
  using Base = TileConsumer<RingConsumer, Op, S>;
  using L = RingLayout<S>;
  __device__ RingConsumer(const Op& op, const RingWork& work, uint32_t slots,
                          RingPlace<S::kStages> place, float* sums)
      : Base(op, work, sums), ring_(slots, place) {}

  template <int kWidth>
  __device__ void Multiply(int units, TileSums<S, kWidth>* sums) {
    float(&acc)[kWidth / 2] = sums->value[0];
    const bool fp4 = this->fp4();
    const int most = fp4 ? S::kUnits : S::kFp8Units;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const uint32_t mine = L::kWeightBytes + lane % 8 * L::kRowPitch + lane / 8 * 16;
#pragma unroll 1
    for (int unit = 0; unit < units; unit += most) {
      slot_ = ring_.Wait();
      if (fp4 && unit + S::kUnits <= units) {
        MultiplyWholeSlot<kWidth>(mine, acc);
        ring_.Free();
        continue;
      }
#pragma unroll
      for (int u = 0; u < S::kUnits; ++u) {
        if (u >= most || unit + u >= units) break;
        uint32_t a[kUnitSteps][4];
        Unpack(u, a);
        MultiplyRows<kWidth>(a, slot_ + mine + u * kUnitCols * 2, acc);
      }
      ring_.Free();
    }
  }

 private:
  // All units of a slot of fp4: their codes are on the way before the first is turned.
  template <int kWidth>
  __device__ void MultiplyWholeSlot(uint32_t mine, float (&acc)[kWidth / 2]) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int thread = static_cast<int>(threadIdx.x) % kWarp;
    const uint32_t slab = slot_ + warp * L::kSlabBytes;
    Fp4Lane lanes[S::kUnits];
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u) lanes[u].LoadShared(slab + u * kFp4UnitBytes, thread);
#pragma unroll
    for (int u = 0; u < S::kUnits; ++u) {
      uint32_t a[kUnitSteps][4];
      lanes[u].Unpack(a);
      MultiplyRows<kWidth>(a, slot_ + mine + u * kUnitCols * 2, acc);
    }
  }

  // A unit times input rows as they are; at: this lane's 16 bytes of the first two steps.
  template <int kWidth>
  __device__ static void MultiplyRows(const uint32_t (&a)[kUnitSteps][4], uint32_t at,
                                      float (&acc)[kWidth / 2]) {
#pragma unroll
    for (int i = 0; i < kWidth / 8; ++i) {
#pragma unroll
      for (int s = 0; s < kUnitSteps; s += 2) {
        uint32_t b[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(b[0]), "=r"(b[1]), "=r"(b[2]), "=r"(b[3])
                     : "r"(at + i * 8 * L::kRowPitch + s * 32));
        MultiplySmall(&acc[4 * i], a[s], b[0], b[1]);
        MultiplySmall(&acc[4 * i], a[s + 1], b[2], b[3]);
      }
    }
  }

  // Unit `unit` of the slot, of this warp's slab.
  __device__ void Unpack(int unit, uint32_t (&a)[kUnitSteps][4]) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int thread = static_cast<int>(threadIdx.x) % kWarp;
    const uint32_t slab = slot_ + warp * L::kSlabBytes;
    if (this->fp4()) {
      Fp4Lane lane;
      lane.LoadShared(slab + unit * kFp4UnitBytes, thread);
      lane.Unpack(a);
    } else {
      Fp8Lane lane;
      lane.LoadShared(slab + unit * kFp8UnitBytes, thread);
      lane.Unpack(a);
    }
  }

  SlotReader<S, L> ring_;
  uint32_t slot_ = 0;
};

// What a kernel with such tiles is made of.
template <typename Op_, typename S>
struct NarrowRing {
  using Op = Op_;
  using Shape = S;
  using Layout = RingLayout<S>;
  using Consumer = RingConsumer<Op, S>;
  static constexpr int kCopyWarps = 2;
  static constexpr bool kTrades = false, kWeightsWait = !Op::kWeightsKnown;
  __device__ static void CopyWeights(const Op& op, const RingWork& work, uint32_t slots, int,
                                     RingPlace<S::kStages> place) {
    cuda::CopyWeights<Op, S>(op, work, slots, place);
  }
  __device__ static void CopyInputs(const Op& op, const RingWork& work, uint32_t slots,
                                    RingPlace<S::kStages> place) {
    cuda::CopyInputs<Op, S>(op, work, slots, place);
  }
};

}  // namespace thalweg::kernels::cuda
