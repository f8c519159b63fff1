#include "kernels/reference/multiply.h"

namespace thalweg::kernels::reference {
namespace {

void MultiplyQuantised(const float* x, const float* panel, int64_t cols, float* sums) {
  float total[kPanelRows] = {};
  for (int64_t begin = 0; begin < cols; begin += kScaleColumns) {
    float partial[kPanelRows] = {};
    for (int64_t c = begin; c < std::min(begin + kScaleColumns, cols); ++c) {
      for (int64_t i = 0; i < kPanelRows; ++i) partial[i] += x[c] * panel[c * kPanelRows + i];
    }
    for (int64_t i = 0; i < kPanelRows; ++i) total[i] += partial[i];
  }
  std::copy_n(total, kPanelRows, sums);
}

void MultiplyPlain(const float* x, const float* panel, int64_t cols, float* sums) {
  double total[kPanelRows] = {};
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t i = 0; i < kPanelRows; ++i) {
      total[i] += static_cast<double>(x[c]) * static_cast<double>(panel[c * kPanelRows + i]);
    }
  }
  for (int64_t i = 0; i < kPanelRows; ++i) sums[i] = static_cast<float>(total[i]);
}

}  // namespace

void DequantisePanel(const Matrix& w, int64_t first, std::vector<float>* panel) {
  panel->assign(static_cast<size_t>(w.cols * kPanelRows), 0.0f);
  std::vector<float> row(static_cast<size_t>(w.cols));
  for (int64_t i = 0; i < std::min(kPanelRows, w.rows - first); ++i) {
    DequantiseRow(w, first + i, row.data());
    for (int64_t c = 0; c < w.cols; ++c) {
      (*panel)[static_cast<size_t>(c * kPanelRows + i)] = row[static_cast<size_t>(c)];
    }
  }
}

void MultiplyPanel(const Matrix& w, const float* x, const std::vector<float>& panel, float* sums) {
  const bool quantised = w.format == WeightFormat::kFp8 || w.format == WeightFormat::kFp4;
  if (quantised) {
    MultiplyQuantised(x, panel.data(), w.cols, sums);
  } else {
    MultiplyPlain(x, panel.data(), w.cols, sums);
  }
}

}  // namespace thalweg::kernels::reference
