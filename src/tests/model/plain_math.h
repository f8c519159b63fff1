// Arithmetic of the independent forward: dense tables of floats, every sum in double, roundings
// where spec/model.md names them. Nothing here is shared with a backend; only the one-value number
// formats are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace thalweg::tests::plain {

// [rows, cols], row-major.
struct Table {
  Table() = default;
  Table(int64_t r, int64_t c) : rows(r), cols(c), v(static_cast<size_t>(r * c), 0.0f) {}
  float* row(int64_t r) { return v.data() + r * cols; }
  const float* row(int64_t r) const { return v.data() + r * cols; }

  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> v;
};

float Bf16(float x);
float Sigmoid(float x);
double DotProduct(const float* a, const float* b, int64_t n);

// x W^T in fp32, and the same rounded to bf16.
Table Multiply(const Table& x, const Table& w);
Table MultiplyBf16(const Table& x, const Table& w);

Table RmsNorm(const Table& x, const Table& weight, float eps);

// Quantise and dequantise (spec/model.md 5.2, 5.3).
Table QuantiseFp8(Table x);       // e4m3, a power of two per 32: activations and window rows
Table QuantiseFp4Power(Table x);  // e2m1, a power of two per 32: index queries and keys
Table QuantiseFp4Scale(Table x);  // e2m1, an e4m3 scale per 16: compressed rows

// Rotates the last 2 * frequencies.size() values of `x` at a position.
void Rotate(float* x, int64_t width, int64_t position, const std::vector<float>& frequencies,
            bool inverse);

// The `count` best entries that are not -inf, ties to the lowest, ascending.
std::vector<int64_t> Best(const std::vector<float>& score, int64_t count);

}  // namespace thalweg::tests::plain
