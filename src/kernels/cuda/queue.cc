#include "kernels/cuda/queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/math.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;
constexpr int64_t kStageAlign = 64;
constexpr int64_t kScratchStep = int64_t{1} << 20;

}  // namespace

Queue::Queue() { Note(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }

Queue::~Queue() {
  Synchronize();
  for (const Chunk& chunk : chunks_) {
    cudaFreeHost(chunk.host);
    cudaFree(chunk.device);
  }
  for (const Area& area : scratch_) cudaFree(area.memory);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void Queue::Note(cudaError_t error) {
  if (error_ == cudaSuccess) error_ = error;
}

Queue::Chunk* Queue::ChunkWith(int64_t bytes) {
  for (; chunk_ < chunks_.size(); ++chunk_) {
    Chunk& chunk = chunks_[chunk_];
    if (chunk.bytes - chunk.used >= bytes) return &chunk;
    Send();
  }
  Chunk made{.bytes = std::max(kChunkBytes, bytes)};
  const auto size = static_cast<size_t>(made.bytes);
  const cudaError_t host = cudaHostAlloc(reinterpret_cast<void**>(&made.host), size, 0);
  const cudaError_t device = cudaMalloc(reinterpret_cast<void**>(&made.device), size);
  Note(host);
  Note(device);
  if (host != cudaSuccess || device != cudaSuccess) {
    cudaFreeHost(made.host);
    cudaFree(made.device);
    return nullptr;
  }
  return &chunks_.emplace_back(made);
}

const void* Queue::StageBytes(const void* host, int64_t bytes) {
  if (host == nullptr) return nullptr;
  const auto size = static_cast<size_t>(bytes);
  const auto known = staged_.find(host);
  if (known != staged_.end() && known->second.bytes == bytes &&
      std::memcmp(known->second.host, host, size) == 0) {
    return known->second.device;
  }
  Chunk* chunk = ChunkWith(base::RoundUp(std::max<int64_t>(bytes, 1), kStageAlign));
  if (chunk == nullptr) return nullptr;
  char* copy = chunk->host + chunk->used;
  const char* device = chunk->device + chunk->used;
  chunk->used += base::RoundUp(std::max<int64_t>(bytes, 1), kStageAlign);
  std::memcpy(copy, host, size);
  staged_[host] = {copy, device, bytes};
  return device;
}

void Queue::Send() {
  if (chunk_ >= chunks_.size()) return;
  Chunk& chunk = chunks_[chunk_];
  if (chunk.sent == chunk.used) return;
  Note(cudaMemcpyAsync(chunk.device + chunk.sent, chunk.host + chunk.sent,
                       static_cast<size_t>(chunk.used - chunk.sent), cudaMemcpyHostToDevice,
                       stream_));
  chunk.sent = chunk.used;
}

cudaStream_t Queue::stream() {
  Send();
  return stream_;
}

void* Queue::Scratch(int64_t bytes, size_t slot) {
  Area& area = scratch_[slot];
  if (bytes <= area.bytes) return area.memory;
  Area grown{.bytes = base::RoundUp(bytes + bytes / 4, kScratchStep)};
  const cudaError_t error = cudaMalloc(&grown.memory, static_cast<size_t>(grown.bytes));
  Note(error);
  if (error != cudaSuccess) return nullptr;
  if (area.memory != nullptr) outgrown_.push_back(area.memory);
  area = grown;
  return area.memory;
}

cudaError_t Queue::Synchronize() {
  Note(cudaGetLastError());
  Note(cudaStreamSynchronize(stream_));
  for (void* memory : outgrown_) cudaFree(memory);
  outgrown_.clear();
  for (Chunk& chunk : chunks_) chunk.used = chunk.sent = 0;
  chunk_ = 0;
  staged_.clear();
  return std::exchange(error_, cudaSuccess);
}

Queue& QueueOf(const tensor::Stream& stream) {
  static Queue shared;
  return stream.device != nullptr ? *static_cast<Queue*>(stream.device) : shared;
}

}  // namespace thalweg::kernels::cuda
