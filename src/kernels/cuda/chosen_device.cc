#include "kernels/cuda/chosen_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

namespace thalweg::kernels::cuda {
namespace {

std::atomic<int> of_process{0};
thread_local int chosen = -1;  // by this thread; -1: the process's
thread_local int entered = 0;  // where CUDA has this thread

}  // namespace

int DeviceCount() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return std::min(count, kMostDevices);
  cudaGetLastError();
  return 0;
}

void EnterDevice(int device) {
  if (device == entered) return;
  cudaSetDevice(device);
  entered = device;
}

int EnterOwnDevice() {
  const int device = chosen >= 0 ? chosen : of_process.load(std::memory_order_relaxed);
  EnterDevice(device);
  return device;
}

Status ChooseDevice(int device, bool whole_process) {
  const cudaError_t error = cudaSetDevice(device);
  if (error != cudaSuccess)
    return base::Unsupported(
        fmt::format("device {} cannot be used: {}", device, cudaGetErrorString(error)));
  chosen = entered = device;
  if (whole_process) of_process = device;
  return {};
}

}  // namespace thalweg::kernels::cuda
