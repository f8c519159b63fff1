// Where the tensors of a backend live: the host's memory or a device's, and how bytes move. A table
// of functions, as a backend's ops are; no device header leaks out.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "tensor/stream.h"

namespace thalweg::tensor {

inline constexpr int64_t kAlignBytes = 64;

// Steps of a device that runs beside the host. A step is what a queue is given between begin and
// end; a few may be under way.
struct StepQueue {
  // Waits until a place for one more step's lists is free.
  void (*begin)(const Stream& stream) = nullptr;
  // `bytes` of host memory as the ops of this step read them; the host's may be reused at once.
  // The n-th list of a step lies where the n-th of any other step does, if all before take as much.
  const void* (*list)(const Stream& stream, const void* host, int64_t bytes) = nullptr;
  // Waits for nothing: what was queued until here is this step.
  void (*end)(const Stream& stream) = nullptr;
  // Whether the oldest step that was not waited for is done; waits for it. Its error is the answer
  // (kInternal).
  bool (*done)(const Stream& stream) = nullptr;
  Status (*wait)(const Stream& stream) = nullptr;

  // Between `record` and `recorded` ops are noted and not run. `replay` runs them with the lists of
  // the step under way, which must take as much as those that were noted.
  void (*record)(const Stream& stream) = nullptr;
  void* (*recorded)(const Stream& stream) = nullptr;  // null: an error of the queue
  void (*replay)(const Stream& stream, void* recording) = nullptr;
  void (*forget)(void* recording) = nullptr;

  // Memory of the host that a device writes, and the writing: done when the step is.
  void* (*allocate_pinned)(int64_t bytes) = nullptr;  // null when there is none left
  void (*release_pinned)(void* memory) = nullptr;
  void (*download)(const Stream& stream, void* pinned, const void* from, int64_t bytes) = nullptr;
};

struct Memory {
  std::string_view name;
  // true: the host reads and writes it through plain pointers.
  bool host = true;
  // Cleared bytes, aligned to kAlignBytes; null when there are none left.
  void* (*allocate)(int64_t bytes) = nullptr;
  void (*release)(void* memory) = nullptr;
  // Bytes that are free; negative: not known.
  int64_t (*free_bytes)() = nullptr;

  // In the order of the stream's ops. upload: `from` is host memory, free for other use when it
  // returns. download: waits until the bytes are there. copy: both are this memory.
  void (*upload)(const Stream& stream, void* to, const void* from, int64_t bytes) = nullptr;
  void (*download)(const Stream& stream, void* to, const void* from, int64_t bytes) = nullptr;
  void (*copy)(const Stream& stream, void* to, const void* from, int64_t bytes) = nullptr;

  // A queue for Stream::device, and its end; null for the host.
  void* (*open_queue)() = nullptr;
  void (*close_queue)(void* queue) = nullptr;
  // Waits until every op of the stream is done; what ops were given in host memory may be reused.
  // An error of the device since the last call is the answer (kInternal): what the ops wrote is
  // lost.
  Status (*synchronize)(const Stream& stream) = nullptr;

  const StepQueue* steps = nullptr;  // null: ops are done when they return
};

const Memory& HostMemory();

}  // namespace thalweg::tensor
