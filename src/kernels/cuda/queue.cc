#include "kernels/cuda/queue.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "kernels/cuda/chosen_device.h"
#include "kernels/cuda/row_jobs.h"

namespace thalweg::kernels::cuda {
namespace {

constexpr int64_t kChunkBytes = int64_t{4} << 20;
constexpr int64_t kListAlign = 64;
constexpr int64_t kScratchStep = int64_t{1} << 20;
constexpr int64_t kMostSmall = 4096;  // bytes of an upload that is not waited for
constexpr int64_t kSmallBytes = 256 << 10;

}  // namespace

Queue::Queue() : device_(EnterOwnDevice()), held_(std::make_unique<HeldJobs>()) {
  Note(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  Note(cudaMalloc(reinterpret_cast<void**>(&readers_), sizeof(unsigned)));
  Note(cudaMemset(readers_, 0, sizeof(unsigned)));
  Note(cudaDeviceSynchronize());
  for (Frame& frame : frames_) {
    Note(cudaEventCreate(&frame.begun));
    Note(cudaEventCreate(&frame.ended));
    Note(cudaHostAlloc(reinterpret_cast<void**>(&frame.small), kSmallBytes, 0));
  }
}

Queue::~Queue() {
  EnterDevice(device_);
  Synchronize();
  for (const Chunk& chunk : chunks_) {
    for (char* host : chunk.host) cudaFreeHost(host);
    cudaFree(chunk.device);
  }
  for (const Frame& frame : frames_) {
    cudaEventDestroy(frame.begun);
    cudaEventDestroy(frame.ended);
    cudaFreeHost(frame.small);
  }
  cudaFree(readers_);
  for (const Area& area : scratch_) cudaFree(area.memory);
  for (void* memory : outgrown_) cudaFree(memory);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

void Queue::Note(cudaError_t error) {
  if (error_ == cudaSuccess) error_ = error;
}

bool Queue::AddChunk(int64_t bytes) {
  Chunk made{.bytes = std::max(kChunkBytes, bytes)};
  const auto size = static_cast<size_t>(made.bytes);
  bool all = cudaMalloc(reinterpret_cast<void**>(&made.device), size) == cudaSuccess;
  for (char*& host : made.host)
    all = all && cudaHostAlloc(reinterpret_cast<void**>(&host), size, 0) == cudaSuccess;
  if (all) {
    chunks_.push_back(made);
    return true;
  }
  Note(cudaGetLastError());
  for (char* host : made.host) cudaFreeHost(host);
  cudaFree(made.device);
  return false;
}

// Makes the chunk being filled one that has `bytes` left.
bool Queue::Reach(int64_t bytes) {
  while (chunk_ < chunks_.size() && chunks_[chunk_].bytes - chunks_[chunk_].used < bytes) ++chunk_;
  return chunk_ < chunks_.size() || AddChunk(bytes);
}

const Queue::Chunk* Queue::ChunkOf(const void* list) const {
  const auto* place = static_cast<const char*>(list);
  for (const Chunk& chunk : chunks_) {
    if (place >= chunk.device && place < chunk.device + chunk.bytes) return &chunk;
  }
  return nullptr;
}

const void* Queue::HostBytes(const void* list) const {
  const Chunk* chunk = ChunkOf(list);
  if (chunk == nullptr) return list;
  return chunk->host[frame_] + (static_cast<const char*>(list) - chunk->device);
}

const void* Queue::StageBytes(const void* host, int64_t bytes, bool refused) {
  if (host == nullptr || ChunkOf(host) != nullptr) return host;
  TW_CHECK(!refused);
  const int64_t taken = base::RoundUp(std::max<int64_t>(bytes, 1), kListAlign);
  if (!Reach(taken)) return nullptr;
  Chunk& chunk = chunks_[chunk_];
  std::memcpy(chunk.host[frame_] + chunk.used, host, static_cast<size_t>(bytes));
  const char* device = chunk.device + chunk.used;
  chunk.used += taken;
  return device;
}

// Nothing is sent while a recording is made: Replay does it.
void Queue::Send() {
  if (recording_) return;
  if (frames_[frame_].begins) Note(cudaEventRecord(frames_[frame_].begun, stream_));
  frames_[frame_].begins = false;
  for (size_t i = 0; i < chunks_.size() && i <= chunk_; ++i) {
    Chunk& chunk = chunks_[i];
    if (chunk.sent == chunk.used) continue;
    Note(cudaMemcpyAsync(chunk.device + chunk.sent, chunk.host[frame_] + chunk.sent,
                         static_cast<size_t>(chunk.used - chunk.sent), cudaMemcpyHostToDevice,
                         stream_));
    chunk.sent = chunk.used;
  }
}

cudaStream_t Queue::stream() {
  ++launches_;
  return plain_stream();
}

void Queue::LaunchHeld() {
  if (!held_->any()) return;
  const HeldJobs jobs = std::exchange(*held_, HeldJobs());
  LaunchJobs(this, jobs);
}

cudaStream_t Queue::plain_stream() {
  if (!keeps_held_ || held_->in_the_way()) LaunchHeld();
  Send();
  return stream_;
}

void Queue::ResetLists() {
  for (Chunk& chunk : chunks_) chunk.used = chunk.sent = 0;
  chunk_ = 0;
}

int64_t Queue::ListBytes() const {
  int64_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.used;
  return bytes;
}

void Queue::BeginStep() {
  LaunchHeld();
  // Small uploads between two steps are in the frame of the first, and done before the second is:
  // so a frame is free when the step behind its own is done.
  TW_CHECK_LT(under_way_.size(), kFrames - 1);
  const size_t behind = (frame_ + 2) % kFrames;
  if (frames_[behind].used) Note(cudaEventSynchronize(frames_[behind].ended));
  frame_ = (frame_ + 1) % kFrames;
  frames_[frame_].small_used = 0;
  frames_[frame_].begins = true;
  ResetLists();
}

void Queue::EndStep() {
  LaunchHeld();
  Send();
  Note(cudaGetLastError());
  Note(cudaEventRecord(frames_[frame_].ended, stream_));
  frames_[frame_].used = true;
  under_way_.push_back(frame_);
}

bool Queue::Done() {
  if (under_way_.empty()) return true;
  if (cudaEventQuery(frames_[under_way_.front()].ended) != cudaErrorNotReady) return true;
  cudaGetLastError();  // it is kept like an error, and none
  return false;
}

cudaError_t Queue::Wait() {
  if (under_way_.empty()) return Synchronize();
  const size_t frame = under_way_.front();
  under_way_.pop_front();
  Note(cudaEventSynchronize(frames_[frame].ended));
  NoteSeconds(frame);
  return std::exchange(error_, cudaSuccess);
}

void Queue::NoteSeconds(size_t frame) {
  const auto between = [](cudaEvent_t first, cudaEvent_t second) {
    float ms = 0;
    if (cudaEventElapsedTime(&ms, first, second) == cudaSuccess)
      return static_cast<double>(ms) * 1e-3;
    cudaGetLastError();
    return 0.0;
  };
  const Frame& f = frames_[frame];
  seconds_.busy += between(f.begun, f.ended);
  if (waited_ < kFrames) seconds_.idle += between(frames_[waited_].ended, f.begun);
  waited_ = frame;
}

void Queue::Record() {
  LaunchHeld();
  TW_CHECK(!recording_);
  launches_before_ = launches_;
  // Relaxed: scratch memory may have to grow.
  Note(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed));
  recording_ = true;
}

Recording* Queue::Recorded() {
  LaunchHeld();
  cudaGraph_t graph = nullptr;
  auto made = std::make_unique<Recording>();
  const cudaError_t captured = cudaStreamEndCapture(stream_, &graph);
  recording_ = false;
  Note(captured);
  if (captured != cudaSuccess) return nullptr;
  const cudaError_t instantiated = cudaGraphInstantiate(&made->graph, graph, 0);
  Note(instantiated);
  Note(cudaGraphDestroy(graph));
  if (instantiated != cudaSuccess) return nullptr;
  made->launches = launches_ - launches_before_;
  made->list_bytes = ListBytes();
  launches_ = launches_before_;
  recorded_ = true;
  return made.release();
}

void Queue::Replay(const Recording& recording) {
  LaunchHeld();
  TW_CHECK_EQ(recording.list_bytes, ListBytes());
  Send();
  Note(cudaGraphLaunch(recording.graph, stream_));
  launches_ += recording.launches;
}

void Queue::Upload(void* to, const void* from, int64_t bytes) {
  if (bytes <= 0) return;
  LaunchHeld();
  Frame& frame = frames_[frame_];
  const auto size = static_cast<size_t>(bytes);
  if (bytes <= kMostSmall && frame.small_used + bytes <= kSmallBytes) {
    char* copy = frame.small + frame.small_used;
    frame.small_used += bytes;
    std::memcpy(copy, from, size);
    Note(cudaMemcpyAsync(to, copy, size, cudaMemcpyHostToDevice, stream_));
    return;
  }
  Note(cudaMemcpyAsync(to, from, size, cudaMemcpyHostToDevice, plain_stream()));
  Note(cudaStreamSynchronize(stream_));
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
  LaunchHeld();
  Note(cudaGetLastError());
  Note(cudaStreamSynchronize(stream_));
  if (!recorded_) {
    for (void* memory : outgrown_) cudaFree(memory);
    outgrown_.clear();
  }
  under_way_.clear();
  waited_ = kFrames;
  frames_[frame_].small_used = 0;
  ResetLists();
  return std::exchange(error_, cudaSuccess);
}

namespace {

// One for each device, for the life of the process.
Queue& SharedQueue(int device) {
  static std::mutex mutex;
  static std::array<std::unique_ptr<Queue>, kMostDevices> shared;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Queue>& queue = shared[static_cast<size_t>(device)];
  if (queue == nullptr) queue = std::make_unique<Queue>();
  return *queue;
}

}  // namespace

Queue& QueueOf(const tensor::Stream& stream) {
  if (stream.device == nullptr) return SharedQueue(EnterOwnDevice());
  auto& queue = *static_cast<Queue*>(stream.device);
  EnterDevice(queue.device());
  return queue;
}

}  // namespace thalweg::kernels::cuda
