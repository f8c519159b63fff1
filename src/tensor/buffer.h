// Owned memory: a cache-line aligned Buffer, and an Arena for the transients of one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/check.h"
#include "base/math.h"
#include "tensor/memory.h"

namespace thalweg::tensor {

struct BufferRelease {
  const Memory* memory = nullptr;
  void operator()(std::byte* p) const { memory->release(p); }
};

// Zero-initialised, aligned, movable memory: the host's, or a device's, whose bytes the host must
// not touch.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(int64_t bytes) : Buffer(bytes, HostMemory()) {}
  // Running out of memory is a programmer error: memory is planned before it is taken.
  Buffer(int64_t bytes, const Memory& memory);

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  int64_t bytes() const { return bytes_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  std::unique_ptr<std::byte[], BufferRelease> data_;
  int64_t bytes_ = 0;
};

// A bump allocator over one buffer of fixed capacity. Memory is not cleared. Overflow is a
// programmer error: the memory plan sizes the arena for the largest step.
class Arena {
 public:
  Arena() = default;
  explicit Arena(int64_t bytes) : buffer_(bytes) {}
  Arena(int64_t bytes, const Memory& memory) : buffer_(bytes, memory) {}

  template <typename T>
  T* Take(int64_t count) {
    const int64_t begin = base::RoundUp(used_, kAlignBytes);
    used_ = begin + count * static_cast<int64_t>(sizeof(T));
    TW_CHECK_LE(used_, buffer_.bytes());
    peak_ = used_ > peak_ ? used_ : peak_;
    return reinterpret_cast<T*>(buffer_.data() + begin);
  }

  int64_t Mark() const { return used_; }
  // Gives back everything taken after `mark`.
  void Release(int64_t mark) { used_ = mark; }
  int64_t peak_bytes() const { return peak_; }
  int64_t capacity_bytes() const { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

}  // namespace thalweg::tensor
