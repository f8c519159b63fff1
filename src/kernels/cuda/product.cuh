// The one matrix product of the CUDA backend: tiles of weight rows (the M of the instructions) by
// input rows (their N), K ascending. Blocks stay and walk over tiles, and copies of the next tile
// begin while the last steps of this one are computed: memory is never idle between tiles.
//
// The order of the sums of an output is one for few rows (product_few.cuh) and many: steps of 16
// columns within the ranges of the ranks (SplitBegin), then the sums of the ranks in order. For few
// rows ranks are blocks of a cluster; here a block goes through them one after another.
//
// An Op says what there is to multiply:
//   Item: one tile's place; Locate(tile) finds it, Tiles() counts them.
//   SlabAt(item, slab): 16 weight rows; slab counts within the tile.
//   InputRow(item, n): column n of the tile as a row of bf16 values, null behind the last.
//   ColumnAt(item, n): what Store needs to know of column n, loaded ahead of it; Column: its type,
//   made
//     of 32-bit values.
//   Store(item, quad, n, column, sums): 64 outputs (slabs 4 quad to 4 quad + 3) of column n, by one
//     warp; sums(i) is output i.
//   FormatOf(item): of packed weights. kSplits: whether K may be split between ranks.
//   width: K. inputs_aligned: input rows may be copied in pieces of 16 bytes.
#pragma once

#include <cooperative_groups.h>

#include <type_traits>

#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/operand.cuh"

namespace thalweg::kernels::cuda {

// Shape of a tile: kGroups warpgroups, kQuads times 64 weight rows each, kCols input rows; kUnits
// units of K a stage.
template <int kGroups_, int kQuads_, int kCols_, int kUnits_, int kStages_, int kBlocks_>
struct Shape {
  static constexpr int kGroups = kGroups_, kQuads = kQuads_, kCols = kCols_, kUnits = kUnits_;
  static constexpr int kStages = kStages_, kBlocks = kBlocks_;
  static constexpr int kThreads = kGroups * 128;
  static constexpr int kRows = kGroups * kQuads * 64;
  static constexpr int kSlabs = kRows / kUnitRows;
};

inline constexpr int kSumPitch = 68;  // floats; outputs of neighbouring columns on other banks
inline constexpr int kSumCols = 32;   // columns that pass through shared memory at once

// Ranges of K in units: multiples of two, so that stages of one and of two units split alike.
__host__ __device__ inline int SplitBegin(int units, int rank, int ranks) {
  const int begin = (units + 1) / 2 * rank / ranks * 2;
  return begin < units ? begin : units;
}

template <typename S>
inline constexpr int kSumColsOf = S::kCols < kSumCols ? S::kCols : kSumCols;

template <typename S, Operand kOperand>
struct Layout {
  static constexpr int kWeightBytes = S::kSlabs * S::kUnits * Units<kOperand>::kBytes;
  static constexpr int kInputGroupBytes = S::kUnits * 8 * kCoreBytes;  // 8 rows
  static constexpr int kStageBytes =
      (kWeightBytes + 127) / 128 * 128 + S::kCols / 8 * kInputGroupBytes;
  static constexpr int kSumBytes = S::kGroups * kSumColsOf<S> * kSumPitch * 4;
  static constexpr int kBytes = S::kStages * kStageBytes + kSumBytes;
};

// Tile number `round` of a block: rounds run to and fro, so that who has got a large tile gets a
// late one.
__device__ inline int64_t TileOf(int64_t round, int64_t block, int64_t blocks) {
  return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
}

// Eight values of an input row that cannot be copied in one piece; zeros behind its end.
__device__ inline void StoreInputs(int64_t width, uint32_t at, const BF16* row, int64_t col) {
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const uint16_t bits = col + i < width ? row[col + i].bits : uint16_t{0};
    asm volatile("st.shared.u16 [%0], %1;\n" ::"r"(at + i * 2), "h"(bits));
  }
}

// Starts the copies of one stage after another, over all tiles of the block.
template <typename Op, typename S, Operand kOperand>
class Producer {
 public:
  using L = Layout<S, kOperand>;
  __device__ Producer(const Op& op, int units, int ranks)
      : op_(op), tiles_(op.Tiles()), units_(units), ranks_(ranks) {
    NextTile();
  }

  __device__ void Issue(uint32_t stage) {
    if (tile_ < tiles_) {
      IssueWeights(stage);
      IssueInputs(stage + L::kStageBytes - S::kCols / 8 * L::kInputGroupBytes);
      unit_ += S::kUnits;
      if (unit_ >= end_) NextRank();
    }
    CommitCopies();
  }

 private:
  static constexpr int kPieces = S::kCols * S::kUnits * 8;  // of 16 bytes
  static constexpr int kMine = (kPieces + S::kThreads - 1) / S::kThreads;

