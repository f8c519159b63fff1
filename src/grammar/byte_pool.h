// Memory for small things that are given back all at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace thalweg::grammar {

// What is in it does not move, and is not destroyed.
class BytePool {
 public:
  // Aligned to 8.
  void* Allocate(size_t bytes) {
    bytes = (bytes + 7) & ~size_t{7};
    if (bytes > left_) Refill(bytes);
    left_ -= bytes;
    return std::exchange(free_, free_ + bytes);
  }
  // Of trivial values.
  template <typename T>
  std::span<T> Copy(std::span<const T> values) {
    T* copy = static_cast<T*>(Allocate(values.size_bytes()));
    std::copy(values.begin(), values.end(), copy);
    return {copy, values.size()};
  }
  int64_t bytes() const { return bytes_; }

 private:
  static constexpr size_t kBlock = size_t{1} << 15;

  void Refill(size_t bytes) {
    left_ = std::max(bytes, kBlock);
    blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(left_));
    free_ = blocks_.back().get();
    bytes_ += static_cast<int64_t>(left_);
  }

  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* free_ = nullptr;
  size_t left_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace thalweg::grammar
