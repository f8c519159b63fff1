// Independent blocks of rows of one matrix, each over its own part of the input (wo_a).
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/product_slab.cuh"

namespace thalweg::kernels::cuda {
namespace {

// Quantisers work on groups inside these many values.
constexpr int64_t kQuantised = 32;

struct GroupedOp {
  struct Item {
    int64_t group = 0;
    int64_t slab = 0, row = 0;  // first slab of the matrix, first input row
  };
  Matrix weight;
  int64_t groups = 0, group_out = 0, rows = 0, width = 0;
  int64_t group_tiles = 0, row_tiles = 0;
  int tile_slabs = 0, tile_rows = 0;
  bool quantises = false;  // on the way; groups begin at a multiple of kQuantised
  RowFormat quantise = RowFormat::kBF16;
  const BF16* x = nullptr;
  BF16* out = nullptr;
  bool inputs_aligned = false;
  BF16* packed = nullptr;  // for wide tiles (PackInputsKernel)

  static constexpr bool kSplits = true, kStartsEarly = true, kWeightsKnown = true;
  static constexpr bool kLeadsEarly = true;
  __device__ WeightFormat FormatOf(const Item&) const { return weight.format; }
  __device__ int64_t Tiles() const { return groups * group_tiles * row_tiles; }
  __device__ Item Locate(int64_t tile) const {
    const int64_t along = tile / row_tiles, group = along / group_tiles;
    const int64_t slab = group * group_out / kUnitRows + along % group_tiles * tile_slabs;
    return {group, slab, tile % row_tiles * tile_rows};
  }
  __device__ Slab SlabAt(const Item& item, int slab) const {
    return SlabOf(weight, min(item.slab + slab, (weight.rows - 1) / kUnitRows));
  }
  __device__ int Columns(const Item& item) const {
    return static_cast<int>(min(rows - item.row, static_cast<int64_t>(tile_rows)));
  }
  __device__ int64_t InputTiles() const { return groups * row_tiles; }
  __device__ Item InputItem(int64_t i) const {
    return {i / row_tiles, 0, i % row_tiles * tile_rows};
  }
  __device__ BF16* Packed(const Item& item) const {
    return packed + (item.group * ((rows + 7) / 8 * 8) + item.row) * width;
  }
  __device__ const BF16* InputRow(const Item& item, int n) const {
    if (item.row + n >= rows) return nullptr;
    return x + ((item.row + n) * groups + item.group) * width;
  }
  __device__ void StoreOutput(const Item& item, int o, int n, float sum) const {
    float value = RoundToBF16(sum);
    if (quantises) value = QuantiseLane(quantise, value).value;
    out[(item.row + n) * groups * group_out + item.slab * kUnitRows + o] = Narrow(value);
  }
  struct Column {};
  __device__ Column ColumnAt(const Item&, int) const { return {}; }
  static constexpr int kColumnLanes = 16;  // of four outputs each
  __device__ void StoreFour(const Item& item, int quad, int n, Column, const float* sums) const {
    const int at = static_cast<int>(threadIdx.x) % kColumnLanes * 4;
    const int64_t o = item.slab * kUnitRows + quad * 64 + at;
    float values[4] = {sums[at], sums[at + 1], sums[at + 2], sums[at + 3]}, largest = 0;
    const auto mine = [&](int i) {
      return o + i >= item.group * group_out && o + i < (item.group + 1) * group_out;
    };
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[i] = mine(i) || !quantises ? RoundToBF16(values[i]) : 0.0f;
      largest = fmaxf(largest, fabsf(values[i]));
    }
    if (quantises) {
      for (int step = quantise == RowFormat::kFp4E4M3 ? 2 : 4; step > 0; step /= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
      }
      const uint8_t scale = ScaleCode(quantise, largest);
#pragma unroll
      for (int i = 0; i < 4; ++i) values[i] = CodeValue(quantise, scale, values[i]).value;
    }
    if (item.row + n >= rows) return;
    BF16* row = out + (item.row + n) * groups * group_out;
    if (mine(0) && mine(3)) {
      return StoreFourRounded(o, o + 4, {values[0], values[1], values[2], values[3]}, row);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (mine(i)) row[o + i] = Narrow(values[i]);
    }
  }
  template <typename Sums>
  __device__ void Store(const Item& item, int quad, int n, Column, const Sums& sums) const {
    if (item.row + n >= rows) return;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = half * kWarp + static_cast<int>(threadIdx.x) % kWarp;
      const int64_t o = item.slab * kUnitRows + quad * 64 + i;
      const bool mine = o >= item.group * group_out && o < (item.group + 1) * group_out;
      float value = RoundToBF16(sums(i));
      if (quantises) value = QuantiseLane(quantise, mine ? value : 0.0f).value;
      if (mine) out[(item.row + n) * groups * group_out + o] = Narrow(value);
    }
  }
};