  __device__ void NextRank() {
    ++rank_;
    unit_ = end_;
    end_ = SplitBegin(units_, rank_ + 1, ranks_);
    if (rank_ < ranks_) return;
    ++round_;
    NextTile();
  }

  __device__ void NextTile() {
    tile_ = TileOf(round_, blockIdx.x, gridDim.x);
    rank_ = 0;
    unit_ = 0;
    end_ = SplitBegin(units_, 1, ranks_);
    if (tile_ >= tiles_) return;
    const typename Op::Item item = op_.Locate(tile_);
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
    for (int q = 0; q < S::kQuads; ++q) {
      slabs_[q] = op_.SlabAt(item, (warp / 4 * S::kQuads + q) * 4 + warp % 4);
    }
#pragma unroll
    for (int i = 0; i < kMine; ++i) rows_[i] = op_.InputRow(item, ColumnOf(i));
  }

  __device__ static int PieceOf(int i) { return static_cast<int>(threadIdx.x) + i * S::kThreads; }
  __device__ static int ColumnOf(int i) {
    return PieceOf(i) / (64 * S::kUnits) * 8 + PieceOf(i) % 8;
  }

  __device__ void IssueWeights(uint32_t stage) {
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
#pragma unroll
    for (int q = 0; q < S::kQuads; ++q) {
#pragma unroll
      for (int u = 0; u < S::kUnits; ++u) {
        const int slot = ((warp / 4 * S::kQuads + q) * 4 + warp % 4) * S::kUnits + u;
        if (unit_ + u < end_) {
          Units<kOperand>::Fetch(slabs_[q], unit_ + u, stage + slot * Units<kOperand>::kBytes,
                                 static_cast<int>(threadIdx.x) % kWarp);
        }
      }
    }
  }

  __device__ void IssueInputs(uint32_t to) {
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      if (rows_[i] == nullptr) continue;  // the sums of this column are not used
      const int piece = PieceOf(i);
      const int core = piece / 8 % (8 * S::kUnits);
      const int64_t col = static_cast<int64_t>(unit_) * kUnitCols + core * 8;
      const uint32_t at =
          to + piece / (64 * S::kUnits) * L::kInputGroupBytes + core * kCoreBytes + piece % 8 * 16;
      if (op_.inputs_aligned) {
        CopyAsync16(at, rows_[i] + (col < op_.width ? col : 0), col < op_.width);
      } else {
        StoreInputs(op_.width, at, rows_[i], col);
      }
    }
  }

  const Op& op_;
  int64_t tiles_;
  int units_, ranks_;
  int64_t round_ = 0, tile_ = 0;
  int rank_ = 0, unit_ = 0, end_ = 0;
  Slab slabs_[S::kQuads];
  const BF16* rows_[kMine];
};

// Begins acc += the products of one stage.
template <typename S, Operand kOperand>
__device__ inline void MultiplyStage(const Slab (&slabs)[S::kQuads], uint32_t stage, int units,
                                     float (&acc)[S::kQuads][S::kCols / 2]) {
  using L = Layout<S, kOperand>;
  using U = Units<kOperand>;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const uint32_t inputs = stage + L::kStageBytes - S::kCols / 8 * L::kInputGroupBytes;
#pragma unroll
  for (int u = 0; u < S::kUnits; ++u) {
    if (u >= units) break;
#pragma unroll
    for (int q = 0; q < S::kQuads; ++q) {
      const int slot = ((warp / 4 * S::kQuads + q) * 4 + warp % 4) * S::kUnits + u;
      typename U::Fragments a;
      U::Unpack(slabs[q], stage + slot * U::kBytes, lane, a);
      BeginProducts();
#pragma unroll
      for (int s = 0; s < kUnitSteps; ++s) {
#pragma unroll
        for (int part = 0; part < U::kParts; ++part) {
          Multiply<S::kCols>(acc[q], a[s][part], inputs + (u * kUnitSteps + s) * 2 * kCoreBytes,
                             L::kInputGroupBytes);
        }
      }
      CommitProducts();
    }
  }
}

// Sums of one warp's fragments, columns `first` on, to sums[column - first][output].
template <typename S>
__device__ inline void SpreadSums(const float (&acc)[S::kCols / 2], int first, float factor,
                                  float* sums) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float* mine = sums + lane % 4 * 2 * kSumPitch + threadIdx.x / kWarp % 4 * kUnitRows + lane / 4;
#pragma unroll
  for (int i = 0; i < S::kCols / 8; ++i) {
    if (i * 8 < first || i * 8 >= first + kSumColsOf<S>) continue;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      mine[(i * 8 - first + j % 2) * kSumPitch + j / 2 * 8] = acc[i * 4 + j] * factor;
    }
  }
}

