#include "kernels/cuda/threads_kit.h"

#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/queue.h"

extern "C" cudaError_t __real_cudaFuncSetAttribute(const void* function, cudaFuncAttribute name,
                                                   int value);

// A kernel's limits are of a device: one thread must not take back what another has just set.
extern "C" cudaError_t __wrap_cudaFuncSetAttribute(const void* function, cudaFuncAttribute name,
                                                   int value) {
  static std::mutex mutex;
  static auto* most = new std::map<std::tuple<int, const void*, int>, int>();
  int device = 0;
  cudaGetDevice(&device);
  const std::lock_guard lock(mutex);
  int& largest = (*most)[{device, function, static_cast<int>(name)}];
  if (value <= largest) return cudaSuccess;
  largest = value;
  return __real_cudaFuncSetAttribute(function, name, value);
}

namespace thalweg::kernels::cuda {
namespace {

// Of the host, and read and written by kernels there.
void* AllocateForBoth(int64_t bytes) {
  void* memory = nullptr;
  const auto size = static_cast<size_t>(bytes);
  if (cudaHostAlloc(&memory, size, cudaHostAllocPortable) != cudaSuccess) return nullptr;
  std::memset(memory, 0, size);
  return memory;
}

void Move(const tensor::Stream& stream, void* to, const void* from, int64_t bytes) {
  if (bytes <= 0) return;
  Queue& queue = QueueOf(stream);
  queue.Note(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault,
                             queue.plain_stream()));
}

void MoveAndWait(const tensor::Stream& stream, void* to, const void* from, int64_t bytes) {
  Move(stream, to, from, bytes);
  Queue& queue = QueueOf(stream);
  queue.Note(cudaStreamSynchronize(queue.plain_stream()));
}

const tensor::Memory& SeenByBoth() {
  static const tensor::Memory memory = [] {
    tensor::Memory made = CudaMemory();
    made.name = "cuda, seen by the host";
    made.allocate = AllocateForBoth;
    made.release = [](void* taken) { cudaFreeHost(taken); };
    made.upload = MoveAndWait;
    made.download = MoveAndWait;
    made.copy = Move;
    return made;
  }();
  return memory;
}

}  // namespace

const Ops& CudaOpsInHostMemory() {
  static const Ops ops = [] {
    Ops made = CudaOps();
    made.memory = &SeenByBoth();
    return made;
  }();
  return ops;
}

}  // namespace thalweg::kernels::cuda
