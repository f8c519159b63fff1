// Rows on their way to other ranks and back.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/exchange_ops.h"
#include "kernels/cuda/launch.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void PickKernel(PickRowsParams p, int64_t row_bytes) {
  const BF16* x = p.x + p.rows[blockIdx.x] * p.width;
  uint8_t* out = p.out + blockIdx.x * row_bytes;
  ForColumns(p.width, [&](int64_t c, bool active) {
    const Coded coded = QuantiseLane(p.format, active ? Wide(x[c]) : 0.0f);
    StoreCoded(p.format, coded, c, p.width, active, out);
  });
}

__global__ void UnpackKernel(UnpackRowsParams p, int64_t row_bytes) {
  const uint8_t* row = p.came + p.rows[blockIdx.x] * row_bytes;
  BF16* out = p.out + blockIdx.x * p.width;
  for (int64_t c = threadIdx.x; c < p.width; c += blockDim.x)
    out[c] = Narrow(DecodeValue(p.format, row, p.width, c));
}

__global__ void SumKernel(SumResultsParams p) {
  const int64_t row = blockIdx.x;
  for (int64_t c = threadIdx.x; c < p.width; c += blockDim.x) {
    float sum = 0;
    for (int64_t k = 0; k < p.topk; ++k)
      sum += Wide(p.results[p.at[row * p.topk + k] * p.width + c]);
    p.out[row * p.width + c] = Narrow(sum + Wide(p.shared[row * p.width + c]));
  }
}

void PickRows(const PickRowsParams& p) {
  if (p.count == 0) return;
  Queue& queue = QueueOf(p.stream);
  PickRowsParams d = p;
  d.rows = queue.Stage(p.rows, p.count);
  PickKernel<<<Count(p.count), kThreads, 0, queue.stream()>>>(d,
                                                              tensor::RowBytes(p.format, p.width));
}

void UnpackRows(const UnpackRowsParams& p) {
  if (p.count == 0) return;
  Queue& queue = QueueOf(p.stream);
  UnpackRowsParams d = p;
  d.rows = queue.Stage(p.rows, p.count);
  UnpackKernel<<<Count(p.count), kThreads, 0, queue.stream()>>>(
      d, tensor::RowBytes(p.format, p.width));
}

void SumResults(const SumResultsParams& p) {
  if (p.rows == 0) return;
  Queue& queue = QueueOf(p.stream);
  SumResultsParams d = p;
  d.at = queue.Stage(p.at, p.rows * p.topk);
  SumKernel<<<Count(p.rows), kThreads, 0, queue.stream()>>>(d);
}

}  // namespace

const ExchangeOps& CudaExchangeOps() {
  static const ExchangeOps ops = {PickRows, UnpackRows, SumResults};
  return ops;
}

}  // namespace thalweg::kernels::cuda
