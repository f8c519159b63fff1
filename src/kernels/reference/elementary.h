// Small functions that the reference bodies share. Sums run in double over eight fixed lanes, so a
// sum's bits depend on its length alone and are close to the correctly rounded result.
#pragma once

#include <cstdint>

#include "kernels/ops.h"
#include "tensor/formats.h"

namespace thalweg::kernels::reference {

// sum_i a[i] * b[i].
double Dot(const float* a, const float* b, int64_t n);
// sum_i x[i]^2 of bf16 values.
double SumOfSquares(const BF16* x, int64_t n);
double SumOfSquares(const float* x, int64_t n);

// out[i] = float(x[i]).
void Widen(const BF16* x, int64_t n, float* out);

// RMSNorm_w(x) = bf16(w * (x * rsqrt(mean(x^2) + eps))), w used as stored (model.md 2).
void RmsNorm(const BF16* x, const BF16* weight, int64_t n, float eps, BF16* out);

// Rotates the last rope_dim values of a vector in place, adjacent pairs as complex numbers;
// `inverse` conjugates. One rounding at the end (model.md 2.4, trap 20).
void Rotate(BF16* x, int64_t width, const float* cos, const float* sin, int64_t rope_dim,
            bool inverse);

float Sigmoid(float x);

// One row of a matrix in any stored format, dequantised: out[cols].
void DequantiseRow(const Matrix& w, int64_t row, float* out);

}  // namespace thalweg::kernels::reference
