// The matrix product of packed weights and packed rows of codes, both e4m3 (fp4 weights become e4m3
// in registers): blocks of 32 of K are one matrix instruction each, whose sums are multiplied by
// the scales and added in fp32 in ascending order (model.md 5.2). Warps that copy fill a ring of
// slots with bulk copies, warpgroups multiply: weights are operand A in registers, 64 rows a
// warpgroup, and all warpgroups of a block share the input rows.
//
// What a scale of fp4 weights costs: with a factor for each weight row and input row a block takes
// two instructions an output. Where the scales of 16 rows lie within 2^11 of each other they go
// into the codes instead: e2m1 numbers times 2^-5 to 2^6 are e4m3 numbers, and the table that turns
// codes is made for each block by an addition to the exponents of its eight entries. Powers of two
// commute with every rounding here: the bits are the same.
//
// Of an Op it asks what product_ring.cuh does; Packed(item) are bytes, a unit of a group of 8 rows
// after another (kInputUnitBytes).
#pragma once

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/product_ring.cuh"
#include "kernels/cuda/wgmma_codes.cuh"

namespace thalweg::kernels::cuda {

// kGroups warpgroups that multiply; kUnits units of fp4 or half as many of fp8 a slot; kStages
// slots; kBlocks blocks on a multiprocessor; kBuffers sets of products under way, each of a piece
// of a tile's columns (kPieces of them); widths of a tile, ascending.
template <int kGroups_, int kUnits_, int kStages_, int kBlocks_, int kBuffers_, int kPieces_,
          int... kWidths>
struct CodesShape {
  static constexpr int kGroups = kGroups_, kQuads = 1;
  static constexpr int kUnits = kUnits_, kFp8Units = (kUnits + 1) / 2;
  static constexpr int kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kBuffers = kBuffers_, kPieces = kPieces_;
  static constexpr int kRows = kGroups * 64, kSlabs = kRows / kUnitRows;
  using Widths = std::integer_sequence<int, kWidths...>;
  static constexpr int kCols = std::max({kWidths...});
  static constexpr int kThreads = kGroups * 128 + 128;
  static constexpr int kInputWarp = kGroups * 4;
  // Registers of a thread as the block begins; the warpgroup that copies leaves some to the others.
  static constexpr int kEven = 65536 / (kThreads * kBlocks) / 8 * 8;
  static constexpr int kStart = kEven > 240 ? 240 : kEven;
  static constexpr int kCopying = kCols > 32 ? 40 : 56;
  static constexpr int kFree = (kStart * kThreads - kCopying * 128) / (kGroups * 128) / 8 * 8;
  static constexpr int kMultiplying = kFree > 240 ? 240 : kFree;
};

template <typename S>
struct CodesLayout {
  static constexpr int kSlabBytes =
      std::max(S::kUnits * kFp4UnitBytes, S::kFp8Units* kFp8UnitBytes);
  // Behind the weights the bases of their rows, in the first slot of a tile of fp4.
  static constexpr int kBasesAt = S::kSlabs * kSlabBytes;
  static constexpr int kWeightBytes = (kBasesAt + S::kSlabs * kBasesBytes + 127) / 128 * 128;
  static constexpr int kSlotBytes =
      kWeightBytes + (S::kUnits * S::kCols / 8 * kInputUnitBytes + 127) / 128 * 128;
  static constexpr int kSumBytes = S::kGroups * kSumColsOf<S> * kSumPitch * 4;
  static constexpr int kSumsAt = S::kStages * kSlotBytes;
  static constexpr int kBarriersAt = kSumsAt + kSumBytes;
  static constexpr int kBytes = kBarriersAt + 2 * S::kStages * kBarrierBytes;
};

// Where the bases of a slab's rows are, behind all units of the matrix (codes.cuh).
__device__ inline const char* BasesOf(const Slab& slab, int64_t units) {
  const int64_t slabs = (slab.rows + kUnitRows - 1) / kUnitRows, at = slab.first / kUnitRows;
  return static_cast<const char*>(slab.data) + (slabs - at) * units * kFp4UnitBytes +
         at * kBasesBytes;
}

// Copies the bases of the slabs of a warp that copies weights into the tile's first slot.
template <typename Op, typename S>
__device__ inline void CopyBases(const Op& op, const typename Op::Item& item, int64_t units,
                                 uint32_t slot, int part, uint32_t full) {
  constexpr int kMost = (S::kSlabs + kWeightWarps - 1) / kWeightWarps;
  const int mine = (S::kSlabs - part + kWeightWarps - 1) / kWeightWarps;
  AddExpected(full, mine * kBasesBytes);
#pragma unroll 1
  for (int i = 0; i < kMost; ++i) {
    const int slab = part + i * kWeightWarps;
    if (slab >= S::kSlabs) continue;
    CopyBulk(slot + CodesLayout<S>::kBasesAt + slab * kBasesBytes,
             BasesOf(op.SlabAt(item, slab), units), kBasesBytes, full);
  }
}

// A warp that copies weights.
template <typename Op, typename S>
__device__ inline void CopyCodedWeights(const Op& op, const RingWork& work, uint32_t slots,
                                        int part, RingPlace<S::kStages> place) {
  using L = CodesLayout<S>;
  work.ForTiles(op, [&](const typename Op::Item& item) {
    if (op.FormatOf(item) == WeightFormat::kFp4) {
      WaitBarrier(place.Empty(), place.parity ^ 1);
      if (threadIdx.x % kWarp == 0) {
        CopyBases<Op, S>(op, item, work.units, slots + place.slot * L::kSlotBytes, part,
                         place.Full());
      }
      __syncwarp();
    }
    CopySlabs<Op, S, L::kSlotBytes, L::kSlabBytes>(op, item, work, slots, part, &place);
    work.Meet<S>(op.Columns(item));
  });
}

// The warp that copies input rows.
template <typename Op, typename S>
__device__ inline void CopyCodedInputs(const Op& op, const RingWork& work, uint32_t slots,
                                       RingPlace<S::kStages> place) {
  using L = CodesLayout<S>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  work.ForTiles(op, [&](const typename Op::Item& item) {
    const int columns = op.Columns(item), unit_bytes = (columns + 7) / 8 * kInputUnitBytes;
    const uint8_t* from = op.Packed(item);
    work.ForSlots(UnitsOfSlot<S>(op, item), [&](int unit, int units) {
      WaitBarrier(place.Empty(), place.parity ^ 1);
      if (lane == 0) {
        ArriveExpecting(place.Full(), units * unit_bytes);
        CopyBulk(slots + place.slot * L::kSlotBytes + L::kWeightBytes,
                 from + static_cast<int64_t>(unit) * unit_bytes, units * unit_bytes, place.Full());
      }
      __syncwarp();
      place.Advance();
    });
    work.Meet<S>(columns);
  });
}

// How scales of weights reach the sums.
enum class Scales {
  kFolded,  // fp4: in the codes, relative to the row's base
  kRows,    // fp4: a factor for each row
  kTiles,   // fp8: a factor for all rows of the warp
};

__device__ inline int LoadShared8(uint32_t address) {
  uint32_t x;
  asm volatile("ld.shared.u8 %0, [%1];\n" : "=r"(x) : "r"(address));
  return static_cast<int>(x);
}
__device__ inline float LoadSharedFloat(uint32_t address) {
  return __uint_as_float(LoadShared32(address));
}
__device__ inline float4 LoadSharedFloats4(uint32_t address) {
  float4 x;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n"
               : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
               : "r"(address));
  return x;
}

