// How a row of a cache or an activation is stored: the quantisers of spec/model.md 5.2 and 5.3 and
// their inverses.
#pragma once

#include <cstdint>
#include <string_view>

#include "tensor/formats.h"

namespace thalweg::tensor {

enum class RowFormat {
  kBF16,     // 2 B a value, nothing lost
  kFp8E8M0,  // e4m3, one power-of-two scale per 32: activations, window KV (528 B for 512 values)
  kFp4E8M0,  // e2m1, one power-of-two scale per 32: index keys and queries (68 B for 128 values)
  kFp4E4M3,  // e2m1, one e4m3 scale per 16: main compressed KV (288 B for 512 values)
};

std::string_view RowFormatName(RowFormat format);

// Values that share a scale; a row's width must be a multiple of it. 1 for kBF16.
constexpr int64_t GroupSize(RowFormat format) {
  switch (format) {
    case RowFormat::kBF16: return 1;
    case RowFormat::kFp4E4M3: return 16;
    default: return 32;
  }
}

// Bytes of a row of `width` values: codes first, then the scales.
constexpr int64_t RowBytes(RowFormat format, int64_t width) {
  switch (format) {
    case RowFormat::kBF16: return width * 2;
    case RowFormat::kFp8E8M0: return width + width / 32;
    case RowFormat::kFp4E8M0: return width / 2 + width / 32;
    case RowFormat::kFp4E4M3: return width / 2 + width / 16;
  }
  return 0;
}

// Quantises one row of `width` bf16 values into RowBytes(format, width) bytes.
void EncodeRow(RowFormat format, const BF16* row, int64_t width, uint8_t* out);
// The values of an encoded row, exact, as floats.
void DecodeRow(RowFormat format, const uint8_t* row, int64_t width, float* out);
// Quantise and dequantise: what a reader of the encoded row sees. `out` may be `row`.
void RoundTripRow(RowFormat format, const BF16* row, int64_t width, BF16* out);

}  // namespace thalweg::tensor