// Rows of out in place, a block each.
__global__ void QuantiseRowsKernel(RowFormat format, int64_t width, BF16* out) {
  BF16* row = out + blockIdx.x * width;
  ForColumns(width, [&](int64_t c, bool active) {
    const float value = QuantiseLane(format, active ? Wide(row[c]) : 0.0f).value;
    if (active) row[c] = Narrow(value);
  });
}

template <typename S, Operand kOperand>
void LaunchGrouped(Queue* queue, GroupedOp op) {
  op.tile_slabs = S::kSlabs;
  op.tile_rows = S::kCols;
  op.row_tiles = base::CeilDiv(op.rows, int64_t{S::kCols});
  // A group that begins inside a slab reaches over one slab more.
  const int64_t before = op.group_out % kUnitRows == 0 ? 0 : kUnitRows - 1;
  op.group_tiles = base::CeilDiv(op.group_out + before, int64_t{S::kRows});
  if constexpr (kIsWide<S>) {
    const int64_t bytes = op.groups * base::RoundUp(op.rows, int64_t{8}) * op.width * 2;
    op.packed = static_cast<BF16*>(queue->Scratch(bytes, Queue::kProductSlot));
    if (op.packed == nullptr) return;
    PackInputs(queue, op, op.groups * op.row_tiles, true);
  }
  LaunchProduct<S, kOperand>(queue, op, op.groups * op.group_tiles * op.row_tiles,
                             RanksOf(op.width));
}

// Up to eight rows of FP8 weights; false where that is not what there is.
bool GroupedBySlabs(Queue* queue, GroupedOp op) {
  if (op.weight.format != WeightFormat::kFp8 || !SlabTakes(op)) return false;
  op.tile_slabs = SlabPlanOf(op).TileSlabs();
  const int64_t tile_outputs = int64_t{op.tile_slabs} * kUnitRows;
  // Quantised groups lie within a warp, tiles within a group.
  if (tile_outputs % kQuantised != 0 || op.group_out % tile_outputs != 0) return false;
  op.tile_rows = static_cast<int>(op.rows);
  op.row_tiles = 1;
  op.group_tiles = op.group_out / tile_outputs;
  LaunchSlabs(queue, op, op.groups * op.group_tiles);
  return true;
}

void ChooseGrouped(Queue* queue, const GroupedOp& op) {
  switch (OperandOf(op.weight)) {
    case Operand::kUnits:
      if (GroupedBySlabs(queue, op)) return;
      return ChooseUnits(op, op.groups * base::CeilDiv(op.group_out, int64_t{64}), [&](auto shape) {
        LaunchGrouped<decltype(shape), Operand::kUnits>(queue, op);
      });
    case Operand::kHalves:
      if (op.rows <= 8) return LaunchGrouped<FewHalves, Operand::kHalves>(queue, op);
      return LaunchGrouped<ManyHalves, Operand::kHalves>(queue, op);
    case Operand::kFloats: return LaunchGrouped<ManyFloats, Operand::kFloats>(queue, op);
  }
}

}  // namespace

void GroupedLinear(const GroupedLinearParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const BesideHeld beside(&queue);
  GroupedOp op;
  op.weight = p.weight;
  op.groups = p.groups;
  op.group_out = p.group_out;
  op.rows = p.rows;
  op.width = p.group_in;
  op.quantises = p.group_out % kQuantised == 0;
  op.quantise = p.quantise;
  op.x = p.x;
  op.out = p.out;
  op.inputs_aligned = CopiesInPieces(p.x, p.group_in, p.group_in);
  ChooseGrouped(&queue, op);
  if (op.quantises || p.quantise == RowFormat::kBF16) return;
  QuantiseRowsKernel<<<Count(p.rows), 256, 0, queue.stream()>>>(p.quantise, p.groups * p.group_out,
                                                                p.out);
}

}  // namespace thalweg::kernels::cuda
