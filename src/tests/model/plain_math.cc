#include "tests/model/plain_math.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/formats.h"

namespace thalweg::tests::plain {
namespace {

float LargestMagnitude(const float* x, int64_t n, float floor) {
  float best = floor;
  for (int64_t i = 0; i < n; ++i) best = std::max(best, std::fabs(x[i]));
  return best;
}

// The smallest power of two that is not below x.
float PowerOfTwoFor(float x) {
  int exponent = 0;
  const float mantissa = std::frexp(x, &exponent);
  return std::ldexp(1.0f, mantissa == 0.5f ? exponent - 1 : exponent);
}

// The nearest of the fp4 magnitudes; at a tie the one with an even code.
float NearestFp4(float x) {
  static constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  const float a = std::fabs(x);
  int best = 0;
  for (int code = 1; code < 8; ++code) {
    const float gain = std::fabs(a - kMagnitudes[best]) - std::fabs(a - kMagnitudes[code]);
    if (gain > 0 || (gain == 0 && code % 2 == 0)) best = code;
  }
  return std::copysign(kMagnitudes[best], x);
}

template <typename Scale, typename Value>
Table QuantiseGroups(Table x, int64_t group, const Scale& scale_of, const Value& value_of) {
  for (size_t at = 0; at < x.v.size(); at += static_cast<size_t>(group)) {
    float* values = x.v.data() + at;
    const float scale = scale_of(values);
    for (int64_t i = 0; i < group; ++i) values[i] = Bf16(value_of(values[i] / scale) * scale);
  }
  return x;
}

float ThroughE4M3(float x) { return tensor::E4M3ToFloat(tensor::FloatToE4M3(x)); }

}  // namespace

float Bf16(float x) { return tensor::RoundBF16(x); }
float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

double DotProduct(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

Table Multiply(const Table& x, const Table& w) {
  Table y(x.rows, w.rows);
  for (int64_t r = 0; r < x.rows; ++r) {
    for (int64_t o = 0; o < w.rows; ++o)
      y.row(r)[o] = static_cast<float>(DotProduct(x.row(r), w.row(o), x.cols));
  }
  return y;
}

Table MultiplyBf16(const Table& x, const Table& w) {
  Table y = Multiply(x, w);
  for (float& value : y.v) value = Bf16(value);
  return y;
}

Table RmsNorm(const Table& x, const Table& weight, float eps) {
  Table y(x.rows, x.cols);
  for (int64_t r = 0; r < x.rows; ++r) {
    const double squares = DotProduct(x.row(r), x.row(r), x.cols);
    const auto mean = static_cast<float>(squares / static_cast<double>(x.cols));
    const float inverse = 1.0f / std::sqrt(mean + eps);
    for (int64_t c = 0; c < x.cols; ++c)
      y.row(r)[c] = Bf16(weight.v[static_cast<size_t>(c)] * (x.row(r)[c] * inverse));
  }
  return y;
}

Table QuantiseFp8(Table x) {
  return QuantiseGroups(
      std::move(x), 32,
      [](const float* g) { return PowerOfTwoFor(LargestMagnitude(g, 32, 1e-4f) * (1.0f / 448)); },
      ThroughE4M3);
}

Table QuantiseFp4Power(Table x) {
  constexpr float kFloor = 6 * 0x1p-126f;
  return QuantiseGroups(
      std::move(x), 32,
      [](const float* g) { return PowerOfTwoFor(LargestMagnitude(g, 32, kFloor) * (1.0f / 6)); },
      NearestFp4);
}

Table QuantiseFp4Scale(Table x) {
  constexpr float kFloor = 6 * 0x1p-9f;
  return QuantiseGroups(
      std::move(x), 16,
      [](const float* g) { return ThroughE4M3(LargestMagnitude(g, 16, kFloor) / 6); }, NearestFp4);
}

void Rotate(float* x, int64_t width, int64_t position, const std::vector<float>& frequencies,
            bool inverse) {
  float* tail = x + width - 2 * static_cast<int64_t>(frequencies.size());
  for (size_t p = 0; p < frequencies.size(); ++p) {
    const float angle = static_cast<float>(position) * frequencies[p];
    const float cos = std::cos(angle);
    const float sin = inverse ? -std::sin(angle) : std::sin(angle);
    const float a = tail[2 * p];
    const float b = tail[2 * p + 1];
    tail[2 * p] = Bf16(a * cos - b * sin);
    tail[2 * p + 1] = Bf16(a * sin + b * cos);
  }
}

std::vector<int64_t> Best(const std::vector<float>& score, int64_t count) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < score.size(); ++i) {
    if (score[i] > -std::numeric_limits<float>::infinity())
      order.push_back(static_cast<int64_t>(i));
  }
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) {
    return score[static_cast<size_t>(a)] > score[static_cast<size_t>(b)];
  });
  if (static_cast<int64_t>(order.size()) > count) order.resize(static_cast<size_t>(count));
  std::ranges::sort(order);
  return order;
}

}  // namespace thalweg::tests::plain
