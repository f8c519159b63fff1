// Memory for what is read in every step and written once: weights. Mapped on its own, in huge pages
// where the machine allows them (the translation of addresses costs much at these sizes), spread
// page by page over the NUMA nodes, so that every core reads at the speed of all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"

namespace thalweg::tensor {

class LargeBuffer {
 public:
  LargeBuffer() = default;
  // Zero bytes, aligned to 2 MiB, not yet touched. kResourceExhausted when the system refuses.
  static Result<LargeBuffer> Allocate(int64_t bytes);

  LargeBuffer(LargeBuffer&& other) noexcept { *this = std::move(other); }
  LargeBuffer& operator=(LargeBuffer&& other) noexcept {
    std::swap(mapped_, other.mapped_);
    std::swap(mapped_bytes_, other.mapped_bytes_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  LargeBuffer(const LargeBuffer&) = delete;
  LargeBuffer& operator=(const LargeBuffer&) = delete;
  ~LargeBuffer();

  std::byte* data() { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace thalweg::tensor
