#include "kernels/cpu/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tensor/formats.h"

namespace thalweg::kernels::cpu {
namespace {

constexpr int64_t kWordBytes = 4;
constexpr int kInt8Most = 127;
constexpr int kInt8Offset = 128;
constexpr uint8_t kNeutralScale = 127;  // 2^0

PanelFormat FormatOf(const Matrix& w, Numerics numerics) {
  if (w.format == WeightFormat::kFp4) return PanelFormat::kFp4;
  if (w.format == WeightFormat::kBF16) return PanelFormat::kBF16;
  return numerics == Numerics::kFast ? PanelFormat::kInt8 : PanelFormat::kFp8;
}

int64_t RowBytes(const Matrix& w) {
  if (w.format == WeightFormat::kFp4) return w.cols / 2;
  return w.format == WeightFormat::kBF16 ? w.cols * 2 : w.cols;
}

// The words of one stored row go to every thirty-second place; what the row lacks is zero.
void SpreadRow(const uint8_t* row, int64_t bytes, int64_t words, uint8_t* out) {
  const int64_t whole = bytes / kWordBytes;
  for (int64_t i = 0; i < whole; ++i)
    std::memcpy(out + i * kLineBytes, row + i * kWordBytes, kWordBytes);
  for (int64_t i = whole; i < words; ++i) std::memset(out + i * kLineBytes, 0, kWordBytes);
  const int64_t rest = bytes - whole * kWordBytes;
  if (rest > 0)
    std::memcpy(out + whole * kLineBytes, row + whole * kWordBytes, static_cast<size_t>(rest));
}

typedef uint32_t FourWords __attribute__((vector_size(16)));

// Four words of each of four rows to four lines.
void TransposeFour(const uint8_t* const* row, int64_t at, uint8_t* out) {
  FourWords a, b, c, d;
  std::memcpy(&a, row[0] + at, sizeof(a));
  std::memcpy(&b, row[1] + at, sizeof(b));
  std::memcpy(&c, row[2] + at, sizeof(c));
  std::memcpy(&d, row[3] + at, sizeof(d));
  const FourWords ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const FourWords ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const FourWords cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const FourWords cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const FourWords line[4] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                             __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                             __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                             __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(out + i * kLineBytes, &line[i], sizeof(line[i]));
}

// A panel of whole rows of whole groups. Few lines at a time, so that they stay in the first cache
// while all rows fill them.
void TransposePanel(const uint8_t* first_row, int64_t row_bytes, int64_t words, uint8_t* lines) {
  constexpr int64_t kWordsAtOnce = 32;
  const uint8_t* row[kPanelOuts];
  for (int64_t r = 0; r < kPanelOuts; ++r) row[r] = first_row + r * row_bytes;
  for (int64_t begin = 0; begin < words; begin += kWordsAtOnce) {
    for (int64_t r = 0; r < kPanelOuts; r += 4) {
      for (int64_t w = begin; w < std::min(begin + kWordsAtOnce, words); w += 4)
        TransposeFour(row + r, w * kWordBytes, lines + w * kLineBytes + r * kWordBytes);
    }
  }
}

void PackLines(const Matrix& w, const PanelLayout& layout, int64_t panel, uint8_t* lines) {
  const int64_t row_bytes = RowBytes(w), words = layout.groups * layout.lines;
  const int64_t first = panel * kPanelOuts;
  const auto* data = static_cast<const uint8_t*>(w.data);
  if (first + kPanelOuts <= w.rows && row_bytes == words * kWordBytes)
    return TransposePanel(data + first * row_bytes, row_bytes, words, lines);
  for (int64_t r = 0; r < kPanelOuts; ++r) {
    const bool there = first + r < w.rows;
    SpreadRow(there ? data + (first + r) * row_bytes : data, there ? row_bytes : 0, words,
              lines + r * kWordBytes);
  }
}

// Integer products add exponents: clamped, no product with a row's scale leaves the normal floats.
constexpr uint8_t kLeastFastScale = 64, kMostFastScale = 190;

void PackScales(const Matrix& w, const PanelLayout& layout, int64_t panel, uint8_t* scales) {
  const int64_t scale_cols = w.cols / kGroupColumns;
  if (layout.format == PanelFormat::kFp8) {
    const int64_t tile = panel * kPanelOuts / kGroupColumns;
    std::memcpy(scales, w.scales + tile * scale_cols, static_cast<size_t>(scale_cols));
    return;
  }
  for (int64_t r = 0; r < kPanelOuts; ++r) {
    const int64_t row = panel * kPanelOuts + r;
    const uint8_t* codes = row < w.rows ? w.scales + row * scale_cols : nullptr;
    for (int64_t g = 0; g < layout.groups; ++g)
      scales[g * kPanelOuts + r] = codes != nullptr ? codes[g] : kNeutralScale;
  }
  if (!layout.clamp_scales) return;
  for (int64_t i = 0; i < layout.groups * kPanelOuts; ++i)
    scales[i] = std::clamp(scales[i], kLeastFastScale, kMostFastScale);
}

// 2^shift brings the largest of the panel's values in a group to 64..127.
int Int8Shift(float largest) {
  if (!(largest > 0) || std::isinf(largest)) return 0;
  return 6 - std::ilogb(largest);
}

int Int8Of(float v) {
  if (std::isnan(v)) return kInt8Most;
  return static_cast<int>(std::nearbyint(std::clamp<float>(v, -kInt8Most, kInt8Most)));
}

// The e4m3 rows of a panel as bytes around 128 (Numerics::kFast).
void RoundGroup(const Matrix& w, int64_t first_row, int64_t group, uint8_t* lines, uint8_t* scale) {
  const int64_t rows = std::min(kPanelOuts, w.rows - first_row);
  const auto* codes =
      static_cast<const uint8_t*>(w.data) + first_row * w.cols + group * kGroupColumns;
  std::array<float, kPanelOuts* kGroupColumns> value = {};
  float largest = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < kGroupColumns; ++c) {
      const float v = tensor::E4M3ToFloat(codes[r * w.cols + c]);
      value[static_cast<size_t>(r * kGroupColumns + c)] = v;
      largest = std::max(largest, std::fabs(v));
    }
  }
  const int shift = Int8Shift(largest);
  for (int64_t r = 0; r < kPanelOuts; ++r) {
    for (int64_t c = 0; c < kGroupColumns; ++c) {
      const float v = std::ldexp(value[static_cast<size_t>(r * kGroupColumns + c)], shift);
      const int q = Int8Of(v);
      lines[c / kWordBytes * kLineBytes + r * kWordBytes + c % kWordBytes] =
          static_cast<uint8_t>(q + kInt8Offset);
    }
  }
  const int code = w.scales[first_row / kGroupColumns * (w.cols / kGroupColumns) + group];
  *scale = static_cast<uint8_t>(std::clamp<int>(code - shift, kLeastFastScale, kMostFastScale));
}

