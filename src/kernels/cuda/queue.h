// The queue of a CUDA stream: kernels run in its order, and lists that the host makes for a step
// are copied into pinned memory that kernels read in place. Also the scratch of ops.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tensor/stream.h"

namespace thalweg::kernels::cuda {

class Queue {
 public:
  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  cudaStream_t stream() const { return stream_; }

  // `count` values of host memory at a place that kernels of this queue can read until the queue is
  // synchronized. Null for null.
  template <typename T>
  const T* Stage(const T* host, int64_t count) {
    if (host == nullptr) return nullptr;
    void* place = StagedBytes(count * static_cast<int64_t>(sizeof(T)));
    if (count > 0) std::memcpy(place, host, static_cast<size_t>(count) * sizeof(T));
    return static_cast<const T*>(place);
  }
  // Pinned memory of the host, 64-byte aligned, until the queue is synchronized.
  void* StagedBytes(int64_t bytes);

  // Device memory for one op, 256-byte aligned: the next op gets the same place, which the order of
  // the queue allows. It grows by allocating anew after the queue ran dry; one call an op.
  void* Scratch(int64_t bytes);

  // Waits, and lets go of what was staged. The first error since the last call.
  cudaError_t Synchronize();

 private:
  struct Chunk {
    char* memory = nullptr;
    int64_t bytes = 0;
  };
  cudaStream_t stream_ = nullptr;
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;  // the one that is filled now
  int64_t used_ = 0;  // bytes of it
  Chunk scratch_;     // device memory
  cudaError_t error_ = cudaSuccess;
};

// The queue of a stream: its own, or one that all streams without a queue share.
Queue& QueueOf(const tensor::Stream& stream);

}  // namespace thalweg::kernels::cuda
