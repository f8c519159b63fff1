#include "kernels/cuda/memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "base/check.h"
#include "kernels/cuda/chosen_device.h"
#include "kernels/cuda/queue.h"

namespace thalweg::kernels::cuda {
namespace {

using tensor::Stream;

constexpr int kLeastMajor = 9;  // Hopper: what the kernels are compiled for

void* Allocate(int64_t bytes) {
  EnterOwnDevice();
  void* memory = nullptr;
  const auto size = static_cast<size_t>(bytes);
  if (cudaMalloc(&memory, size) != cudaSuccess) {
    cudaGetLastError();  // told by the null
    return nullptr;
  }
  // Queues do not wait for the default stream, so the clearing is waited for.
  if (cudaMemset(memory, 0, size) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) {
    cudaFree(memory);
    return nullptr;
  }
  return memory;
}

void Release(void* memory) { cudaFree(memory); }

int64_t FreeBytes() {
  EnterOwnDevice();
  size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<int64_t>(free) : 0;
}

void Upload(const Stream& stream, void* to, const void* from, int64_t bytes) {
  QueueOf(stream).Upload(to, from, bytes);
}

void Download(const Stream& stream, void* to, const void* from, int64_t bytes) {
  if (bytes <= 0) return;
  Queue& queue = QueueOf(stream);
  queue.Note(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                             queue.plain_stream()));
  queue.Note(cudaStreamSynchronize(queue.plain_stream()));
}

void Copy(const Stream& stream, void* to, const void* from, int64_t bytes) {
  if (bytes <= 0) return;
  Queue& queue = QueueOf(stream);
  queue.Note(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice,
                             queue.plain_stream()));
}

void* OpenQueue() { return new Queue; }
void CloseQueue(void* queue) { delete static_cast<Queue*>(queue); }

Status StatusOf(cudaError_t error) {
  if (error == cudaSuccess) return {};
  return base::Internal(
      fmt::format("the device failed: {}: {}", cudaGetErrorName(error), cudaGetErrorString(error)));
}

Status Synchronize(const Stream& stream) { return StatusOf(QueueOf(stream).Synchronize()); }

void* AllocatePinned(int64_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, static_cast<size_t>(bytes), 0) == cudaSuccess) return memory;
  cudaGetLastError();  // told by the null
  return nullptr;
}

void DownloadLater(const Stream& stream, void* pinned, const void* from, int64_t bytes) {
  Queue& queue = QueueOf(stream);
  queue.Note(cudaMemcpyAsync(pinned, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost,
                             queue.plain_stream()));
}

void Forget(void* recording) {
  auto* made = static_cast<Recording*>(recording);
  cudaGraphExecDestroy(made->graph);
  delete made;
}

const tensor::StepQueue& CudaSteps() {
  static const tensor::StepQueue steps{
      .begin = [](const Stream& stream) { QueueOf(stream).BeginStep(); },
      .list = [](const Stream& stream, const void* host,
                 int64_t bytes) { return QueueOf(stream).List(host, bytes); },
      .end = [](const Stream& stream) { QueueOf(stream).EndStep(); },
      .done = [](const Stream& stream) { return QueueOf(stream).Done(); },
      .wait = [](const Stream& stream) { return StatusOf(QueueOf(stream).Wait()); },
      .record = [](const Stream& stream) { QueueOf(stream).Record(); },
      .recorded = [](const Stream& stream) -> void* { return QueueOf(stream).Recorded(); },
      .replay = [](const Stream& stream,
                   void* made) { QueueOf(stream).Replay(*static_cast<Recording*>(made)); },
      .forget = Forget,
      .allocate_pinned = AllocatePinned,
      .release_pinned = [](void* memory) { cudaFreeHost(memory); },
      .download = DownloadLater};
  return steps;
}

}  // namespace

const tensor::Memory& CudaMemory() {
  static const tensor::Memory memory{.name = "cuda",
                                     .host = false,
                                     .allocate = Allocate,
                                     .release = Release,
                                     .free_bytes = FreeBytes,
                                     .upload = Upload,
                                     .download = Download,
                                     .copy = Copy,
                                     .open_queue = OpenQueue,
                                     .close_queue = CloseQueue,
                                     .synchronize = Synchronize,
                                     .steps = &CudaSteps()};
  return memory;
}

Status DeviceStatus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    return base::Unsupported(fmt::format(
        "backend \"cuda\" needs an NVIDIA device and its driver, and none can be used here ({}); "
        "other backends: reference, cpu",
        error != cudaSuccess ? cudaGetErrorString(error) : "no device"));
  }
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  if (major >= kLeastMajor) return {};
  return base::Unsupported(fmt::format(
      "backend \"cuda\" needs compute capability {}.0 or newer, and this device has {}.x; use "
      "--backend cpu",
      kLeastMajor, major));
}

std::string DeviceName() {
  cudaDeviceProp properties = {};
  if (!DeviceStatus().ok() || cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return {};
  return properties.name;
}

}  // namespace thalweg::kernels::cuda
