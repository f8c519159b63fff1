// A vector that grows without moving what is in it, and so without pauses.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace thalweg::grammar {

template <typename T>
class Chunks {
 public:
  T& operator[](size_t index) { return (*chunks_[index / kChunk])[index % kChunk]; }
  const T& operator[](size_t index) const { return (*chunks_[index / kChunk])[index % kChunk]; }
  size_t size() const { return size_; }
  size_t bytes() const { return chunks_.size() * kChunk * sizeof(T); }
  void Add() {
    if (size_ % kChunk == 0) chunks_.push_back(std::make_unique<std::array<T, kChunk>>());
    ++size_;
  }

 private:
  static constexpr size_t kChunk = 256;
  std::vector<std::unique_ptr<std::array<T, kChunk>>> chunks_;
  size_t size_ = 0;
};

}  // namespace thalweg::grammar