// The e4m3 numbers of the eight e2m1 magnitudes times a power of two, as bytes.
struct Magnitudes {
  static constexpr uint32_t kLowStep = 0x08080800u, kHighStep = 0x08080808u;  // times 2 more
  uint32_t low = kFp4Low, high = kFp4High;
  __device__ Magnitudes Times(int exponent) const {
    return {low + kLowStep * exponent, high + kHighStep * exponent};
  }
  // Eight codes of a word (codes.cuh) as two times four bytes.
  __device__ void Turn(uint32_t word, uint32_t* first, uint32_t* second) const {
    const uint32_t selectors = word & 0x77777777u;
    *first = __byte_perm(low, high, selectors) | (word & 0x80808080u);
    *second = __byte_perm(low, high, selectors >> 16) | ((word << 4) & 0x80808080u);
  }
};

// What a lane holds of a unit of a slab in shared memory.
template <Scales kScales>
struct CodedUnit {
  uint4 codes = {};
  uint32_t scales = 0;
  __device__ void Load(uint32_t unit, int lane) {
    codes = LoadShared128(unit + lane * 16);
    scales = LoadShared32(unit + 512 + lane / 4 * 4);
  }
  // The A operand of a step, and the factors of its rows (kRows).
  __device__ void Turn(int step, const Magnitudes (&tables)[2], uint32_t (&a)[4],
                       float (&factors)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t word =
          step == 0 ? (half == 0 ? codes.x : codes.y) : (half == 0 ? codes.z : codes.w);
      const uint32_t scale = __byte_perm(scales, 0, 0x4440u + half * 2 + step);
      Magnitudes table;
      if (kScales == Scales::kFolded) table = tables[half].Times(static_cast<int>(scale));
      table.Turn(word, &a[half], &a[2 + half]);
      if (kScales == Scales::kRows) factors[half] = __uint_as_float(scale << 23);
    }
  }
};
template <>
struct CodedUnit<Scales::kTiles> {
  uint32_t unit = 0;
  int lane = 0;
  __device__ void Load(uint32_t at, int thread) {
    unit = at;
    lane = thread;
  }
  __device__ void Turn(int step, const Magnitudes (&)[2], uint32_t (&a)[4],
                       float (&factors)[2]) const {
    const uint32_t row = unit + lane / 8 % 2 * kCodesBytes + (2 * step + lane / 16) * kCoreBytes;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(row + lane % 8 * 16));
    factors[0] = factors[1] = LoadSharedFloat(unit + 1024 + step * 4);
  }
};

