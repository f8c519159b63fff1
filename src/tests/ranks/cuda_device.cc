// In place of the device that is pretended a real one, for the same tests: ranks that are threads
// share one GPU, whose memory the host sees, too, so that groups of threads may stand in for NCCL.
// What one rank hands another must be ready on the device when it is handed over, as there.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/exchange_ops.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#include "tests/device/pretend.h"

extern "C" cudaError_t __real_cudaFuncSetAttribute(const void* function, cudaFuncAttribute name,
                                                   int value);

// A kernel's limits are of the process: one thread must not take back what another has just set.
extern "C" cudaError_t __wrap_cudaFuncSetAttribute(const void* function, cudaFuncAttribute name,
                                                   int value) {
  static std::mutex mutex;
  static auto* most = new std::map<std::pair<const void*, int>, int>();
  const std::lock_guard lock(mutex);
  int& largest = (*most)[{function, static_cast<int>(name)}];
  if (value <= largest) return cudaSuccess;
  largest = value;
  return __real_cudaFuncSetAttribute(function, name, value);
}

namespace thalweg::tests {
namespace {

void* AllocateForBoth(int64_t bytes) {
  void* memory = nullptr;
  const auto size = static_cast<size_t>(bytes);
  if (cudaMallocManaged(&memory, size) != cudaSuccess) return nullptr;
  if (cudaMemset(memory, 0, size) == cudaSuccess && cudaDeviceSynchronize() == cudaSuccess)
    return memory;
  cudaFree(memory);
  return nullptr;
}

// Where there is no device nothing is tested, and the reason is said.
class NeedsDevice : public testing::Environment {
  void SetUp() override {
    const Status status = kernels::cuda::DeviceStatus();
    if (!status.ok()) GTEST_SKIP() << status.message();
  }
};
const testing::Environment* const kNeedsDevice = testing::AddGlobalTestEnvironment(new NeedsDevice);

const tensor::Memory& SeenByBoth() {
  static const tensor::Memory memory = [] {
    tensor::Memory made = kernels::cuda::CudaMemory();
    made.name = "cuda, seen by the host";
    made.allocate = AllocateForBoth;
    return made;
  }();
  return memory;
}

}  // namespace

const kernels::Ops& PretendedDevice() {
  static const kernels::Ops ops = [] {
    kernels::Ops made = kernels::cuda::CudaOps();
    made.memory = &SeenByBoth();
    return made;
  }();
  return ops;
}

const kernels::ExchangeOps& PretendedExchange() { return kernels::cuda::CudaExchangeOps(); }

}  // namespace thalweg::tests
