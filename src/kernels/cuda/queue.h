// The queue of a CUDA stream: kernels run in its order. Lists that the host makes for a step are
// copied to the device in that order too; and the scratch memory of ops.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tensor/stream.h"

namespace thalweg::kernels::cuda {

class Queue {
 public:
  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // For the launch of a kernel: what was staged before is on its way ahead of it.
  cudaStream_t stream();

  // `count` values of host memory as kernels of this queue can read them until the queue is
  // synchronized; the host's may be reused at once. The same values from the same place are sent
  // once. Null for null; null, and an error of the queue, when no memory is left.
  template <typename T>
  const T* Stage(const T* host, int64_t count) {
    return static_cast<const T*>(StageBytes(host, count * static_cast<int64_t>(sizeof(T))));
  }

  // Device memory of one op, 256-byte aligned: the next op gets the same place, which the order of
  // the queue allows. One call of each slot in an op: kOpSlot is the op's, kProductSlot belongs to
  // Product (bodies.h), which other ops call. Null, and an error of the queue, when no memory is
  // left: the op returns then.
  static constexpr size_t kOpSlot = 0, kProductSlot = 1, kSlots = 2;
  void* Scratch(int64_t bytes, size_t slot = kOpSlot);

  // Keeps the first error until Synchronize; cudaSuccess is none.
  void Note(cudaError_t error);
  // Waits, and lets go of what was staged. The first error since the last call.
  cudaError_t Synchronize();

 private:
  struct Chunk {  // pinned memory of the host and its image on the device
    char* host = nullptr;
    char* device = nullptr;
    int64_t bytes = 0;
    int64_t used = 0;
    int64_t sent = 0;
  };
  struct Staged {
    const char* host = nullptr;
    const void* device = nullptr;
    int64_t bytes = 0;
  };
  struct Area {
    void* memory = nullptr;
    int64_t bytes = 0;
  };
  const void* StageBytes(const void* host, int64_t bytes);
  Chunk* ChunkWith(int64_t bytes);
  void Send();

  cudaStream_t stream_ = nullptr;
  std::vector<Chunk> chunks_;
  size_t chunk_ = 0;  // the one being filled
  std::unordered_map<const void*, Staged> staged_;
  std::array<Area, kSlots> scratch_;
  std::vector<void*> outgrown_;  // scratch that kernels under way may still use
  cudaError_t error_ = cudaSuccess;
};

// The queue of a stream: its own, or one that all streams without a queue share.
Queue& QueueOf(const tensor::Stream& stream);

}  // namespace thalweg::kernels::cuda
