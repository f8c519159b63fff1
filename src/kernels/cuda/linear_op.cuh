// Projections: several matrices over the same rows are one launch for each way weights are read.
#pragma once

#include "kernels/cuda/product_codes_cluster.cuh"
#include "kernels/cuda/product_codes_slab.cuh"
#include "kernels/cuda/product_slab.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kMostTargets = 8;  // of one launch

struct Target {
  Matrix weight;
  BF16* out_bf16 = nullptr;
  float* out_f32 = nullptr;
  int64_t first_tile = 0;  // along the weight rows of all targets
};

struct LinearOp {
  struct Item {
    int target = 0;
    int64_t slab = 0, row = 0;  // first slab of the matrix, first input row
  };
  Target targets[kMostTargets];
  int targets_n = 0;
  int tile_slabs = 0, tile_rows = 0;  // of weights, of the input
  int64_t weight_tiles = 0, row_tiles = 0;
  int64_t rows = 0, width = 0, x_stride = 0;
  const BF16* x = nullptr;
  bool inputs_aligned = false;
  BF16* packed = nullptr;  // for wide tiles (PackInputsKernel)

  static constexpr bool kSplits = true, kStartsEarly = true, kWeightsKnown = true;
  static constexpr bool kLeadsEarly = true;
  __device__ WeightFormat FormatOf(const Item& item) const {
    return targets[item.target].weight.format;
  }
  __device__ int64_t Tiles() const { return weight_tiles * row_tiles; }
  __device__ Item Locate(int64_t tile) const {
    const int64_t along = tile / row_tiles;
    int t = 0;
    while (t + 1 < targets_n && along >= targets[t + 1].first_tile) ++t;
    return {t, (along - targets[t].first_tile) * tile_slabs, tile % row_tiles * tile_rows};
  }
  __device__ Slab SlabAt(const Item& item, int slab) const {
    const Matrix& w = targets[item.target].weight;
    const int64_t last = (w.rows - 1) / kUnitRows;
    return SlabOf(w, min(item.slab + slab, last));
  }
  __device__ int Columns(const Item& item) const {
    return static_cast<int>(min(rows - item.row, static_cast<int64_t>(tile_rows)));
  }
  __device__ int64_t InputTiles() const { return row_tiles; }
  __device__ Item InputItem(int64_t i) const { return {0, 0, i * tile_rows}; }
  __device__ BF16* Packed(const Item& item) const { return packed + item.row * width; }
  __device__ const BF16* InputRow(const Item& item, int n) const {
    return item.row + n < rows ? x + (item.row + n) * x_stride : nullptr;
  }
  __device__ void StoreOutput(const Item& item, int o, int n, float sum) const {
    const Target& target = targets[item.target];
    const int64_t out = target.weight.rows, at = item.slab * kUnitRows + o;
    if (at >= out) return;
    if (target.out_bf16 != nullptr) target.out_bf16[(item.row + n) * out + at] = Narrow(sum);
    if (target.out_f32 != nullptr) target.out_f32[(item.row + n) * out + at] = sum;
  }
  struct Column {};
  __device__ Column ColumnAt(const Item&, int) const { return {}; }
  static constexpr int kColumnLanes = 16;  // of four outputs each
  __device__ void StoreFour(const Item& item, int quad, int n, Column, const float* sums) const {
    if (item.row + n >= rows) return;
    const Target& target = targets[item.target];
    const int at = static_cast<int>(threadIdx.x) % kColumnLanes * 4;
    const int64_t out = target.weight.rows, first = item.slab * kUnitRows + quad * 64 + at;
    const float4 four = *reinterpret_cast<const float4*>(sums + at);
    if (target.out_bf16 != nullptr) {
      StoreFourRounded(first, out, four, target.out_bf16 + (item.row + n) * out);
    }
    if (target.out_f32 == nullptr) return;
    const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + i < out) target.out_f32[(item.row + n) * out + first + i] = values[i];
    }
  }
  template <typename Sums>
  __device__ void Store(const Item& item, int quad, int n, Column, const Sums& sums) const {
    if (item.row + n >= rows) return;
    const Target& target = targets[item.target];
    const int64_t out = target.weight.rows, first = item.slab * kUnitRows + quad * 64;
    if (target.out_bf16 != nullptr) {
      StoreRounded(first, out, sums, target.out_bf16 + (item.row + n) * out);
    }
    if (target.out_f32 == nullptr) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = half * kWarp + static_cast<int>(threadIdx.x) % kWarp;
      if (first + i < out) target.out_f32[(item.row + n) * out + first + i] = sums(i);
    }
  }
};