// One warpgroup of the block.
__device__ inline void SyncGroup() {
  asm volatile("bar.sync %0, 128;\n" ::"r"(static_cast<int>(threadIdx.x) / 128 + 1) : "memory");
}

inline constexpr int kMostRanks = 8;  // blocks of a portable cluster

// The sums of all ranks of a cluster for one column, added in their order.
struct ClusterSums {
  const float* mine = nullptr;
  int ranks = 1;
  __device__ float operator()(int i) const {
    if (ranks == 1) return mine[i];
    const auto cluster = cooperative_groups::this_cluster();
    float parts[kMostRanks];  // all on their way before the first is added
#pragma unroll
    for (int r = 0; r < kMostRanks; ++r) {
      if (r < ranks) parts[r] = *cluster.map_shared_rank(const_cast<float*>(mine) + i, r);
    }
    float sum = parts[0];
#pragma unroll
    for (int r = 1; r < kMostRanks; ++r) {
      if (r < ranks) sum += parts[r];
    }
    return sum;
  }
};

// Those of an op whose K is whole.
struct PlainSums {
  const float* mine = nullptr;
  __device__ float operator()(int i) const { return mine[i]; }
};

// What the ranks have stored is there for all of them.
__device__ inline void SyncRanks(int ranks) {
  if (ranks > 1) {
    cooperative_groups::this_cluster().sync();
  } else {
    SyncGroup();
  }
}
// All ranks have read. Nothing has to be seen by others: a release would wait for the stores of
// outputs, to all of memory.
__device__ inline void LeaveRanks(int ranks) {
  if (ranks > 1) {
    ArriveCluster();
    WaitCluster();
  } else {
    SyncGroup();
  }
}

template <typename Op>
__device__ inline auto SumsOf(const float* mine, int ranks) {
  if constexpr (Op::kSplits) {
    return ClusterSums{mine, ranks};
  } else {
    return PlainSums{mine};
  }
}

// 64 outputs of a column from `first` on as bf16, those before `end`; a lane has two neighbours.
template <typename Sums>
__device__ inline void StoreRounded(int64_t first, int64_t end, const Sums& sums, BF16* row) {
  const int i = static_cast<int>(threadIdx.x) % kWarp * 2;
  const int64_t o = first + i;
  const BF16 low = Narrow(sums(i)), high = Narrow(sums(i + 1));
  if (o + 1 < end && reinterpret_cast<uintptr_t>(row) % 4 == 0) {
    *reinterpret_cast<uint32_t*>(row + o) = static_cast<uint32_t>(high.bits) << 16 | low.bits;
    return;
  }
  if (o < end) row[o] = low;
  if (o + 1 < end) row[o + 1] = high;
}

// Four neighbouring outputs of a column from `first` on as bf16, those before `end`.
__device__ inline void StoreFourRounded(int64_t first, int64_t end, const float4& sums, BF16* row) {
  const BF16 out[4] = {Narrow(sums.x), Narrow(sums.y), Narrow(sums.z), Narrow(sums.w)};
  BF16* to = row + first;
  if (first + 3 < end && reinterpret_cast<uintptr_t>(to) % 8 == 0) {
    *reinterpret_cast<uint2*>(to) = {static_cast<uint32_t>(out[1].bits) << 16 | out[0].bits,
                                     static_cast<uint32_t>(out[3].bits) << 16 | out[2].bits};
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (first + i < end) to[i] = out[i];
  }
}

// A value of lane `from`.
template <typename T>
__device__ inline T FromLane(const T& mine, int from) {
  if constexpr (std::is_empty_v<T>) {
    return mine;
  } else {
    static_assert(sizeof(T) % 4 == 0);
    T out;
    const auto* words = reinterpret_cast<const uint32_t*>(&mine);
    auto* to = reinterpret_cast<uint32_t*>(&out);
#pragma unroll
    for (size_t i = 0; i < sizeof(T) / 4; ++i) to[i] = __shfl_sync(kAllLanes, words[i], from);
    return out;
  }
}

// Stores columns p * kSumCols on of a tile before `end`, whose sums of one quad a warpgroup has in
// `sums`, where ops store four outputs at a time: StoreFour(item, quad, n, column, sums), called by
// all lanes, of which Op::kColumnLanes have a column.
template <typename Op>
__device__ inline void StoreFours(const Op& op, const typename Op::Item& item, int quad, int p,
                                  int end, const typename Op::Column& columns, const float* sums) {
  constexpr int kAtOnce = kWarp / Op::kColumnLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarp % 4;
  const int mine = static_cast<int>(threadIdx.x) % kWarp / Op::kColumnLanes;
#pragma unroll 2
  for (int first = warp * kAtOnce; first < end; first += 4 * kAtOnce) {
    const int n = first + mine;
    op.StoreFour(item, quad, p * kSumCols + n, FromLane(columns, n), sums + n * kSumPitch);
  }
}

