// The figures that checks are made of: how far two tensors, caches or distributions are apart.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/row_format.h"
#include "tensor/view.h"

namespace thalweg::tools {

// A matrix of floats.
struct Rows {
  int64_t rows = 0;
  int64_t width = 0;
  std::vector<float> values;  // [rows, width]

  std::span<const float> Row(int64_t r) const {
    return {values.data() + r * width, static_cast<size_t>(width)};
  }
};

// The last `rows` rows (of the first dimension) of an F32 or BF16 view; the other dimensions make
// the width.
Rows LastRows(const tensor::View& view, int64_t rows);

// The larger of two figures; not-a-number counts as the largest.
double Worse(double a, double b);

struct RowErrors {
  double relative_rms = 0;  // of everything
  double median_row = 0;    // median over rows of the relative RMS of the row
  double max_abs = 0;
};
// Rows with leave_out[r] != 0 are not counted; empty: all are.
RowErrors CompareRows(const Rows& got, const Rows& want, std::span<const uint8_t> leave_out = {});

// Cache rows as readers see them: the share of elements that differ, and the largest difference in
// steps of the quantiser (spec/model.md 5.2, 5.3).
struct CacheErrors {
  double differing = 0;
  double steps = 0;
};
CacheErrors CompareCache(const Rows& got, const Rows& want, tensor::RowFormat format);

struct LogitErrors {
  double kl = 0;  // of our distribution from the stored one, in nats
  double max_abs = 0;
};
LogitErrors CompareLogits(std::span<const float> got, std::span<const float> want);

int64_t ArgMax(std::span<const float> values);
// Largest minus second largest.
double Margin(std::span<const float> values);
// The middle value (the mean of the two middle ones); 0 for none.
double Median(std::vector<double> values);

}  // namespace thalweg::tools
