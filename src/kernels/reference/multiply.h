// The one matrix product of the reference backend.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/reference/bodies.h"
#include "kernels/reference/elementary.h"

namespace thalweg::kernels::reference {

inline constexpr int64_t kPanelRows = 8;      // weight rows that are multiplied side by side
inline constexpr int64_t kScaleColumns = 32;  // columns that share a scale

// kPanelRows rows of W from `first`, dequantised, interleaved by column: panel[column][row]. Rows
// past the end are zero.
void DequantisePanel(const Matrix& w, int64_t first, std::vector<float>* panel);

// One input row against a panel: sums[kPanelRows]. Quantised matrices add up as the published
// reference does: fp32 over the 32 columns of a scale in order, then these partial sums in order.
// Plain matrices sum in double.
void MultiplyPanel(const Matrix& w, const float* x, const std::vector<float>& panel, float* sums);

// y = W x for `rows` rows of floats; the fp32 results are handed to store(row, out index, value).
// Threads split the output rows of W: a weight row is dequantised once and meets every input row.
template <typename Store>
void MultiplyRows(const Stream& stream, const Matrix& w, const float* x, int64_t rows,
                  Store&& store) {
  if (rows == 0) return;
  const int64_t panels = (w.rows + kPanelRows - 1) / kPanelRows;
  stream.team->ParallelFor(panels, 2, [&](int64_t begin, int64_t end) {
    std::vector<float> panel;
    float sums[kPanelRows];
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPanelRows;
      DequantisePanel(w, first, &panel);
      for (int64_t r = 0; r < rows; ++r) {
        MultiplyPanel(w, x + r * w.cols, panel, sums);
        for (int64_t i = 0; i < std::min(kPanelRows, w.rows - first); ++i) {
          store(r, first + i, sums[i]);
        }
      }
    }
  });
}

}  // namespace thalweg::kernels::reference
