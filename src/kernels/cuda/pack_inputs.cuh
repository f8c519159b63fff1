// Input rows of a product as codes (codes.cuh), brought into the order in which tiles read them.
//
// Of an Op it asks: InputTiles(), InputItem(i): tiles of input rows, and an item of each;
// Columns(item): the rows of a tile; InputRow(item, n): row n as bf16 values; Packed(item): where
// the tile's chunks go, unit by unit, kInputUnitBytes for each group of 8 rows; width: K, a
// multiple of 32; inputs_aligned: rows can be read in pieces of 16 bytes.
#pragma once

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/product_launch.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kPackThreads = 256, kPackUnits = kPackThreads / 64;

// Eight values of a row from column `col` on, zeros behind its end.
__device__ inline uint4 ValuesAt(const BF16* row, int64_t col, int64_t width, bool aligned) {
  if (row == nullptr || col >= width) return {};
  if (aligned) return *reinterpret_cast<const uint4*>(row + col);
  uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) pairs[i] = row[col + 2 * i].bits | row[col + 2 * i + 1].bits << 16;
  return {pairs[0], pairs[1], pairs[2], pairs[3]};
}

// Blocks of kPackUnits units and of every gridDim.z-th group of 8 rows. Rows of a group behind the
// last of a tile are zeros.
template <typename Op>
__global__ void __launch_bounds__(kPackThreads) EncodeInputsKernel(const __grid_constant__ Op op) {
  AwaitKernelBefore();
  LetNextKernelStart();
  const int unit = static_cast<int>(blockIdx.x * kPackUnits + threadIdx.x / 64);
  if (unit * int64_t{kUnitCols} >= op.width) return;  // whole warps
  const int n = static_cast<int>(threadIdx.x) / 8 % 8, piece = static_cast<int>(threadIdx.x) % 8;
  const int64_t col = static_cast<int64_t>(unit) * kUnitCols + piece * 8;
  for (int64_t tile = blockIdx.y; tile < op.InputTiles(); tile += gridDim.y) {
    const typename Op::Item item = op.InputItem(tile);
    const int columns = op.Columns(item), groups = (columns + 7) / 8;
    auto* chunks = reinterpret_cast<unsigned char*>(op.Packed(item)) +
                   static_cast<int64_t>(unit) * groups * kInputUnitBytes;
    for (int group = static_cast<int>(blockIdx.z); group < groups;
         group += static_cast<int>(gridDim.z)) {
      const int row_n = group * 8 + n;
      const BF16* row = row_n < columns ? op.InputRow(item, row_n) : nullptr;
      const CodedPiece coded = CodesOf(ValuesAt(row, col, op.width, op.inputs_aligned));
      StorePiece(n, piece, coded, 0, chunks + group * kInputUnitBytes);
    }
  }
}

// Encodes the input rows of at most `tiles` tiles to op.Packed; `groups`: of 8 rows, that a tile
// has as a rule.
template <typename Op>
void EncodeInputs(Queue* queue, const Op& op, int64_t tiles, bool early, int64_t groups = 1) {
  constexpr int64_t kMostTiles = 1024;  // of one block
  const int64_t blocks = base::CeilDiv(int64_t{UnitsOf(op.width)}, int64_t{kPackUnits});
  const dim3 grid(Count(blocks), Count(std::min(tiles, kMostTiles)), Count(groups));
  LaunchAs(queue, EncodeInputsKernel<Op>, grid, kPackThreads, 0, {1, early}, op);
}

}  // namespace thalweg::kernels::cuda
