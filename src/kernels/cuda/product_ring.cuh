// The matrix product over packed weights with warps that copy and warps that multiply. Copies are
// bulk ones into a ring of slots, which takes neither registers nor the attention of those that
// multiply: as many bytes as the ring holds are always on their way. The order of sums is that of
// product.cuh.
//
// Two ways to multiply: tiles of up to 32 input rows copy each row's piece of K and run through the
// small instructions; wider ones read inputs that PackInputs has brought into the order of core
// matrices, and run through the wide instructions with the weights as operand A in registers. Both
// turn codes into bf16 in registers, on the way from shared memory.
//
// Beside what product.cuh asks of an Op:
//   Columns(item): the input rows of a tile.
//   InputTiles(), InputItem(i): tiles of input rows, and an item of each; Packed(item): where the
//     packed input rows of a tile are, 8 rows by `width` values for each group of 8 (wide only).
//   kWeightsKnown: weights of a tile do not depend on the kernel before.
//   kLeadsEarly: the kernel behind may start while the one in front runs.
// K is a multiple of kUnitCols, and input rows are aligned (RingTakes).
#pragma once

#include <algorithm>
#include <utility>

#include "kernels/cuda/product_few.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/ring_work.cuh"

namespace thalweg::kernels::cuda {

// kGroups warpgroups that multiply, kQuads times 64 weight rows each; kUnits units of fp4 or half
// as many of fp8 a slot; kStages slots; kBlocks blocks on a multiprocessor; widths of a tile,
// ascending.
//
// Behind them two warps copy weights and input rows. Wide tiles have a whole warpgroup there, so
// that it can leave registers to the others.
template <int kGroups_, int kQuads_, int kUnits_, int kStages_, int kBlocks_, int... kWidths>
struct RingShape {
  static constexpr int kGroups = kGroups_, kQuads = kQuads_;
  static constexpr int kUnits = kUnits_, kFp8Units = (kUnits + 1) / 2;
  static constexpr int kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kRows = kGroups * kQuads * 64, kSlabs = kRows / kUnitRows;
  using Widths = std::integer_sequence<int, kWidths...>;
  static constexpr int kCols = std::max({kWidths...});
  static constexpr bool kWide = kCols > 32;
  static constexpr int kThreads = kGroups * 128 + (kWide ? 128 : 64);
  static constexpr int kInputWarp = kGroups * 4;
  // Registers of a thread as the block begins; a warpgroup that copies leaves some to the others.
  static constexpr int kEven = 65536 / (kThreads * kBlocks) / 8 * 8;
  static constexpr int kStart = kEven > 240 ? 240 : kEven;
  static constexpr int kCopying = 40;
  static constexpr int kFree = (kStart * kThreads - kCopying * 128) / (kGroups * 128) / 8 * 8;
  static constexpr int kMultiplying = kFree > 240 ? 240 : kFree;
};

inline constexpr int kGroupBytes = 8 * kCoreBytes;  // 8 input rows of a unit

template <typename S>
struct RingLayout {
  static constexpr int kSlabBytes =
      std::max(S::kUnits * kFp4UnitBytes, S::kFp8Units* kFp8UnitBytes);
  static constexpr int kWeightBytes = (S::kSlabs * kSlabBytes + 127) / 128 * 128;
  // Narrow tiles: rows on different banks.
  static constexpr int kRowPitch = S::kUnits * kUnitCols * 2 + (S::kWide ? 0 : 16);
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

// Weights of narrow tiles, by one warp: a lane copies those of a slab.
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

// Those of wide tiles, by one of kWeightWarps.
template <typename Op, typename S>
__device__ inline void CopyWideWeights(const Op& op, const RingWork& work, uint32_t slots, int part,
                                       RingPlace<S::kStages> place) {
  using L = RingLayout<S>;
  work.ForTiles(op, [&](const typename Op::Item& item) {
    CopySlabs<Op, S, L::kSlotBytes, L::kSlabBytes>(op, item, work, slots, part, &place);
    work.Meet<S>(op.Columns(item));
  });
}

// The warp that copies input rows: a lane each, or all packed ones at once.
template <typename Op, typename S>
__device__ inline void CopyInputs(const Op& op, const RingWork& work, uint32_t slots,
                                  RingPlace<S::kStages> place) {
  using L = RingLayout<S>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  work.ForTiles(op, [&](const typename Op::Item& item) {
    const int columns = op.Columns(item), lanes = S::kWide ? 1 : columns;
    const int unit_values = S::kWide ? (columns + 7) / 8 * 8 * kUnitCols : kUnitCols;
    const BF16* from = nullptr;
    if (lane < lanes) from = S::kWide ? op.Packed(item) : op.InputRow(item, lane);
    work.ForSlots(UnitsOfSlot<S>(op, item), [&](int unit, int units) {
      const int bytes = units * unit_values * 2;
      WaitBarrier(place.Empty(), place.parity ^ 1);
      if (lane == 0) ArriveExpecting(place.Full(), bytes * lanes);
      __syncwarp();
      if (lane < lanes) {
        CopyBulk(slots + place.slot * L::kSlotBytes + L::kWeightBytes + lane * L::kRowPitch,
                 from + static_cast<int64_t>(unit) * unit_values, bytes, place.Full());
      }
      place.Advance();
    });
    work.Meet<S>(columns);
  });
}

// A shape whose tile is kWidth wide, for StoreTile.
template <typename S, int kWidth>
struct RingTile {
  static constexpr int kGroups = S::kGroups, kQuads = S::kQuads, kCols = kWidth;
};

// A warpgroup that multiplies.
template <typename Op, typename S>
class RingConsumer {
 public:
  using L = RingLayout<S>;
  __device__ RingConsumer(const Op& op, const RingWork& work, uint32_t slots,
                          RingPlace<S::kStages> place, float* sums)
      : op_(op), work_(work), slots_(slots), sums_(sums), next_(place), oldest_(place) {}

