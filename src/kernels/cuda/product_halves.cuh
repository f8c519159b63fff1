// The product of few input rows with few weight rows of bf16 (router, compressor, index weights):
// what takes time is the way of the first byte, so that every eight weight rows have a block, which
// asks for all of them at once, before it waits for the kernel in front. Each rank of K is a warp.
// Sums run in the order of product.cuh and have its bits.
#pragma once

#include "kernels/cuda/launch_early.cuh"
#include "kernels/cuda/linear_op.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kHalvesRows = 8;  // of weights a block, and of input rows at a time
inline constexpr int64_t kMostHalvesInputs = 64;
inline constexpr int64_t kMostHalvesBlocks = 512;
inline constexpr int64_t kMostHalvesBytes = 200 << 10;

struct HalvesLayout {
  int width = 0, inputs = 0;  // input rows at a time
  // Rows on different banks: width is a multiple of 64.
  __host__ __device__ int Pitch() const { return width * 2 + 16; }
  __host__ __device__ int InputsAt() const { return kHalvesRows * Pitch(); }
  __host__ __device__ int SumsAt() const { return InputsAt() + inputs * Pitch(); }
  __host__ __device__ int BarriersAt() const {
    return SumsAt() + kMostRanks * kHalvesRows * kHalvesRows * 4;
  }
  __host__ __device__ int Bytes() const { return BarriersAt() + 2 * kBarrierBytes; }
};

// Two steps' operands of eight rows: k from `at` on, a register a quarter.
__device__ inline void LoadQuarters(uint32_t at, uint32_t (&x)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at));
}

// The sums of a rank: outputs lane / 4 of columns lane % 4 * 2 and one more.
__device__ inline void MultiplyHalves(uint32_t weights, uint32_t inputs, int begin, int end,
                                      float (&acc)[4]) {
#pragma unroll 4
  for (int k = begin * kUnitCols; k < end * kUnitCols; k += 32) {
    uint32_t w[4], x[4];
    LoadQuarters(weights + k * 2, w);
    LoadQuarters(inputs + k * 2, x);
    const uint32_t first[4] = {w[0], 0, w[1], 0}, second[4] = {w[2], 0, w[3], 0};
    MultiplySmall(acc, first, x[0], x[1]);
    MultiplySmall(acc, second, x[2], x[3]);
  }
}

// tile_slabs counts eight rows here.
static __global__ void __launch_bounds__(kMostRanks* kWarp, 1)
    HalvesKernel(const __grid_constant__ LinearOp op, HalvesLayout layout, int ranks) {
  extern __shared__ __align__(128) unsigned char shared[];
  LetNextKernelStart();
  const uint32_t at = SharedAddress(shared), barriers = at + layout.BarriersAt();
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarp, rank = thread / kWarp;
  const int pitch = layout.Pitch(), row_bytes = layout.width * 2;
  const LinearOp::Item item = op.Locate(blockIdx.x);
  const Target& target = op.targets[item.target];
  const int64_t first = item.slab * kHalvesRows, outputs = target.weight.rows;
  if (thread == 0) {
    InitBarrier(barriers, 1);
    InitBarrier(barriers + kBarrierBytes, 1);
    PublishShared();
    ArriveExpecting(barriers, kHalvesRows * row_bytes);
  }
  __syncthreads();
  if (thread < kHalvesRows) {
    const int64_t row = min(first + thread, outputs - 1);
    CopyBulk(at + thread * pitch, static_cast<const BF16*>(target.weight.data) + row * layout.width,
             row_bytes, barriers);
  }
  AwaitKernelBefore();
  auto* sums = reinterpret_cast<float*>(shared + layout.SumsAt());
  const uint32_t mine = lane / 8 * 16;
  const int units = layout.width / kUnitCols;
  uint32_t parity = 0;
  for (int64_t done = 0; done < op.rows; done += layout.inputs, parity ^= 1) {
    const int columns = static_cast<int>(min(op.rows - done, static_cast<int64_t>(layout.inputs)));
    if (thread == 0) ArriveExpecting(barriers + kBarrierBytes, columns * row_bytes);
    if (rank == 0) __syncwarp();
    if (thread < columns) {
      CopyBulk(at + layout.InputsAt() + thread * pitch, op.x + (done + thread) * op.x_stride,
               row_bytes, barriers + kBarrierBytes);
    }
    WaitBarrier(barriers, 0);
    WaitBarrier(barriers + kBarrierBytes, parity);
    float acc[4] = {};
    MultiplyHalves(at + lane % 8 * pitch + mine,
                   at + layout.InputsAt() + min(lane % 8, columns - 1) * pitch + mine,
                   SplitBegin(units, rank, ranks), SplitBegin(units, rank + 1, ranks), acc);
    float* to = sums + (rank * kHalvesRows + lane % 4 * 2) * kHalvesRows + lane / 4;
    to[0] = acc[0];
    to[kHalvesRows] = acc[1];
    __syncthreads();
    for (int i = thread; i < columns * kHalvesRows; i += ranks * kWarp) {
      float sum = sums[i];
      for (int r = 1; r < ranks; ++r) sum += sums[r * kHalvesRows * kHalvesRows + i];
      const int64_t o = first + i % kHalvesRows, row = done + i / kHalvesRows;
      if (o >= outputs) continue;
      if (target.out_bf16 != nullptr) target.out_bf16[row * outputs + o] = Narrow(sum);
      if (target.out_f32 != nullptr) target.out_f32[row * outputs + o] = sum;
    }
    __syncthreads();
  }
}

inline HalvesLayout HalvesOf(const LinearOp& op) {
  return {static_cast<int>(op.width), static_cast<int>(std::min<int64_t>(op.rows, kHalvesRows))};
}

// Whether HalvesKernel can run the op, and is made for it.
inline bool HalvesTake(const LinearOp& op) {
  if (op.rows > kMostHalvesInputs || op.width % kUnitCols != 0 || !op.inputs_aligned) return false;
  if (op.width > kMostHalvesBytes || HalvesOf(op).Bytes() > kMostHalvesBytes) return false;
  int64_t blocks = 0;
  for (int t = 0; t < op.targets_n; ++t) {
    const Matrix& w = op.targets[t].weight;
    if (w.format != WeightFormat::kBF16 || reinterpret_cast<uintptr_t>(w.data) % 16 != 0)
      return false;
    blocks += base::CeilDiv(w.rows, int64_t{kHalvesRows});
  }
  return blocks <= kMostHalvesBlocks && HasWarpgroups();
}

inline void LaunchHalves(Queue* queue, LinearOp op) {
  op.tile_slabs = 1;
  op.tile_rows = static_cast<int>(op.rows);
  op.row_tiles = 1;
  op.weight_tiles = 0;
  for (int t = 0; t < op.targets_n; ++t) {
    op.targets[t].first_tile = op.weight_tiles;
    op.weight_tiles += base::CeilDiv(op.targets[t].weight.rows, int64_t{kHalvesRows});
  }
  const HalvesLayout layout = HalvesOf(op);
  const int ranks = RanksOf(op.width);
  AllowShared(queue, HalvesKernel, kMostHalvesBytes);
  LaunchAs(queue, HalvesKernel, dim3(Count(op.weight_tiles)), ranks * kWarp, layout.Bytes(),
           {1, true}, op, layout, ranks);
}

}  // namespace thalweg::kernels::cuda
