// The one matrix product of the reference backend.
#pragma once

#include <vector>

#include "kernels/reference/bodies.h"
#include "kernels/reference/elementary.h"

namespace thalweg::kernels::reference {

// Threads split the output rows of W: a weight row is dequantised once and meets every input row.
template <typename Store>
void MultiplyRows(const Stream& stream, const Matrix& w, const float* x, int64_t rows,
                  Store&& store) {
  if (rows == 0) return;
  constexpr int64_t kGrain = 16;
  stream.team->ParallelFor(w.rows, kGrain, [&](int64_t begin, int64_t end) {
    std::vector<float> weight(static_cast<size_t>(w.cols));
    for (int64_t o = begin; o < end; ++o) {
      DequantiseRow(w, o, weight.data());
      for (int64_t r = 0; r < rows; ++r) {
        store(r, o, static_cast<float>(Dot(x + r * w.cols, weight.data(), w.cols)));
      }
    }
  });
}

}  // namespace thalweg::kernels::reference
