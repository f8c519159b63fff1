// What the benches of single kernels share: memory, made-up rows, times of calls in a graph, the
// copy rate of the device, and an end should a kernel not end.
#pragma once

#include <cuda_runtime.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/queue.h"

namespace thalweg::kernels::cuda {

inline void Check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  fmt::print("{}: {}\n", what, cudaGetErrorString(error));
  std::fflush(stdout);
  std::_Exit(1);
}

template <typename T>
T* Make(int64_t n) {
  void* memory = nullptr;
  Check(cudaMalloc(&memory, static_cast<size_t>(n) * sizeof(T)), "cudaMalloc");
  Check(cudaMemset(memory, 0, static_cast<size_t>(n) * sizeof(T)), "cudaMemset");
  return static_cast<T*>(memory);
}

__device__ inline uint32_t Mixed(uint64_t i, uint32_t seed) {
  uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  return static_cast<uint32_t>(x);
}

// Encoded rows of random codes, `codes` bytes of them a row, and scales from `scale` on, some of
// them; kMask keeps e4m3 codes away from NaN.
static __global__ void FillRows(uint8_t* rows, int64_t bytes, int row_bytes, int codes,
                                uint32_t mask, uint32_t scale, uint32_t scales) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < bytes;
       i += stride) {
    const uint32_t x = Mixed(static_cast<uint64_t>(i), 7);
    rows[i] = static_cast<uint8_t>(i % row_bytes < codes ? x & mask : scale + x % scales);
  }
}

static __global__ void FillHalves(BF16* out, int64_t n, float scale) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += stride) {
    const float x = static_cast<float>(Mixed(static_cast<uint64_t>(i), 3)) * 0x1p-31f - 1.0f;
    out[i] = Narrow(x * scale);
  }
}

// Microseconds of a call: the median of some graphs of several, call(i) the i-th.
inline double TimeCalls(Queue* queue, int calls, const std::function<void(int)>& call) {
  call(0);
  cudaStream_t stream = queue->plain_stream();
  Check(cudaStreamSynchronize(stream), "first call");
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capture");
  for (int i = 0; i < calls; ++i) call(i);
  Check(cudaStreamEndCapture(stream, &graph), "capture");
  Check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> took;
  for (int i = 0; i < 5; ++i) {
    cudaEventRecord(begin, stream);
    Check(cudaGraphLaunch(exec, stream), "launch");
    cudaEventRecord(end, stream);
    Check(cudaStreamSynchronize(stream), "run");
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    took.push_back(ms);
  }
  std::sort(took.begin(), took.end());
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return static_cast<double>(took[2]) * 1e3 / calls;
}

// Bytes read and written a second, in TB/s.
inline double CopyRate() {
  constexpr size_t kBytes = size_t{1} << 30;
  char *from = Make<char>(kBytes), *to = Make<char>(kBytes);
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  for (int i = 0; i < 2; ++i) cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice);
  cudaEventRecord(begin);
  for (int i = 0; i < 5; ++i) cudaMemcpyAsync(to, from, kBytes, cudaMemcpyDeviceToDevice);
  cudaEventRecord(end);
  Check(cudaDeviceSynchronize(), "copy");
  float ms = 0;
  cudaEventElapsedTime(&ms, begin, end);
  cudaFree(from);
  cudaFree(to);
  return 5.0 * 2 * kBytes / (static_cast<double>(ms) * 1e-3) * 1e-12;
}

// Ends the program after some seconds.
inline void EndAfter(unsigned seconds) {
  std::signal(SIGALRM, [](int) {
    constexpr char kMessage[] = "\nstill running: a kernel hangs\n";
    const ssize_t written = write(STDOUT_FILENO, kMessage, sizeof(kMessage) - 1);
    _exit(written < 0 ? 4 : 3);
  });
  alarm(seconds);
}

}  // namespace thalweg::kernels::cuda
