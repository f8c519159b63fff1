#include "kernels/reference/elementary.h"

#include <cmath>

namespace thalweg::kernels::reference {
namespace {

constexpr int64_t kLanes = 8;

double Combine(const double* lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

void DequantiseFp8(const Matrix& w, int64_t row, float* out) {
  const auto* codes = static_cast<const uint8_t*>(w.data) + row * w.cols;
  const uint8_t* scales = w.scales + (row / 32) * ((w.cols + 31) / 32);
  for (int64_t c = 0; c < w.cols; ++c) {
    out[c] = tensor::E4M3ToFloat(codes[c]) * tensor::E8M0ToFloat(scales[c / 32]);
  }
}

void DequantiseFp4(const Matrix& w, int64_t row, float* out) {
  const auto* codes = static_cast<const uint8_t*>(w.data) + row * (w.cols / 2);
  const uint8_t* scales = w.scales + row * (w.cols / 32);
  for (int64_t c = 0; c < w.cols; ++c) {
    const auto code = static_cast<uint8_t>(c % 2 == 0 ? codes[c / 2] & 15u : codes[c / 2] >> 4);
    out[c] = tensor::E2M1ToFloat(code) * tensor::E8M0ToFloat(scales[c / 32]);
  }
}

}  // namespace

double Dot(const float* a, const float* b, int64_t n) {
  double lane[kLanes] = {};
  const int64_t whole = n - n % kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      lane[j] += static_cast<double>(a[i + j]) * static_cast<double>(b[i + j]);
    }
  }
  for (int64_t i = whole; i < n; ++i)
    lane[i - whole] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return Combine(lane);
}

double SumOfSquares(const float* x, int64_t n) { return Dot(x, x, n); }

double SumOfSquares(const BF16* x, int64_t n) {
  double lane[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) {
    const double value = ToFloat(x[i]);
    lane[i % kLanes] += value * value;
  }
  return Combine(lane);
}

void Widen(const BF16* x, int64_t n, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ToFloat(x[i]);
}

void RmsNorm(const BF16* x, const BF16* weight, int64_t n, float eps, BF16* out) {
  const auto mean = static_cast<float>(SumOfSquares(x, n) / static_cast<double>(n));
  const float inverse = 1.0f / std::sqrt(mean + eps);
  for (int64_t i = 0; i < n; ++i)
    out[i] = tensor::ToBF16(ToFloat(weight[i]) * (ToFloat(x[i]) * inverse));
}

void Rotate(BF16* x, int64_t width, const float* cos, const float* sin, int64_t rope_dim,
            bool inverse) {
  BF16* tail = x + width - rope_dim;
  for (int64_t p = 0; p < rope_dim / 2; ++p) {
    const float re = ToFloat(tail[2 * p]);
    const float im = ToFloat(tail[2 * p + 1]);
    const float s = inverse ? -sin[p] : sin[p];
    tail[2 * p] = tensor::ToBF16(re * cos[p] - im * s);
    tail[2 * p + 1] = tensor::ToBF16(re * s + im * cos[p]);
  }
}

float Sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

void DequantiseRow(const Matrix& w, int64_t row, float* out) {
  switch (w.format) {
    case WeightFormat::kBF16:
      Widen(static_cast<const BF16*>(w.data) + row * w.cols, w.cols, out);
      break;
    case WeightFormat::kF32: {
      const float* source = static_cast<const float*>(w.data) + row * w.cols;
      for (int64_t c = 0; c < w.cols; ++c) out[c] = source[c];
      break;
    }
    case WeightFormat::kFp8: DequantiseFp8(w, row, out); break;
    case WeightFormat::kFp4: DequantiseFp4(w, row, out); break;
  }
}

}  // namespace thalweg::kernels::reference