  __device__ void Run() {
    work_.ForTiles(op_, [&](const typename Op::Item& item) {
      const int columns = op_.Columns(item);
      groups_ = (columns + 7) / 8;
      fp4_ = op_.FormatOf(item) == WeightFormat::kFp4;
      Choose(item, columns, typename S::Widths());
    });
  }

 private:
  template <int kWidth>
  struct Sums {
    float value[S::kQuads][kWidth / 2];
  };

  template <int... kWidths>
  __device__ void Choose(const typename Op::Item& item, int columns,
                         std::integer_sequence<int, kWidths...>) {
    bool done = false;
    ((done = done || (columns <= kWidths && Tile<kWidths>(item))), ...);
  }

  template <int kWidth>
  __device__ bool Tile(const typename Op::Item& item) {
    Sums<kWidth> acc = {};
    if constexpr (Op::kSplits) {
      Sums<kWidth> sums = {};
#pragma unroll 1
      for (int rank = work_.Rank(); rank < work_.LastRank(); ++rank) {
        Multiply<kWidth>(work_.Begin(rank), work_.Begin(rank + 1), &acc);
        Add<kWidth>(rank == work_.Rank(), &acc, &sums);
      }
      Store<kWidth>(item, sums);
    } else {
      Multiply<kWidth>(0, work_.units, &acc);
      Store<kWidth>(item, acc);
    }
    return true;
  }

  // Takes the sums of a rank, and leaves zeros.
  template <int kWidth>
  __device__ static void Add(bool first, Sums<kWidth>* acc, Sums<kWidth>* sums) {
#pragma unroll
    for (int q = 0; q < S::kQuads; ++q) {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) {
        float& rank = acc->value[q][i];
        sums->value[q][i] = first ? rank : sums->value[q][i] + rank;
        rank = 0;
      }
    }
  }
  template <int kWidth>
  __device__ void Store(const typename Op::Item& item, const Sums<kWidth>& sums) {
    StoreTile<Op, RingTile<S, kWidth>>(op_, item, sums.value, kUnitsFactor, sums_, work_.Rank(),
                                       work_.cluster);
  }

  // acc += the products of units begin to end - 1.
  template <int kWidth>
  __device__ void Multiply(int begin, int end, Sums<kWidth>* acc) {
    if constexpr (S::kWide) {
      MultiplyWide<kWidth>(begin, end, acc);
    } else {
      MultiplyNarrow<kWidth>(begin, end, acc->value[0]);
    }
  }

  template <int kWidth>
  __device__ void MultiplyNarrow(int begin, int end, float (&acc)[kWidth / 2]) {
    static_assert(S::kQuads == 1);
    const int most = fp4_ ? S::kUnits : S::kFp8Units;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const uint32_t mine = L::kWeightBytes + lane % 8 * L::kRowPitch + lane / 8 * 16;
#pragma unroll 1
    for (int unit = begin; unit < end; unit += most) {
      WaitNext();
      if (fp4_ && unit + S::kUnits <= end) {
        MultiplyWholeSlot<kWidth>(mine, acc);
        __syncwarp();
        FreeHeld();
        continue;
      }
#pragma unroll
      for (int u = 0; u < S::kUnits; ++u) {
        if (u >= most || unit + u >= end) break;
        uint32_t a[kUnitSteps][4];
        Unpack(0, u, a);
        MultiplyRows<kWidth>(a, slot_ + mine + u * kUnitCols * 2, acc);
      }
      __syncwarp();
      FreeHeld();
    }
  }

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

