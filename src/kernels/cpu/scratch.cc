#include "kernels/cpu/scratch.h"

#include <array>

#include "tensor/buffer.h"

namespace thalweg::kernels::cpu {

void* Scratch(Slot slot, int64_t bytes) {
  thread_local std::array<tensor::Buffer, static_cast<size_t>(Slot::kCount)> buffers;
  tensor::Buffer& buffer = buffers[static_cast<size_t>(slot)];
  if (buffer.bytes() < bytes) buffer = tensor::Buffer(bytes + bytes / 4);
  return buffer.data();
}

}  // namespace thalweg::kernels::cpu
