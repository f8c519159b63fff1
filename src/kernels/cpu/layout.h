// How the cpu backend lays weights out for its products.
//
// A panel is thirty-two output rows, a group thirty-two columns. A line is 128 bytes: one 32-bit
// word of each of the rows, so that a register holds the same columns of sixteen outputs and no
// product ever adds across lanes. Words are those of the stored rows, untouched: packing a matrix
// is a transposition of words, and a panel can be made from the mapped file when it is needed.
//
//   [panels][groups][lines of a group][32 rows] words, then [panels][groups] scales
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace thalweg::kernels::cpu {

constexpr int64_t kPanelOuts = 32;
constexpr int64_t kGroupColumns = 32;
constexpr int64_t kLineBytes = 128;
constexpr int64_t kHalfLineBytes = 64;  // sixteen rows

enum class PanelFormat {
  kBF16,  // 16 lines a group, no scales
  kFp8,   // 8 lines a group, one e8m0 code per panel and group
  kFp4,   // 4 lines a group, one e8m0 code per row and group
  kInt8,  // fp8 rounded to 8-bit integers + 128, 8 lines a group, one e8m0 code per panel and group
};

struct PanelLayout {
  PanelFormat format;
  int64_t panels, groups;
  int64_t lines;        // of a group
  int64_t scale_bytes;  // of a group in one panel
  bool clamp_scales;    // to exponents that can be added to those of rows

  int64_t LineBytes() const { return groups * lines * kLineBytes; }  // of one panel
  // Of one panel, padded to whole lines.
  int64_t ScaleBytes() const {
    return (groups * scale_bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  }
  int64_t TotalBytes() const { return panels * (LineBytes() + ScaleBytes()); }
};

// Whether products of this format run over panels: all but fp32.
bool HasPanels(WeightFormat format);

PanelLayout LayoutOf(const Matrix& w, Numerics numerics);

// Makes one panel from the stored rows: LineBytes() of `lines`, ScaleBytes() of `scales`. Rows and
// columns behind the end of the matrix are zero weights.
void PackPanel(const Matrix& w, const PanelLayout& layout, int64_t panel, uint8_t* lines,
               uint8_t* scales);

// Ops::packed_bytes and Ops::pack.
int64_t PackedBytesExact(const Matrix& w);
int64_t PackedBytesFast(const Matrix& w);
void PackExact(const Stream& stream, const Matrix& w, void* out);
void PackFast(const Stream& stream, const Matrix& w, void* out);

// One panel of a packed matrix.
struct Panel {
  const uint8_t* lines;
  const uint8_t* scales;
};

}  // namespace thalweg::kernels::cpu