// A warpgroup that multiplies.
template <typename Op, typename S>
class CodesConsumer {
 public:
  using L = CodesLayout<S>;
  __device__ CodesConsumer(const Op& op, const RingWork& work, uint32_t slots,
                           RingPlace<S::kStages> place, float* sums)
      : op_(op), work_(work), ring_(slots, place), sums_(sums) {}

  __device__ void Run() {
    const int64_t tiles = op_.Tiles();
    int64_t tile = work_.TileAt(op_, 0, tiles);
    if (tile >= tiles) return;
    ahead_ = op_.Locate(tile);
    ahead_format_ = op_.FormatOf(ahead_);
    for (int64_t round = 1; tile < tiles; ++round) {
      const typename Op::Item item = ahead_;
      fp4_ = ahead_format_ == WeightFormat::kFp4;
      // What the next tile is, is on its way while this one is multiplied.
      tile = work_.TileAt(op_, round, tiles);
      if (tile < tiles) ahead_ = op_.Locate(tile);
      const int columns = op_.Columns(item);
      unit_bytes_ = (columns + 7) / 8 * kInputUnitBytes;
      ForWidthOf(columns, typename S::Widths(),
                 [&](auto width) { Tile<decltype(width)::value>(item); });
    }
  }

 private:
  template <int kWidth>
  struct Sums {
    float value[1][kWidth / 2];
  };
  template <int kWidth>
  struct Columns {
    static constexpr int kPasses = (kWidth + kWarp - 1) / kWarp;
    typename Op::Column of[kPasses];
  };

  template <int kWidth>
  __device__ void Tile(const typename Op::Item& item) {
    Columns<kWidth> columns;
#pragma unroll
    for (int p = 0; p < Columns<kWidth>::kPasses; ++p) {
      columns.of[p] = op_.ColumnAt(item, p * kWarp + lane_);
    }
    if (!fp4_) {
      return Ranks<kWidth, Scales::kTiles>(item, columns);
    }
    WaitNext();
    waited_ = true;
    if (TakeBases()) {
      Ranks<kWidth, Scales::kFolded>(item, columns);
    } else {
      Ranks<kWidth, Scales::kRows>(item, columns);
    }
  }

