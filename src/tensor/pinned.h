// Memory of the host that a device reads and writes.
#pragma once

#include <cstdint>
#include <memory>

#include "base/check.h"
#include "tensor/memory.h"

namespace thalweg::tensor {

struct PinnedRelease {
  const StepQueue* steps = nullptr;
  void operator()(void* p) const { steps->release_pinned(p); }
};
using Pinned = std::unique_ptr<void, PinnedRelease>;

// Running out of memory is a programmer error: memory is planned before it is taken.
inline Pinned TakePinned(const StepQueue& steps, int64_t bytes) {
  Pinned taken(steps.allocate_pinned(bytes), PinnedRelease{&steps});
  TW_CHECK(taken != nullptr);
  return taken;
}

}  // namespace thalweg::tensor
