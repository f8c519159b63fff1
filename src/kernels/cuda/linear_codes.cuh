// Projections of many rows by products of codes: input rows are encoded once for all matrices.
#pragma once

#include <type_traits>

#include "kernels/cuda/launch_codes.cuh"
#include "kernels/cuda/linear_op.cuh"
#include "kernels/cuda/pack_inputs.cuh"

namespace thalweg::kernels::cuda {

struct CodedLinearOp : LinearOp {
  uint8_t* codes = nullptr;
  __device__ uint8_t* Packed(const Item& item) const {
    return codes + item.row / 8 * ((width + kUnitCols - 1) / kUnitCols) * kInputUnitBytes;
  }
};

template <typename S>
inline constexpr bool kIsDense = false;
template <int kGroups, int kUnits, int kStages, int kBlocks>
inline constexpr bool kIsDense<DenseShape<kGroups, kUnits, kStages, kBlocks>> = true;

// Tiles of shape S over all targets.
template <typename S>
void RunLinearCodes(Queue* queue, const LinearOp& linear) {
  CodedLinearOp op{linear};
  op.tile_slabs = S::kSlabs;
  op.tile_rows = S::kCols;
  op.row_tiles = base::CeilDiv(op.rows, int64_t{S::kCols});
  op.weight_tiles = 0;
  for (int t = 0; t < op.targets_n; ++t) {
    op.targets[t].first_tile = op.weight_tiles;
    op.weight_tiles += base::CeilDiv(op.targets[t].weight.rows, int64_t{S::kRows});
  }
  const int64_t bytes = base::CeilDiv(op.rows, int64_t{8}) * UnitsOf(op.width) * kInputUnitBytes;
  op.codes = static_cast<uint8_t*>(queue->Scratch(bytes, Queue::kProductSlot));
  if (op.codes == nullptr) return;
  EncodeInputs(queue, op, op.row_tiles, true,
               base::CeilDiv(std::min(op.rows, int64_t{S::kCols}), int64_t{8}));
  const int64_t tiles = op.weight_tiles * op.row_tiles;
  if constexpr (kIsDense<S>) {
    LaunchDense<S>(queue, op, tiles, RanksOf(op.width));
  } else {
    LaunchCodes<S>(queue, op, tiles, RanksOf(op.width));
  }
}

}  // namespace thalweg::kernels::cuda
