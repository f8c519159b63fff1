// The queue of a CUDA stream: kernels run in its order. Lists that the host makes for a step are
// copied to the device in that order too; steps overlap the host, and may be recorded as a graph;
// and the scratch memory of ops.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

// What was noted between Record and Recorded.
struct Recording {
  cudaGraphExec_t graph = nullptr;
  int64_t launches = 0;
  int64_t list_bytes = 0;  // of its step
};

struct HeldJobs;

class Queue {
 public:
  Queue();
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  // The device that it was opened on.
  int device() const { return device_; }

  // For the launch of a kernel, once each: lists made before are on their way ahead of it.
  cudaStream_t stream();
  // For copies and events: no kernel is counted.
  cudaStream_t plain_stream();
  // Work that is held back until another kernel is launched (row_jobs.h).
  HeldJobs& held() { return *held_; }
  void LaunchHeld();
  // A counter on the device, zero where no kernel uses it.
  unsigned* readers() const { return readers_; }
  // While `keep` is set, and what is held stands apart from products, it stays held.
  void KeepHeld(bool keep) { keeps_held_ = keep; }
  // Kernels that were launched so far, those of graphs too.
  int64_t launches() const { return launches_; }
  // Of steps that Wait was called for.
  StepSeconds step_seconds() const { return seconds_; }

  // A list of `count` values of host memory as kernels of the step under way read it; the host's
  // may be reused at once. What is such a list already is the answer. Null for null; null, and an
  // error of the queue, when no memory is left. While a recording is made all lists are there: an
  // op has none of its own then.
  template <typename T>
  const T* Stage(const T* host, int64_t count) {
    return static_cast<const T*>(
        StageBytes(host, count * static_cast<int64_t>(sizeof(T)), recording_));
  }
  // The same for what comes from the model: it may be made while a recording is.
  const void* List(const void* host, int64_t bytes) { return StageBytes(host, bytes, false); }
  // The host's copy of a list of the step under way; what is none is the answer.
  template <typename T>
  const T* OnHost(const T* list) const {
    return static_cast<const T*>(HostBytes(list));
  }

  // A step: its lists have a place of their own until it is done. Begin waits for one to be free.
  void BeginStep();
  void EndStep();
  // Whether the oldest step that was not waited for is done, and waiting for it.
  bool Done();
  cudaError_t Wait();

  // From Record to Recorded kernels are noted and not run. Null is an error of the queue.
  void Record();
  Recording* Recorded();
  bool recording() const { return recording_; }
  // With the lists of the step under way, which must take as much as those of the recording did.
  void Replay(const Recording& recording);

  // A copy to the device whose source may be reused when it returns. Small ones wait for nothing.
  void Upload(void* to, const void* from, int64_t bytes);

  // Device memory of one op, 256-byte aligned: the next op gets the same place, which the order of
  // the queue allows. One call of each slot in an op: kOpSlot is the op's, kProductSlot belongs to
  // Product (bodies.h), which other ops call. Null, and an error of the queue, when no memory is
  // left: the op returns then.
  static constexpr size_t kOpSlot = 0, kProductSlot = 1, kHeldSlot = 2, kSlots = 3;
  void* Scratch(int64_t bytes, size_t slot = kOpSlot);

  // Keeps the first error until Wait or Synchronize; cudaSuccess is none.
  void Note(cudaError_t error);
  // Waits for everything, and lets go of the lists. The first error since the last call.
  cudaError_t Synchronize();

 private:
  // Steps whose lists live at a time: more than may be under way, see BeginStep.
  static constexpr size_t kFrames = 8;
  struct Chunk {  // lists on the device, and what they are made from in pinned memory
    std::array<char*, kFrames> host = {};
    char* device = nullptr;
    int64_t bytes = 0;
    int64_t used = 0, sent = 0;  // of the step under way
  };
  struct Frame {
    cudaEvent_t begun = nullptr, ended = nullptr;
    bool begins = false;  // nothing of its step was sent yet
    bool used = false;
    char* small = nullptr;  // pinned: what Upload copies
    int64_t small_used = 0;
  };
  struct Area {
    void* memory = nullptr;
    int64_t bytes = 0;
  };
  const void* StageBytes(const void* host, int64_t bytes, bool refused);
  const void* HostBytes(const void* list) const;
  const Chunk* ChunkOf(const void* list) const;
  bool Reach(int64_t bytes);
  bool AddChunk(int64_t bytes);
  void Send();
  void NoteSeconds(size_t frame);
  void ResetLists();
  int64_t ListBytes() const;

  const int device_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<HeldJobs> held_;
  bool keeps_held_ = false;
  unsigned* readers_ = nullptr;
  int64_t launches_ = 0;
  std::vector<Chunk> chunks_;
  std::array<Frame, kFrames> frames_;
  size_t frame_ = 0;              // of the step under way
  size_t chunk_ = 0;              // the one being filled
  std::deque<size_t> under_way_;  // frames of steps that ended and were not waited for
  bool recording_ = false;
  int64_t launches_before_ = 0;  // the recording
  StepSeconds seconds_;
  size_t waited_ = kFrames;  // the frame of the step that was waited for last; kFrames: none
  bool recorded_ = false;    // some graph uses the scratch memory
  std::array<Area, kSlots> scratch_;
  std::vector<void*> outgrown_;  // scratch that kernels under way, or graphs, may still use
  cudaError_t error_ = cudaSuccess;
};

// The life of one: products of an op that has nothing to do with what stands apart (HeldJobs).
class BesideHeld {
 public:
  explicit BesideHeld(Queue* queue) : queue_(*queue) { queue_.KeepHeld(true); }
  ~BesideHeld() { queue_.KeepHeld(false); }
  BesideHeld(const BesideHeld&) = delete;
  BesideHeld& operator=(const BesideHeld&) = delete;

 private:
  Queue& queue_;
};

// The queue of a stream: its own, or one that all streams without a queue share on this thread's
// device. The thread is on the queue's device then.
Queue& QueueOf(const tensor::Stream& stream);

}  // namespace thalweg::kernels::cuda
