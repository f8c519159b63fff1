#include "tensor/buffer.h"

namespace thalweg::tensor {

Buffer::Buffer(int64_t bytes, const Memory& memory) : bytes_(bytes) {
  TW_CHECK_GE(bytes, 0);
  if (bytes == 0) return;
  auto* taken = static_cast<std::byte*>(memory.allocate(bytes));
  TW_CHECK(taken != nullptr);
  data_ = {taken, BufferRelease{&memory}};
}

}  // namespace thalweg::tensor
