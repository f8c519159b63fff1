// Typed, shaped views of memory that somebody else owns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/check.h"
#include "tensor/dtype.h"

namespace thalweg::tensor {

// Dimensions, outermost first; at most kMaxRank.
class Shape {
 public:
  static constexpr int kMaxRank = 8;
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims)
      : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims) : rank_(static_cast<int>(dims.size())) {
    TW_CHECK_LE(rank_, kMaxRank);
    for (int i = 0; i < rank_; ++i) dims_[static_cast<size_t>(i)] = dims[static_cast<size_t>(i)];
  }

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return dims_[static_cast<size_t>(i)]; }
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  // Product of the dimensions; 1 for rank 0. Shapes from files are checked for overflow before they
  // get here.
  int64_t elements() const;
  std::string ToString() const;  // "[2304, 5120]"
  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.dims_ == b.dims_;
  }

 private:
  int rank_ = 0;
  std::array<int64_t, kMaxRank> dims_ = {};
};

// A dense row-major tensor in memory owned elsewhere.
struct View {
  DType dtype = DType::kF32;
  Shape shape;
  const std::byte* data = nullptr;

  int64_t bytes() const { return shape.elements() * SizeOf(dtype); }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
};

// The same, writable.
struct MutableView {
  DType dtype = DType::kF32;
  Shape shape;
  std::byte* data = nullptr;

  int64_t bytes() const { return shape.elements() * SizeOf(dtype); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data);
  }
  operator View() const { return {dtype, shape, data}; }  // NOLINT: implicit on purpose
};

}  // namespace thalweg::tensor
