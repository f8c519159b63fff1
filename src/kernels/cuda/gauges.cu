// Ceilings of the device: a copy within its memory, and matrix instructions that wait for nothing.
#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/gauges.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mma.cuh"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kCopyBytes = int64_t{2} << 30;
constexpr int kRuns = 5;

constexpr int kPeakThreads = 384;  // three warpgroups keep the matrix units busy
constexpr int kPeakColumns = 128, kPeakSteps = 4;
constexpr int kPeakTurns = 20000;
constexpr int kGroupBytes = kPeakSteps * 2 * kCoreBytes;

// Seconds of the fastest of some runs of work that `start` puts on the stream.
template <typename Start>
double BestSeconds(Queue* queue, Start start) {
  cudaEvent_t begin = nullptr, end = nullptr;
  queue->Note(cudaEventCreate(&begin));
  queue->Note(cudaEventCreate(&end));
  float best_ms = 1e30f;
  for (int i = 0; i < kRuns; ++i) {
    queue->Note(cudaEventRecord(begin, queue->stream()));
    start();
    queue->Note(cudaEventRecord(end, queue->stream()));
    queue->Note(cudaEventSynchronize(end));
    float ms = 1e30f;
    queue->Note(cudaEventElapsedTime(&ms, begin, end));
    best_ms = std::min(best_ms, ms);
  }
  queue->Note(cudaEventDestroy(begin));
  queue->Note(cudaEventDestroy(end));
  return static_cast<double>(best_ms) * 1e-3;
}

int64_t Launches(const Stream& stream) { return QueueOf(stream).launches(); }

double CopyGbPerSecond(const Stream& stream) {
  Queue& queue = QueueOf(stream);
  size_t free = 0, total = 0;
  queue.Note(cudaMemGetInfo(&free, &total));
  const size_t bytes = std::min<size_t>(kCopyBytes, free / 4);
  char *from = nullptr, *to = nullptr;
  queue.Note(cudaMalloc(reinterpret_cast<void**>(&from), bytes));
  queue.Note(cudaMalloc(reinterpret_cast<void**>(&to), bytes));
  double rate = 0;
  if (from != nullptr && to != nullptr) {
    const double seconds = BestSeconds(&queue, [&] {
      queue.Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue.stream()));
    });
    rate = 2 * static_cast<double>(bytes) / seconds / 1e9;  // read and written
  }
  queue.Note(cudaFree(from));
  queue.Note(cudaFree(to));
  return rate;
}

// Small numbers of either sign, so that multipliers work as they do on weights.
__device__ uint32_t PairOfValues(uint32_t seed) {
  const uint32_t word = seed * 2654435761u ^ seed << 13;
  return (word & 0x807f807fu) | 0x3c003c00u;
}

__global__ void __launch_bounds__(kPeakThreads) PeakKernel(int turns, float* out) {
  __shared__ __align__(1024) uint32_t columns[kPeakColumns / 8 * kGroupBytes / 4];
  for (unsigned i = threadIdx.x; i < sizeof(columns) / 4; i += kPeakThreads)
    columns[i] = PairOfValues(i + 1);
  uint32_t rows[kPeakSteps][4];
  for (int s = 0; s < kPeakSteps; ++s) {
    for (int r = 0; r < 4; ++r) rows[s][r] = PairOfValues(threadIdx.x * 16 + s * 4 + r);
  }
  PublishShared();
  __syncthreads();
  float sums[kPeakColumns / 2] = {};
  const uint32_t address = SharedAddress(columns);
  for (int turn = 0; turn < turns; ++turn) {
    BeginProducts();
#pragma unroll
    for (int s = 0; s < kPeakSteps; ++s)
      Multiply<kPeakColumns>(sums, rows[s], address + s * 2 * kCoreBytes, kGroupBytes);
    CommitProducts();
    WaitProducts<0>();
  }
  float sum = 0;
  for (const float x : sums) sum += x;
  if (sum == 12345.0f) *out = sum;  // keeps the work alive
}

double Bf16GflopPerSecond(const Stream& stream) {
  Queue& queue = QueueOf(stream);
  int device = 0, multiprocessors = 0;
  queue.Note(cudaGetDevice(&device));
  queue.Note(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  auto* out = static_cast<float*>(queue.Scratch(sizeof(float)));
  if (out == nullptr) return 0;
  const double seconds = BestSeconds(&queue, [&] {
    PeakKernel<<<Count(multiprocessors), kPeakThreads, 0, queue.stream()>>>(kPeakTurns, out);
  });
  const double products = 64.0 * kPeakColumns * 16 * kPeakSteps * (kPeakThreads / 128);
  return 2 * products * kPeakTurns * multiprocessors / seconds / 1e9;
}

}  // namespace

const DeviceGauges& CudaGauges() {
  static const DeviceGauges gauges{
      .launches = Launches,
      .step_seconds = [](const Stream& stream) { return QueueOf(stream).step_seconds(); },
      .copy_gb_s = CopyGbPerSecond,
      .bf16_gflop_s = Bf16GflopPerSecond};
  return gauges;
}

}  // namespace thalweg::kernels::cuda
