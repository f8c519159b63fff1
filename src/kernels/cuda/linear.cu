// Projections: several matrices over the same rows are one launch for each way weights are read.
#include <vector>

#include "kernels/cuda/bodies.h"
#include "kernels/cuda/product_launch.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kMostTargets = 8;  // of one launch

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

  static constexpr bool kSplits = true;
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
  __device__ const BF16* InputRow(const Item& item, int n) const {
    return item.row + n < rows ? x + (item.row + n) * x_stride : nullptr;
  }
  template <typename Sums>
  __device__ void Store(const Item& item, int quad, int n, const Sums& sums) const {
    if (item.row + n >= rows) return;
    const Target& target = targets[item.target];
    const int64_t out = target.weight.rows;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = half * kWarp + static_cast<int>(threadIdx.x) % kWarp;
      const int64_t o = item.slab * kUnitRows + quad * 64 + i;
      if (o >= out) continue;
      const float value = sums(i);
      const int64_t at = (item.row + n) * out + o;
      if (target.out_f32 != nullptr) target.out_f32[at] = value;
      if (target.out_bf16 != nullptr) target.out_bf16[at] = Narrow(value);
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
  LaunchProduct<S, kOperand>(queue, op, op.weight_tiles * op.row_tiles, RanksOf(op.width));
}

void ChooseLinear(Queue* queue, Operand operand, const LinearOp& op) {
  switch (operand) {
    case Operand::kUnits:
      if (op.rows <= 8) return LaunchLinear<OneUnits, Operand::kUnits>(queue, op);
      if (op.rows <= 16) return LaunchLinear<TwoUnits, Operand::kUnits>(queue, op);
      if (op.rows <= 64) return LaunchLinear<FourUnits, Operand::kUnits>(queue, op);
      return LaunchLinear<ManyUnits, Operand::kUnits>(queue, op);
    case Operand::kHalves:
      if (op.rows <= 8) return LaunchLinear<FewHalves, Operand::kHalves>(queue, op);
      return LaunchLinear<ManyHalves, Operand::kHalves>(queue, op);
    case Operand::kFloats:
      if (op.rows <= 8) return LaunchLinear<FewFloats, Operand::kFloats>(queue, op);
      return LaunchLinear<ManyFloats, Operand::kFloats>(queue, op);
  }
}

LinearOp OpOver(const BF16* x, int64_t x_stride, int64_t rows, int64_t width) {
  LinearOp op;
  op.rows = rows;
  op.width = width;
  op.x = x;
  op.x_stride = x_stride;
  op.inputs_aligned = CopiesInPieces(x, x_stride, width);
  return op;
}

// The projections whose weights are read in one way, kMostTargets a launch.
void LinearOf(Queue* queue, Operand operand, const LinearParams& p) {
  LinearOp op = OpOver(p.x, p.in, p.rows, p.in);
  for (const Projection& projection : p.projections) {
    if (OperandOf(projection.weight) != operand) continue;
    op.targets[op.targets_n++] = {projection.weight, projection.out_bf16, projection.out_f32, 0};
    if (op.targets_n < kMostTargets) continue;
    ChooseLinear(queue, operand, op);
    op.targets_n = 0;
  }
  if (op.targets_n > 0) ChooseLinear(queue, operand, op);
}

}  // namespace

void Linear(const LinearParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  for (const Operand operand : {Operand::kUnits, Operand::kHalves, Operand::kFloats}) {
    LinearOf(&queue, operand, p);
  }
}

void Product(const Stream& stream, const Matrix& w, const BF16* x, int64_t x_stride, int64_t rows,
             float* out_f32) {
  if (rows == 0) return;
  LinearOp op = OpOver(x, x_stride, rows, w.cols);
  op.targets[op.targets_n++] = {w, nullptr, out_f32, 0};
  ChooseLinear(&QueueOf(stream), OperandOf(w), op);
}

}  // namespace thalweg::kernels::cuda
