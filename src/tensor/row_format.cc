#include "tensor/row_format.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace thalweg::tensor {
namespace {

constexpr float kInverse448 = 1.0f / 448.0f;
constexpr float kInverse6 = 1.0f / 6.0f;
constexpr float kFp8Floor = 1e-4f;
constexpr float kFp4E8M0Floor = 6 * 0x1p-126f;
constexpr float kFp4E4M3Floor = 6 * 0x1p-9f;

float AbsMax(const BF16* x, int64_t n) {
  float best = 0;
  for (int64_t i = 0; i < n; ++i) best = std::max(best, std::fabs(ToFloat(x[i])));
  return best;
}

void EncodeFp8(const BF16* row, int64_t width, uint8_t* out) {
  uint8_t* scales = out + width;
  for (int64_t g = 0; g < width / 32; ++g) {
    const BF16* x = row + g * 32;
    const uint8_t code = E8M0CeilCode(std::max(AbsMax(x, 32), kFp8Floor) * kInverse448);
    const float scale = E8M0ToFloat(code);
    scales[g] = code;
    for (int64_t i = 0; i < 32; ++i) out[g * 32 + i] = FloatToE4M3(ToFloat(x[i]) / scale);
  }
}

// Two values a byte, the even one in the low nibble.
void PackFp4(const BF16* x, int64_t n, float scale, uint8_t* out) {
  for (int64_t i = 0; i < n; i += 2) {
    const uint8_t low = FloatToE2M1(ToFloat(x[i]) / scale);
    const uint8_t high = FloatToE2M1(ToFloat(x[i + 1]) / scale);
    out[i / 2] = static_cast<uint8_t>(low | (high << 4));
  }
}

void EncodeFp4E8M0(const BF16* row, int64_t width, uint8_t* out) {
  uint8_t* scales = out + width / 2;
  for (int64_t g = 0; g < width / 32; ++g) {
    const BF16* x = row + g * 32;
    // The smallest normal scale is 2^-126: code 1.
    const uint8_t code =
        std::max<uint8_t>(1, E8M0CeilCode(std::max(AbsMax(x, 32), kFp4E8M0Floor) * kInverse6));
    scales[g] = code;
    PackFp4(x, 32, E8M0ToFloat(code), out + g * 16);
  }
}

void EncodeFp4E4M3(const BF16* row, int64_t width, uint8_t* out) {
  uint8_t* scales = out + width / 2;
  for (int64_t g = 0; g < width / 16; ++g) {
    const BF16* x = row + g * 16;
    const uint8_t code = FloatToE4M3(std::max(AbsMax(x, 16), kFp4E4M3Floor) / 6.0f);
    scales[g] = code;
    PackFp4(x, 16, E4M3ToFloat(code), out + g * 8);
  }
}

void DecodeFp4(const uint8_t* codes, int64_t n, float scale, float* out) {
  for (int64_t i = 0; i < n; i += 2) {
    out[i] = E2M1ToFloat(codes[i / 2] & 15u) * scale;
    out[i + 1] = E2M1ToFloat(static_cast<uint8_t>(codes[i / 2] >> 4)) * scale;
  }
}

}  // namespace

std::string_view RowFormatName(RowFormat format) {
  switch (format) {
    case RowFormat::kBF16: return "bf16";
    case RowFormat::kFp8E8M0: return "fp8 e4m3, e8m0 per 32";
    case RowFormat::kFp4E8M0: return "fp4 e2m1, e8m0 per 32";
    case RowFormat::kFp4E4M3: return "fp4 e2m1, e4m3 per 16";
  }
  return "?";
}

void EncodeRow(RowFormat format, const BF16* row, int64_t width, uint8_t* out) {
  switch (format) {
    case RowFormat::kBF16: std::memcpy(out, row, static_cast<size_t>(width) * sizeof(BF16)); break;
    case RowFormat::kFp8E8M0: EncodeFp8(row, width, out); break;
    case RowFormat::kFp4E8M0: EncodeFp4E8M0(row, width, out); break;
    case RowFormat::kFp4E4M3: EncodeFp4E4M3(row, width, out); break;
  }
}

void DecodeRow(RowFormat format, const uint8_t* row, int64_t width, float* out) {
  switch (format) {
    case RowFormat::kBF16:
      for (int64_t i = 0; i < width; ++i) {
        BF16 x;
        std::memcpy(&x, row + 2 * i, sizeof(x));
        out[i] = ToFloat(x);
      }
      break;
    case RowFormat::kFp8E8M0:
      for (int64_t i = 0; i < width; ++i)
        out[i] = E4M3ToFloat(row[i]) * E8M0ToFloat(row[width + i / 32]);
      break;
    case RowFormat::kFp4E8M0:
      for (int64_t g = 0; g < width / 32; ++g) {
        DecodeFp4(row + g * 16, 32, E8M0ToFloat(row[width / 2 + g]), out + g * 32);
      }
      break;
    case RowFormat::kFp4E4M3:
      for (int64_t g = 0; g < width / 16; ++g) {
        DecodeFp4(row + g * 8, 16, E4M3ToFloat(row[width / 2 + g]), out + g * 16);
      }
      break;
  }
}

void RoundTripRow(RowFormat format, const BF16* row, int64_t width, BF16* out) {
  constexpr int64_t kChunk = 32;
  uint8_t encoded[2 * kChunk];
  float decoded[kChunk];
  const int64_t step = format == RowFormat::kFp4E4M3 ? 16 : kChunk;
  for (int64_t at = 0; at < width; at += step) {
    const int64_t n = std::min(step, width - at);
    EncodeRow(format, row + at, n, encoded);
    DecodeRow(format, encoded, n, decoded);
    for (int64_t i = 0; i < n; ++i) out[at + i] = ToBF16(decoded[i]);
  }
}

}  // namespace thalweg::tensor
