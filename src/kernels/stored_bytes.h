// Bytes of a matrix in its stored form (spec/model.md 3.3).
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/weights.h"

namespace thalweg::kernels {

// Of the values or codes of [rows, cols].
constexpr int64_t CodeBytes(WeightFormat format, int64_t rows, int64_t cols) {
  switch (format) {
    case WeightFormat::kBF16: return rows * cols * 2;
    case WeightFormat::kF32: return rows * cols * 4;
    case WeightFormat::kFp8: return rows * cols;
    case WeightFormat::kFp4: return rows * cols / 2;
  }
  return 0;
}

// Of the scales beside them, one byte each; 0 for formats without. cols is a multiple of 32.
constexpr int64_t ScaleBytes(WeightFormat format, int64_t rows, int64_t cols) {
  if (format == WeightFormat::kFp8) return base::CeilDiv<int64_t>(rows, 32) * (cols / 32);
  return format == WeightFormat::kFp4 ? rows * (cols / 32) : 0;
}

inline int64_t CodeBytes(const Matrix& m) { return CodeBytes(m.format, m.rows, m.cols); }
inline int64_t ScaleBytes(const Matrix& m) { return ScaleBytes(m.format, m.rows, m.cols); }

}  // namespace thalweg::kernels