void PackInt8(const Matrix& w, const PanelLayout& layout, int64_t panel, uint8_t* lines,
              uint8_t* scales) {
  for (int64_t g = 0; g < layout.groups; ++g)
    RoundGroup(w, panel * kPanelOuts, g, lines + g * layout.lines * kLineBytes, scales + g);
}

int64_t PackedBytes(const Matrix& w, Numerics numerics) {
  return HasPanels(w.format) ? LayoutOf(w, numerics).TotalBytes() : 0;
}

void Pack(const Stream& stream, const Matrix& w, Numerics numerics, void* out) {
  const PanelLayout layout = LayoutOf(w, numerics);
  auto* lines = static_cast<uint8_t*>(out);
  uint8_t* scales = lines + layout.panels * layout.LineBytes();
  stream.team->ParallelFor(layout.panels, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      PackPanel(w, layout, p, lines + p * layout.LineBytes(), scales + p * layout.ScaleBytes());
  });
}

}  // namespace

bool HasPanels(WeightFormat format) { return format != WeightFormat::kF32; }

PanelLayout LayoutOf(const Matrix& w, Numerics numerics) {
  PanelLayout layout = {FormatOf(w, numerics),
                        (w.rows + kPanelOuts - 1) / kPanelOuts,
                        (w.cols + kGroupColumns - 1) / kGroupColumns,
                        8,
                        1,
                        numerics == Numerics::kFast};
  if (layout.format == PanelFormat::kBF16) layout.lines = 16, layout.scale_bytes = 0;
  if (layout.format == PanelFormat::kFp4) layout.lines = 4, layout.scale_bytes = kPanelOuts;
  return layout;
}

void PackPanel(const Matrix& w, const PanelLayout& layout, int64_t panel, uint8_t* lines,
               uint8_t* scales) {
  if (layout.format == PanelFormat::kInt8) return PackInt8(w, layout, panel, lines, scales);
  PackLines(w, layout, panel, lines);
  if (layout.scale_bytes > 0) PackScales(w, layout, panel, scales);
}

int64_t PackedBytesExact(const Matrix& w) { return PackedBytes(w, Numerics::kExact); }
int64_t PackedBytesFast(const Matrix& w) { return PackedBytes(w, Numerics::kFast); }

void PackExact(const Stream& stream, const Matrix& w, void* out) {
  Pack(stream, w, Numerics::kExact, out);
}
void PackFast(const Stream& stream, const Matrix& w, void* out) {
  Pack(stream, w, Numerics::kFast, out);
}

}  // namespace thalweg::kernels::cpu
