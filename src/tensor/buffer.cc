#include "tensor/buffer.h"

#include <cstring>
#include <new>

namespace thalweg::tensor {

Buffer::Buffer(int64_t bytes) : bytes_(bytes) {
  TW_CHECK_GE(bytes, 0);
  if (bytes == 0) return;
  auto* memory = static_cast<std::byte*>(
      ::operator new (static_cast<size_t>(bytes), std::align_val_t{kAlignBytes}));
  std::memset(memory, 0, static_cast<size_t>(bytes));
  data_.reset(memory);
}

void Buffer::Free::operator()(std::byte* p) const {
  ::operator delete (p, std::align_val_t{kAlignBytes});
}

}  // namespace thalweg::tensor