// Stores a tile: each rank its share of the columns.
template <typename Op, typename S>
__device__ inline void StoreTile(const Op& op, const typename Op::Item& item,
                                 const float (&acc)[S::kQuads][S::kCols / 2], float factor,
                                 float* sums, int rank, int ranks) {
  constexpr int kAtOnce = kSumColsOf<S>, kPasses = (S::kCols + kAtOnce - 1) / kAtOnce;
  const int group = static_cast<int>(threadIdx.x) / 128;
  const int warp = static_cast<int>(threadIdx.x) / kWarp % 4;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float* mine = sums + group * kAtOnce * kSumPitch;
  typename Op::Column columns[kPasses];
#pragma unroll
  for (int p = 0; p < kPasses; ++p) columns[p] = op.ColumnAt(item, p * kAtOnce + lane);
#pragma unroll
  for (int q = 0; q < S::kQuads; ++q) {
#pragma unroll
    for (int p = 0; p < kPasses; ++p) {
      SpreadSums<S>(acc[q], p * kAtOnce, factor, mine);
      SyncRanks(ranks);
      const int end = min(kAtOnce, S::kCols - p * kAtOnce);
      bool stored = false;
      if constexpr (S::kCols > kSumCols) {
        if (ranks == 1) {
          StoreFours(op, item, group * S::kQuads + q, p, end, columns[p], mine);
          stored = true;
        }
      }
#pragma unroll 2
      for (int n = rank + warp * ranks; !stored && n < end; n += 4 * ranks) {
        op.Store(item, group * S::kQuads + q, p * kAtOnce + n, FromLane(columns[p], n),
                 SumsOf<Op>(mine + n * kSumPitch, ranks));
      }
      LeaveRanks(ranks);
    }
  }
}

// Sums of the ranks so far.
template <typename S>
struct Sums {
  float value[S::kQuads][S::kCols / 2];
};

template <typename Op, typename S>
__device__ inline void AddRank(const float (&acc)[S::kQuads][S::kCols / 2], int rank,
                               Sums<S>* sums) {
#pragma unroll
  for (int q = 0; q < S::kQuads; ++q) {
#pragma unroll
    for (int i = 0; i < S::kCols / 2; ++i) {
      const bool first = !Op::kSplits || rank == 0;
      sums->value[q][i] = first ? acc[q][i] : sums->value[q][i] + acc[q][i];
    }
  }
}

template <typename Op, typename S, Operand kOperand>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    ProductKernel(const __grid_constant__ Op op, int units, int ranks) {
  using L = Layout<S, kOperand>;
  extern __shared__ __align__(128) unsigned char shared[];
  const uint32_t stages = SharedAddress(shared);
  Producer<Op, S, kOperand> producer(op, units, ranks);
  for (int i = 0; i < S::kStages - 1; ++i) producer.Issue(stages + i * L::kStageBytes);
  int next = 0;  // stage to compute; the one before it is free
  const int64_t tiles = op.Tiles();
  for (int64_t round = 0;; ++round) {
    const int64_t tile = TileOf(round, blockIdx.x, gridDim.x);
    if (tile >= tiles) break;
    const typename Op::Item item = op.Locate(tile);
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    Slab slabs[S::kQuads];
#pragma unroll
    for (int q = 0; q < S::kQuads; ++q) {
      slabs[q] = op.SlabAt(item, (warp / 4 * S::kQuads + q) * 4 + warp % 4);
    }
    Sums<S> sums;
    for (int rank = 0; rank < ranks; ++rank) {
      float acc[S::kQuads][S::kCols / 2] = {};
      const int end = SplitBegin(units, rank + 1, ranks);
      for (int unit = SplitBegin(units, rank, ranks); unit < end; unit += S::kUnits) {
        WaitCopies<S::kStages - 2>();
        PublishShared();
        __syncthreads();
        MultiplyStage<S, kOperand>(slabs, stages + next * L::kStageBytes, end - unit, acc);
        producer.Issue(stages + (next == 0 ? S::kStages - 1 : next - 1) * L::kStageBytes);
        WaitProducts<0>();
        next = next + 1 == S::kStages ? 0 : next + 1;
      }
      AddRank<Op, S>(acc, rank, &sums);
    }
    StoreTile<Op, S>(op, item, sums.value, kOperand == Operand::kUnits ? kUnitsFactor : 1.0f,
                     reinterpret_cast<float*>(shared + S::kStages * L::kStageBytes), 0, 1);
  }
}

}  // namespace thalweg::kernels::cuda
