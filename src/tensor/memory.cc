#include "tensor/memory.h"

#include <cstring>
#include <new>

#include "base/machine.h"

namespace thalweg::tensor {
namespace {

void* Allocate(int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  void* memory = ::operator new (size, std::align_val_t{kAlignBytes});
  std::memset(memory, 0, size);
  return memory;
}

void Release(void* memory) { ::operator delete (memory, std::align_val_t{kAlignBytes}); }

void Move(const Stream& /*stream*/, void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
}

int64_t FreeBytes() { return base::FreeMemoryBytes(); }
void* NoQueue() { return nullptr; }
void CloseNothing(void* /*queue*/) {}
Status AlreadyDone(const Stream& /*stream*/) { return {}; }

}  // namespace

const Memory& HostMemory() {
  static const Memory memory{.name = "host",
                             .host = true,
                             .allocate = Allocate,
                             .release = Release,
                             .free_bytes = FreeBytes,
                             .upload = Move,
                             .download = Move,
                             .copy = Move,
                             .open_queue = NoQueue,
                             .close_queue = CloseNothing,
                             .synchronize = AlreadyDone};
  return memory;
}

}  // namespace thalweg::tensor