template <typename S, Operand kOperand>
void LaunchLinear(Queue* queue, LinearOp op) {
  op.tile_slabs = S::kSlabs;
  op.tile_rows = S::kCols;
  op.row_tiles = base::CeilDiv(op.rows, int64_t{S::kCols});
  op.weight_tiles = 0;
  for (int t = 0; t < op.targets_n; ++t) {
    op.targets[t].first_tile = op.weight_tiles;
    op.weight_tiles += base::CeilDiv(op.targets[t].weight.rows, int64_t{S::kRows});
  }
  if constexpr (kIsWide<S>) {
    const int64_t bytes = base::RoundUp(op.rows, int64_t{8}) * op.width * 2;
    op.packed = static_cast<BF16*>(queue->Scratch(bytes, Queue::kProductSlot));
    if (op.packed == nullptr) return;
    PackInputs(queue, op, op.row_tiles, true);
  }
  LaunchProduct<S, kOperand>(queue, op, op.weight_tiles * op.row_tiles, RanksOf(op.width));
}

// Tiles of `slabs` slabs and all rows.
inline void TileWeights(int slabs, LinearOp* op) {
  op->tile_slabs = slabs;
  op->tile_rows = static_cast<int>(op->rows);
  op->row_tiles = 1;
  op->weight_tiles = 0;
  for (int t = 0; t < op->targets_n; ++t) {
    op->targets[t].first_tile = op->weight_tiles;
    op->weight_tiles += base::CeilDiv(op->targets[t].weight.rows, int64_t{slabs} * kUnitRows);
  }
}

inline bool AllFp8(const LinearOp& op) {
  for (int t = 0; t < op.targets_n; ++t) {
    if (op.targets[t].weight.format != WeightFormat::kFp8) return false;
  }
  return true;
}

// One or two rows of FP8 weights as codes where K is long; false where that is not what there is.
inline bool LinearBeside(Queue* queue, LinearOp op) {
  if (!AllFp8(op) || !BesideTakes(op)) return false;
  TileWeights(BesidePlanOf(op).TileSlabs(), &op);
  LaunchBeside(queue, op, op.weight_tiles);
  return true;
}

// A LinearOp with its input rows as codes.
struct RankLinearOp : LinearOp {
  uint8_t* codes = nullptr;
  __device__ uint8_t* Packed(const Item&) const { return codes; }
};

// Up to kMostRankRows rows of FP8 weights as codes; false where that is not what there is.
inline bool LinearByRanks(Queue* queue, const LinearOp& linear) {
  if (!AllFp8(linear) || !RanksTake(linear)) return false;
  RankLinearOp op{linear};
  TileWeights(4, &op);
  if (op.rows > kMostEncoded) {
    const int64_t bytes = base::CeilDiv(op.rows, int64_t{8}) * UnitsOf(op.width) * kInputUnitBytes;
    op.codes = static_cast<uint8_t*>(queue->Scratch(bytes, Queue::kProductSlot));
    if (op.codes == nullptr) return true;
    EncodeInputs(queue, op, 1, true, base::CeilDiv(op.rows, int64_t{8}));
  }
  ChooseRankShape(op.rows,
                  [&](auto shape) { LaunchRanks<decltype(shape)>(queue, op, op.weight_tiles); });
  return true;
}

// Up to eight rows of FP8 weights; false where that is not what there is.
inline bool LinearBySlabs(Queue* queue, LinearOp op) {
  if (!AllFp8(op) || !SlabTakes(op)) return false;
  TileWeights(SlabPlanOf(op).TileSlabs(), &op);
  LaunchSlabs(queue, op, op.weight_tiles);
  return true;
}

inline LinearOp OpOver(const BF16* x, int64_t x_stride, int64_t rows, int64_t width) {
  LinearOp op;
  op.rows = rows;
  op.width = width;
  op.x = x;
  op.x_stride = x_stride;
  op.inputs_aligned = CopiesInPieces(x, x_stride, width);
  return op;
}

}  // namespace thalweg::kernels::cuda