  // The bases of this lane's rows; whether the scales of all rows of the warpgroup go into codes,
  // for its warps must go one way.
  __device__ bool TakeBases() {
    const uint32_t bases = slot_ + L::kBasesAt;
    bool folds = true;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      folds = folds && LoadShared8(bases + (warp_ / 4 * 4 + i) * kBasesBytes) != kNoBase;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int base = LoadShared8(bases + warp_ * kBasesBytes + half * 8 + lane_ / 4);
      tables_[half] = Magnitudes().Times(-base);
      ends_[half] = PowerOf2(base - 127);
    }
    return folds;
  }

  __device__ static float PowerOf2(int exponent) {
    if (exponent >= -126) return __uint_as_float(static_cast<uint32_t>(exponent + 127) << 23);
    return __uint_as_float(1u << (exponent + 149));
  }

  template <int kWidth, Scales kScales>
  __device__ void Ranks(const typename Op::Item& item, const Columns<kWidth>& columns) {
    Sums<kWidth> acc = {};
    if constexpr (Op::kSplits) {
      Sums<kWidth> sums = {};
#pragma unroll 1
      for (int rank = work_.Rank(); rank < work_.LastRank(); ++rank) {
        Multiply<kWidth, kScales>(work_.Begin(rank), work_.Begin(rank + 1), &acc);
#pragma unroll
        for (int i = 0; i < kWidth / 2; ++i) {
          float& mine = acc.value[0][i];
          sums.value[0][i] = rank == work_.Rank() ? mine : sums.value[0][i] + mine;
          mine = 0;
        }
      }
      Store<kWidth, kScales>(item, columns, &sums);
    } else {
      Multiply<kWidth, kScales>(0, work_.units, &acc);
      Store<kWidth, kScales>(item, columns, &acc);
    }
  }

  // As StoreTile.
  template <int kWidth, Scales kScales>
  __device__ void Store(const typename Op::Item& item, const Columns<kWidth>& columns,
                        Sums<kWidth>* sums) {
    using Tile = RingTile<S, kWidth>;
    constexpr int kAtOnce = kSumColsOf<Tile>;
    ahead_format_ = op_.FormatOf(ahead_);
    if (kScales == Scales::kFolded) {
#pragma unroll
      for (int i = 0; i < kWidth / 2; ++i) sums->value[0][i] *= ends_[i / 2 % 2];
    }
    const int group = warp_ / 4, ranks = work_.cluster;
    float* mine = sums_ + group * kAtOnce * kSumPitch;
#pragma unroll
    for (int p = 0; p < Columns<kWidth>::kPasses; ++p) {
      SpreadSums<Tile>(sums->value[0], p * kAtOnce, 1.0f, mine);
      SyncRanks(ranks);
      const int end = min(kAtOnce, min(kWidth, op_.Columns(item)) - p * kAtOnce);
#pragma unroll 2
      for (int n = work_.Rank() + warp_ % 4 * ranks; n < end; n += 4 * ranks) {
        op_.Store(item, group, p * kAtOnce + n, FromLane(columns.of[p], n),
                  SumsOf<Op>(mine + n * kSumPitch, ranks));
      }
      LeaveRanks(ranks);
    }
  }

  // acc += the products of units begin to end - 1.
  template <int kWidth, Scales kScales>
  __device__ void Multiply(int begin, int end, Sums<kWidth>* acc) {
    constexpr int kMost = kScales == Scales::kTiles ? S::kFp8Units : S::kUnits;
    int unit = begin;
#pragma unroll 1
    for (; unit + kMost <= end; unit += kMost) {
      WaitNext();
      MultiplyUnits<kWidth, kScales, kMost>(0, acc->value[0]);
      ring_.Free();
    }
    if (unit == end) return;
    WaitNext();
#pragma unroll 1
    for (int u = 0; unit + u < end; ++u) MultiplyUnits<kWidth, kScales, 1>(u, acc->value[0]);
    ring_.Free();
  }

  // Units `first` on of the slot: of each unit a piece of the columns after another, both steps of
  // K of a piece. No products are under way at the end: they would cross branches that the compiler
  // takes for divergent. Other warpgroups multiply meanwhile.
  template <int kWidth, Scales kScales, int kCount>
  __device__ void MultiplyUnits(int first, float (&acc)[kWidth / 2]) {
    constexpr int kPieces = kWidth % (S::kPieces * 8) == 0 ? S::kPieces : 1;
    constexpr int kCols = kWidth / kPieces, kOfUnit = 2 * kPieces, kAll = kCount * kOfUnit;
    constexpr int kPieceBytes = kCols / 8 * kInputUnitBytes;
    constexpr int kUnitBytes = kScales == Scales::kTiles ? kFp8UnitBytes : kFp4UnitBytes;
    const uint32_t weights = slot_ + warp_ * L::kSlabBytes + first * kUnitBytes;
    const uint32_t inputs = slot_ + L::kWeightBytes + first * unit_bytes_;
    const CodeColumns columns(inputs, kInputUnitBytes);
    const uint32_t scales = inputs + kCodesBytes + lane_ % 4 * 16;
    CodedUnit<kScales> unit;
    uint32_t a[2][4];
    float rows[2][2], products[S::kBuffers][kCols / 2];
    float4 factors[kCols / 8];
    const auto load = [&](int u) { unit.Load(weights + u * kUnitBytes, lane_); };
    const auto turn = [&](int q) {  // what the product needs, if the one before did not
      const int of_unit = q % kOfUnit;
      if (of_unit < 2) unit.Turn(of_unit, tables_, a[of_unit], rows[of_unit]);
    };
    const auto issue = [&](int q) {
      const int piece = q % kOfUnit / 2;
      BeginProducts();
      MultiplyCodes<kCols>(
          products[q % S::kBuffers], a[q % 2],
          columns.Behind(q / kOfUnit * unit_bytes_ + q % 2 * 2 * kCoreBytes + piece * kPieceBytes));
      CommitProducts();
    };
    load(0);
    turn(0);
    if (S::kBuffers == 2) issue(0);
#pragma unroll
    for (int q = 0; q < kAll; ++q) {
      if (q % 2 == 0) {  // early: on their way while the product runs
#pragma unroll
        for (int i = 0; i < kCols / 8; ++i) {
          factors[i] = LoadSharedFloats4(scales + q / kOfUnit * unit_bytes_ +
                                         q % kOfUnit / 2 * kPieceBytes + i * kInputUnitBytes);
        }
      }
      if (S::kBuffers == 1) issue(q);
      if (q + 1 < kAll) turn(q + 1);
      if (q % kOfUnit == kOfUnit - 2 && q / kOfUnit + 1 < kCount) load(q / kOfUnit + 1);
      if (S::kBuffers == 2 && q + 1 < kAll) issue(q + 1);
      if (S::kBuffers == 2 && q + 1 < kAll) {
        WaitProducts<1>();
      } else {
        WaitProducts<0>();
      }
      Settle(products[q % S::kBuffers]);
      Add<kScales>(products[q % S::kBuffers], factors, q % 2, rows[q % 2],
                   acc + q % kOfUnit / 2 * (kCols / 2));
    }
  }

  template <Scales kScales, int kSums>
  __device__ static void Add(const float (&products)[kSums], const float4 (&factors)[kSums / 4],
                             int step, const float (&rows)[2], float* acc) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) {
      const float4& both = factors[i / 4];
      const float even = step == 0 ? both.x : both.z, odd = step == 0 ? both.y : both.w;
      float factor = i % 2 == 0 ? even : odd;
      if (kScales != Scales::kFolded) factor *= rows[i / 2 % 2];
      acc[i] = fmaf(products[i], factor, acc[i]);
    }
  }

  __device__ void WaitNext() {
    if (waited_) {  // for the bases
      waited_ = false;
      return;
    }
    slot_ = ring_.Wait();
  }

  const Op& op_;
  const RingWork& work_;
  SlotReader<S, L> ring_;
  float* sums_;
  const int lane_ = static_cast<int>(threadIdx.x) % kWarp, warp_ = WarpOfBlock();
  typename Op::Item ahead_;  // the next tile
  WeightFormat ahead_format_ = WeightFormat::kFp4;
  bool fp4_ = false, waited_ = false;
  uint32_t slot_ = 0;
  int unit_bytes_ = 0;
  Magnitudes tables_[2];
  float ends_[2] = {1, 1};
};

// What a kernel with such tiles is made of.
template <typename Op_, typename S>
struct CodesRing {
  using Op = Op_;
  using Shape = S;
  using Layout = CodesLayout<S>;
  using Consumer = CodesConsumer<Op, S>;
  static constexpr int kCopyWarps = cuda::kCopyWarps;
  static constexpr bool kTrades = true;
  // The kernel before has encoded the inputs: what it waited for is there, lists among it.
  static constexpr bool kWeightsWait = false;
  __device__ static void CopyWeights(const Op& op, const RingWork& work, uint32_t slots, int part,
                                     RingPlace<S::kStages> place) {
    CopyCodedWeights<Op, S>(op, work, slots, part, place);
  }
  __device__ static void CopyInputs(const Op& op, const RingWork& work, uint32_t slots,
                                    RingPlace<S::kStages> place) {
    CopyCodedInputs<Op, S>(op, work, slots, place);
  }
};

}  // namespace thalweg::kernels::cuda
