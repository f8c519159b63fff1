// Which tiles projections run through.
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/linear_codes.cuh"
#include "kernels/cuda/product_halves.cuh"

namespace thalweg::kernels::cuda {
namespace {

// Of fp8 weights with few tiles and with many, and of fp4 weights.
using AnyCodes = CodesShape<4, 4, 3, 1, 1, 2, 48, 64, 80>;
using DenseFew = DenseShape<1, 2, 3, 2>;
using DenseMany = DenseShape<2, 4, 2, 1>;

// Tiles of weights of `height` rows over all targets.
int64_t TilesOf(const LinearOp& op, int64_t height) {
  int64_t tiles = 0;
  for (int t = 0; t < op.targets_n; ++t) tiles += base::CeilDiv(op.targets[t].weight.rows, height);
  return tiles;
}

void ChooseCodes(Queue* queue, const LinearOp& op) {
  if (LinearBeside(queue, op) || LinearByRanks(queue, op)) return;
  if (!AllFp8(op)) return RunLinearCodes<AnyCodes>(queue, op);
  const int64_t tiles =
      TilesOf(op, DenseMany::kRows) * base::CeilDiv(op.rows, int64_t{DenseMany::kCols});
  if (tiles < MultiprocessorCount() / 2) return RunLinearCodes<DenseFew>(queue, op);
  RunLinearCodes<DenseMany>(queue, op);
}

void ChoosePacked(Queue* queue, const LinearOp& op) {
  if (LinearBySlabs(queue, op)) return;
  ChooseUnits(op, TilesOf(op, 64),
              [&](auto shape) { LaunchLinear<decltype(shape), Operand::kUnits>(queue, op); });
}

void ChooseLinear(Queue* queue, Operand operand, Numerics numerics, const LinearOp& op) {
  switch (operand) {
    case Operand::kUnits:
      return numerics == Numerics::kFast ? ChooseCodes(queue, op) : ChoosePacked(queue, op);
    case Operand::kHalves:
      if (HalvesTake(op)) return LaunchHalves(queue, op);
      if (op.rows <= 8) return LaunchLinear<FewHalves, Operand::kHalves>(queue, op);
      if (op.rows <= ManyHalves::kCols)
        return LaunchLinear<ManyHalves, Operand::kHalves>(queue, op);
      return LaunchLinear<MostHalves, Operand::kHalves>(queue, op);
    case Operand::kFloats:
      if (op.rows <= 8) return LaunchLinear<FewFloats, Operand::kFloats>(queue, op);
      return LaunchLinear<ManyFloats, Operand::kFloats>(queue, op);
  }
}

// The projections whose weights are read in one way, kMostTargets a launch.
void LinearOf(Queue* queue, Operand operand, Numerics numerics, const LinearParams& p) {
  LinearOp op = OpOver(p.x, p.in, p.rows, p.in);
  for (const Projection& projection : p.projections) {
    if (OperandOf(projection.weight) != operand) continue;
    op.targets[op.targets_n++] = {projection.weight, projection.out_bf16, projection.out_f32, 0};
    if (op.targets_n < kMostTargets) continue;
    ChooseLinear(queue, operand, numerics, op);
    op.targets_n = 0;
  }
  if (op.targets_n > 0) ChooseLinear(queue, operand, numerics, op);
}

void LinearBy(Numerics numerics, const LinearParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  const BesideHeld beside(&queue);
  for (const Operand operand : {Operand::kUnits, Operand::kHalves, Operand::kFloats}) {
    LinearOf(&queue, operand, numerics, p);
  }
}

}  // namespace

void Linear(const LinearParams& p) { LinearBy(Numerics::kExact, p); }
void LinearFast(const LinearParams& p) { LinearBy(Numerics::kFast, p); }

void Product(const Stream& stream, const Matrix& w, const BF16* x, int64_t x_stride, int64_t rows,
             float* out_f32) {
  if (rows == 0) return;
  LinearOp op = OpOver(x, x_stride, rows, w.cols);
  op.targets[op.targets_n++] = {w, nullptr, out_f32, 0};
  Queue& queue = QueueOf(stream);
  const BesideHeld beside(&queue);
  ChooseLinear(&queue, OperandOf(w), Numerics::kExact, op);
}

}  // namespace thalweg::kernels::cuda
