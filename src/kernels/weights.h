// Weight matrices in their stored formats (spec/model.md 3.3).
#pragma once

#include <cstdint>

namespace thalweg::kernels {

enum class WeightFormat {
  kBF16,  // plain
  kF32,   // plain
  kFp8,   // e4m3, one e8m0 scale per 32x32 tile: scales [ceil(rows/32), cols/32]
  kFp4,   // e2m1 packed two a byte (even column in the low nibble), one e8m0 scale per row and 32
          // columns
};

// What a matrix is multiplied with: kFp8 and kFp4 weights meet what the FP8 quantiser has left
// (spec/model.md 5.1), which a backend may take as codes and scales again, unless it is kPlain.
enum class Inputs : int64_t { kQuantised, kPlain };

// W [rows, cols], row-major: y = W x maps cols inputs to rows outputs.
struct Matrix {
  WeightFormat format = WeightFormat::kBF16;
  const void* data = nullptr;
  const uint8_t* scales = nullptr;  // kFp8: [ceil(rows/32), cols/32]; kFp4: [rows, cols/32]
  int64_t rows = 0;
  int64_t cols = 0;
  // The same weights in the layout that Ops::pack of one backend made; null: stored form only.
  const void* packed = nullptr;
  Inputs inputs = Inputs::kQuantised;  // Ops::pack chooses by it
};

// A gated feed-forward network: w1 (gate) and w3 (up) [inner, hidden], w2 (down) [hidden, inner].
struct FeedForward {
  Matrix w1;
  Matrix w3;
  Matrix w2;
};

}  // namespace thalweg::kernels