  // Two units of a quad, or one of two quads, at a time: while the products of the first run, the
  // codes of the second are turned. They end together: other warpgroups multiply meanwhile.
  template <int kWidth>
  __device__ void MultiplyWide(int begin, int end, Sums<kWidth>* acc) {
    static_assert(S::kQuads <= 2);
    const int most = fp4_ ? S::kUnits : S::kFp8Units;
    int u = 0;  // within the slot
#pragma unroll 1
    for (int unit = begin; unit < end; unit += S::kQuads == 2 ? 1 : 2) {
      uint32_t a[2][kUnitSteps][4];
      if (u == 0) WaitNext();
      Step<kWidth>(0, u, a[0], acc->value[0]);
      if (S::kQuads == 2) {
        Step<kWidth>(1, u, a[1], acc->value[S::kQuads - 1]);
      } else {
        u = u + 1 == most ? 0 : u + 1;
        if (unit + 1 < end) {
          if (u == 0) WaitNext();
          Step<kWidth>(0, u, a[1], acc->value[0]);
        }
      }
      u = u + 1 == most ? 0 : u + 1;
      WaitProducts<0>();
      if (u == 0) FreeHeld();
    }
    FreeHeld();
  }

  template <int kWidth>
  __device__ void Step(int quad, int unit, uint32_t (&a)[kUnitSteps][4], float (&acc)[kWidth / 2]) {
    Unpack(quad, unit, a);
    const uint32_t inputs = slot_ + L::kWeightBytes + unit * groups_ * kGroupBytes;
    BeginProducts();
#pragma unroll
    for (int s = 0; s < kUnitSteps; ++s) {
      cuda::Multiply<kWidth>(acc, a[s], inputs + s * 2 * kCoreBytes, kGroupBytes);
    }
    CommitProducts();
  }

  // Unit `unit` of the slot, of this warp's slab in a quad.
  __device__ void Unpack(int quad, int unit, uint32_t (&a)[kUnitSteps][4]) const {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int thread = static_cast<int>(threadIdx.x) % kWarp;
    const uint32_t slab = slot_ + ((warp / 4 * S::kQuads + quad) * 4 + warp % 4) * L::kSlabBytes;
    if (fp4_) {
      Fp4Lane lane;
      lane.LoadShared(slab + unit * kFp4UnitBytes, thread);
      lane.Unpack(a);
    } else {
      Fp8Lane lane;
      lane.LoadShared(slab + unit * kFp8UnitBytes, thread);
      lane.Unpack(a);
    }
  }

  __device__ void WaitNext() {
    WaitBarrier(next_.Full(), next_.parity);
    slot_ = slots_ + next_.slot * L::kSlotBytes;
    next_.Advance();
    ++held_;
  }
  __device__ void FreeHeld() {
    for (; held_ > 0; --held_) {
      if (threadIdx.x % kWarp == 0) Arrive(oldest_.Empty());
      oldest_.Advance();
    }
  }

  const Op& op_;
  const RingWork& work_;
  uint32_t slots_;
  float* sums_;
  RingPlace<S::kStages> next_, oldest_;
  uint32_t slot_ = 0;
  int held_ = 0, groups_ = 0;
  bool fp4_ = false;
};

template <typename Op, typename S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    RingKernel(const __grid_constant__ Op op, int units, int ranks, int cluster) {
  using L = RingLayout<S>;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t slots = SharedAddress(shared);
  const RingPlace<S::kStages> place{slots + L::kBarriersAt};
  if (threadIdx.x < S::kStages) {
    InitBarrier(place.barriers + threadIdx.x * kBarrierBytes, S::kWide ? kCopyWarps : 2);
    InitBarrier(place.barriers + (S::kStages + threadIdx.x) * kBarrierBytes, S::kGroups * 4);
  }
  PublishShared();
  __syncthreads();
  const RingWork work{units, ranks, cluster};
  const int warp = WarpOfBlock();
  if (warp >= S::kInputWarp) {
    if constexpr (S::kWide) KeepRegisters<S::kCopying>();
    if (warp > S::kInputWarp) {
      if (!S::kWide && !Op::kWeightsKnown) AwaitKernelBefore();
      if constexpr (S::kWide) {
        CopyWideWeights<Op, S>(op, work, slots, warp - S::kInputWarp - 1, place);
      } else {
        CopyWeights<Op, S>(op, work, slots, place);
      }
    } else {
      AwaitKernelBefore();
      CopyInputs<Op, S>(op, work, slots, place);
    }
  } else {
    if constexpr (S::kWide) TakeRegisters<S::kMultiplying>();
    // The next kernel may read before it waits what the one in front has made (kWeightsKnown).
    if constexpr (Op::kLeadsEarly) LetNextKernelStart();
    AwaitKernelBefore();
    if constexpr (!Op::kLeadsEarly) LetNextKernelStart();
    auto* sums = reinterpret_cast<float*>(shared + L::kSumsAt);
    RingConsumer<Op, S>(op, work, slots, place, sums).Run();
  }
}

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
