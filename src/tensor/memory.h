// Where the tensors of a backend live: the host's memory or a device's, and how bytes move. A table
// of functions, as a backend's ops are; no device header leaks out.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "tensor/stream.h"

namespace thalweg::tensor {

inline constexpr int64_t kAlignBytes = 64;

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
};

const Memory& HostMemory();

}  // namespace thalweg::tensor
