#include "tools/verify/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thalweg::tools {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double Ratio(double difference, double size) {
  if (difference == 0) return 0;
  return size == 0 ? kInfinity : difference / size;
}

// An upper bound of one quantiser step around `value`, for a group whose largest value is `top`.
// Steps of e4m3 are at most an eighth of the larger neighbour, those of e2m1 a half, but for the
// smallest step, which follows from the scale: top / 224 * 2^-9 and top / 3 * 2^-1 at most.
double StepAround(double value, double top, tensor::RowFormat format) {
  if (format == tensor::RowFormat::kFp8E8M0) return std::max(value / 8, top / 224 / 512);
  return std::max(value / 2, top / 6);
}

double GroupTop(std::span<const float> a, std::span<const float> b) {
  double top = 0;
  for (size_t i = 0; i < a.size(); ++i)
    top = Worse(top, std::max(std::fabs(double{a[i]}), std::fabs(double{b[i]})));
  return top;
}

// log(sum(exp(x))).
double LogSum(std::span<const float> x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const float value : x) sum += std::exp(value - top);
  return top + std::log(sum);
}

}  // namespace

Rows LastRows(const tensor::View& view, int64_t rows) {
  TW_CHECK(view.dtype == tensor::DType::kF32 || view.dtype == tensor::DType::kBF16);
  TW_CHECK_LE(rows, view.shape[0]);
  Rows out{.rows = rows, .width = 1, .values = {}};
  for (int i = 1; i < view.shape.rank(); ++i) out.width *= view.shape[i];
  const int64_t skip = (view.shape[0] - rows) * out.width;
  out.values.resize(static_cast<size_t>(rows * out.width));
  for (size_t i = 0; i < out.values.size(); ++i) {
    const int64_t at = skip + static_cast<int64_t>(i);
    out.values[i] = view.dtype == tensor::DType::kF32
                        ? view.as<float>()[at]
                        : tensor::ToFloat(view.as<tensor::BF16>()[at]);
  }
  return out;
}

double Worse(double a, double b) {
  if (std::isnan(a)) return a;
  return b <= a ? a : b;
}

RowErrors CompareRows(const Rows& got, const Rows& want, std::span<const uint8_t> leave_out) {
  TW_CHECK(got.rows == want.rows && got.width == want.width);
  RowErrors out;
  std::vector<double> row_errors;
  double difference = 0;
  double size = 0;
  for (int64_t r = 0; r < got.rows; ++r) {
    if (!leave_out.empty() && leave_out[static_cast<size_t>(r)] != 0) continue;
    double row_difference = 0;
    double row_size = 0;
    for (int64_t c = 0; c < got.width; ++c) {
      const double w = want.Row(r)[static_cast<size_t>(c)];
      const double d = got.Row(r)[static_cast<size_t>(c)] - w;
      row_difference += d * d;
      row_size += w * w;
      out.max_abs = Worse(out.max_abs, std::fabs(d));
    }
    row_errors.push_back(std::sqrt(Ratio(row_difference, row_size)));
    difference += row_difference;
    size += row_size;
  }
  out.relative_rms = std::sqrt(Ratio(difference, size));
  out.median_row = Median(std::move(row_errors));
  return out;
}

CacheErrors CompareCache(const Rows& got, const Rows& want, tensor::RowFormat format) {
  TW_CHECK(got.values.size() == want.values.size());
  const auto group = static_cast<size_t>(tensor::GroupSize(format));
  int64_t differing = 0;
  CacheErrors out;
  for (size_t begin = 0; begin < want.values.size(); begin += group) {
    const size_t count = std::min(group, want.values.size() - begin);
    const std::span<const float> a(got.values.data() + begin, count);
    const std::span<const float> b(want.values.data() + begin, count);
    const double top = GroupTop(a, b);
    for (size_t i = 0; i < count; ++i) {
      if (a[i] == b[i]) continue;
      ++differing;
      const double value = std::max(std::fabs(a[i]), std::fabs(b[i]));
      out.steps = Worse(out.steps, std::fabs(double{a[i]} - b[i]) / StepAround(value, top, format));
    }
  }
  out.differing = Ratio(static_cast<double>(differing), static_cast<double>(want.values.size()));
  return out;
}

LogitErrors CompareLogits(std::span<const float> got, std::span<const float> want) {
  const double got_sum = LogSum(got);
  const double want_sum = LogSum(want);
  LogitErrors out;
  for (size_t i = 0; i < want.size(); ++i) {
    const double log_p = want[i] - want_sum;
    const double p = std::exp(log_p);
    // 0 log 0 is 0; not-a-number goes through.
    if (p != 0) out.kl += p * (log_p - (got[i] - got_sum));
    out.max_abs = Worse(out.max_abs, std::fabs(double{got[i]} - want[i]));
  }
  return out;
}

int64_t ArgMax(std::span<const float> values) {
  return std::max_element(values.begin(), values.end()) - values.begin();
}

double Margin(std::span<const float> values) {
  if (values.size() < 2) return kInfinity;
  double best = -kInfinity;
  double second = -kInfinity;
  for (const float value : values) {
    second = std::max(second, std::min(best, double{value}));
    best = std::max(best, double{value});
  }
  return best - second;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  // Not-a-number has no place in an order: the median of such values is one.
  for (const double value : values) {
    if (std::isnan(value)) return value;
  }
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace thalweg::tools
