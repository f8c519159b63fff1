// The one matrix product of this backend: y = W x for rows of floats.
//
// Lane l of sixteen sums the products of columns k with k % 16 = l, in ascending k, each product
// rounded before it is added (it is exact where both sides are bf16); lanes are then added in one
// fixed tree. Nothing else decides a result: a row met alone by weights decoded on the fly and a
// row among 512 met by a decoded panel do the same additions.
#pragma once

#include "kernels/cpu/decode.inc.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/shuffle.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Columns are walked in groups of 32, the group of every scale.
constexpr int64_t kGroup = 32;
TW_INLINE int64_t PaddedWidth(int64_t width) { return (width + kGroup - 1) / kGroup * kGroup; }

// Tiles that fit the registers: rows x outputs of a decoded panel, outputs of a single row.
#if defined(__AVX512F__)
constexpr int kTileRows = 4, kTileOuts = 4, kSingleOuts = 8;
#elif defined(__AVX2__)
constexpr int kTileRows = 2, kTileOuts = 2, kSingleOuts = 4;
#else
constexpr int kTileRows = 1, kTileOuts = 2, kSingleOuts = 2;
#endif

// Up to this many rows the weights are decoded inside the product; more rows share a panel.
constexpr int64_t kFusedRows = 4;
constexpr int64_t kPanelOuts = 16;
constexpr int64_t kStrip = 512;      // columns of a panel
constexpr int64_t kPanelRows = 128;  // rows whose partial sums wait between strips

// --- Readers of columns [k, k + 32) or, where kHalves is set, [k, k + 16) of output row o. ---

template <int kOuts>
struct ReadF32 {
  static constexpr bool kHalves = true;
  const float* row[kOuts];
  TW_INLINE F Half(int o, int64_t k) const { return Load(row[o] + k); }
};

template <int kOuts>
struct ReadBF16 {
  static constexpr bool kHalves = true;
  const BF16* row[kOuts];
  TW_INLINE F Half(int o, int64_t k) const { return LoadBF16(row[o] + k); }
};

template <int kOuts>
struct ReadFp8 {
  static constexpr bool kHalves = true;
  const uint8_t* row[kOuts];
  const uint8_t* scales[kOuts];
  TW_INLINE F Half(int o, int64_t k) const {
    return DecodeE4M3(row[o] + k, Set(ScaleOfE4M3(scales[o][k / kGroup])));
  }
};

// The scaled values of a group are worth keeping for both of its halves.
template <int kOuts>
struct ReadFp4 {
  static constexpr bool kHalves = false;
  const uint8_t* row[kOuts];
  const uint8_t* scales[kOuts];
  TW_INLINE void Group(int o, int64_t k, F* w) const {
    const E2M1Table table = ScaledE2M1(ScaleOf(scales[o][k / kGroup]));
    w[0] = DecodeE2M1(row[o] + k / 2, table);
    w[1] = DecodeE2M1(row[o] + k / 2 + kLanes / 2, table);
  }
};

// The reader of rows out[0..kOuts) of W; W's width is a multiple of 32 here.
template <int kOuts>
TW_INLINE ReadF32<kOuts> MakeReader(const Matrix& w, const int64_t* out, ReadF32<kOuts>) {
  ReadF32<kOuts> reader;
  for (int o = 0; o < kOuts; ++o)
    reader.row[o] = static_cast<const float*>(w.data) + out[o] * w.cols;
  return reader;
}
template <int kOuts>
TW_INLINE ReadBF16<kOuts> MakeReader(const Matrix& w, const int64_t* out, ReadBF16<kOuts>) {
  ReadBF16<kOuts> reader;
  for (int o = 0; o < kOuts; ++o)
    reader.row[o] = static_cast<const BF16*>(w.data) + out[o] * w.cols;
  return reader;
}
template <int kOuts>
TW_INLINE ReadFp8<kOuts> MakeReader(const Matrix& w, const int64_t* out, ReadFp8<kOuts>) {
  ReadFp8<kOuts> reader;
  const int64_t scale_cols = (w.cols + 31) / 32;
  for (int o = 0; o < kOuts; ++o) {
    reader.row[o] = static_cast<const uint8_t*>(w.data) + out[o] * w.cols;
    reader.scales[o] = w.scales + out[o] / 32 * scale_cols;
  }
  return reader;
}
template <int kOuts>
TW_INLINE ReadFp4<kOuts> MakeReader(const Matrix& w, const int64_t* out, ReadFp4<kOuts>) {
  ReadFp4<kOuts> reader;
  for (int o = 0; o < kOuts; ++o) {
    reader.row[o] = static_cast<const uint8_t*>(w.data) + out[o] * (w.cols / 2);
    reader.scales[o] = w.scales + out[o] * (w.cols / 32);
  }
  return reader;
}

// --- Tiles. ---

// acc[r * kOuts + o] += weight[o] * x[r] at columns [k, k + 16).
template <int kRows, int kOuts>
TW_INLINE void MultiplyAdd(const F* weight, const float* const* x, int64_t k, F* acc) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const F value = Load(x[r] + k);
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) {
      acc[r * kOuts + o] = acc[r * kOuts + o] + weight[o] * value;
    }
  }
}

// The same for one group of 32 columns from k on.
template <int kRows, int kOuts, typename Reader>
TW_INLINE void AddGroup(const Reader& w, const float* const* x, int64_t k, F* acc) {
  F weight[2][kOuts];
  if constexpr (Reader::kHalves) {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 8
      for (int o = 0; o < kOuts; ++o) weight[half][o] = w.Half(o, k + half * kLanes);
      MultiplyAdd<kRows, kOuts>(weight[half], x, k + half * kLanes, acc);
    }
  } else {
#pragma GCC unroll 8
    for (int o = 0; o < kOuts; ++o) {
      F both[2];
      w.Group(o, k, both);
      weight[0][o] = both[0];
      weight[1][o] = both[1];
    }
    MultiplyAdd<kRows, kOuts>(weight[0], x, k, acc);
    MultiplyAdd<kRows, kOuts>(weight[1], x, k + kLanes, acc);
  }
}

// sum[r * kOuts + o] += lanes of W[o] x[r] over columns [begin, end), multiples of 32.
template <int kRows, int kOuts, typename Reader>
TW_INLINE void Tile(const Reader& w, const float* const* x, int64_t begin, int64_t end, F* sum) {
  F acc[kRows * kOuts];
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kOuts; ++i) acc[i] = sum[i];
  for (int64_t k = begin; k < end; k += kGroup) AddGroup<kRows, kOuts>(w, x, k, acc);
#pragma GCC unroll 16
  for (int i = 0; i < kRows * kOuts; ++i) sum[i] = acc[i];
}

// Writes the finished sums of a tile: those of the first `rows` rows and `outs` outputs.
template <int kRows, int kOuts>
TW_INLINE void Finish(const F* sum, int64_t rows, int64_t outs, float* out, int64_t stride) {
  float value[kLanes];
  Store(value, SumLanes<kRows * kOuts>(sum));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t o = 0; o < outs; ++o) out[r * stride + o] = value[r * kOuts + o];
  }
}

TW_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }
TW_INLINE int64_t Most(int64_t a, int64_t b) { return a > b ? a : b; }

TW_INLINE int64_t RowBytesOf(const Matrix& w) {
  switch (w.format) {
    case WeightFormat::kF32: return w.cols * 4;
    case WeightFormat::kBF16: return w.cols * 2;
    case WeightFormat::kFp8: return w.cols;
    case WeightFormat::kFp4: return w.cols / 2;
  }
  return 0;
}

// Asks for the codes of output rows [begin, end), at most kPrefetchBytes of them: short rows end
// before the processor's own prefetcher has seen where they lead.
TW_INLINE void PrefetchRows(const Matrix& w, int64_t begin, int64_t end) {
  constexpr int64_t kPrefetchBytes = 4096, kLineBytes = 64;
  const int64_t row_bytes = RowBytesOf(w);
  const auto* from = static_cast<const char*>(w.data) + begin * row_bytes;
  const int64_t bytes = Least((end - begin) * row_bytes, kPrefetchBytes);
  for (int64_t i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(from + i);
}

// Weights decoded inside the product, for outputs [begin, end) and kRows rows. Outputs behind the
// end repeat the last one, and are dropped.
template <int kRows, int kOuts, template <int> typename Reader>
[[gnu::noinline]] void FusedProduct(const Matrix& w, int64_t begin, int64_t end,
                                    const float* const* x, float* out, int64_t stride) {
  for (int64_t at = begin; at < end; at += kOuts) {
    int64_t index[kOuts];
    for (int o = 0; o < kOuts; ++o) index[o] = Least(at + o, end - 1);
    if (at + kOuts < end) PrefetchRows(w, at + kOuts, Least(at + 2 * kOuts, end));
    F sum[kRows * kOuts];
    for (F& s : sum) s = Zero();
    Tile<kRows, kOuts>(MakeReader(w, index, Reader<kOuts>{}), x, 0, w.cols, sum);
    Finish<kRows, kOuts>(sum, kRows, Least(kOuts, end - at), out + at - begin, stride);
  }
}

template <template <int> typename Reader>
void FusedRows(const Matrix& w, int64_t begin, int64_t end, const float* const* x, int64_t rows,
               float* out, int64_t stride) {
  int64_t r = 0;
  if constexpr (kTileRows >= 4) {
    for (; r + 4 <= rows; r += 4)
      FusedProduct<4, kTileOuts, Reader>(w, begin, end, x + r, out + r * stride, stride);
  }
  if constexpr (kTileRows >= 2) {
    for (; r + 2 <= rows; r += 2)
      FusedProduct<2, kTileOuts, Reader>(w, begin, end, x + r, out + r * stride, stride);
  }
  for (; r < rows; ++r)
    FusedProduct<1, kSingleOuts, Reader>(w, begin, end, x + r, out + r * stride, stride);
}

// --- Panels. ---

template <template <int> typename Reader>
void DecodeStrip(const Matrix& w, int64_t o, int64_t begin, int64_t end, float* out) {
  const auto reader = MakeReader(w, &o, Reader<1>{});
  for (int64_t k = begin; k < end; k += kGroup) {
    F value[2];
    if constexpr (Reader<1>::kHalves) {
      value[0] = reader.Half(0, k);
      value[1] = reader.Half(0, k + kLanes);
    } else {
      reader.Group(0, k, value);
    }
    Store(out + k - begin, value[0]);
    Store(out + k - begin + kLanes, value[1]);
  }
}

// A plain matrix whose width is no multiple of 32: the rest of the last group is zero.
void DecodeRagged(const Matrix& w, int64_t o, int64_t begin, int64_t end, float* out) {
  for (int64_t k = begin; k < end; k += kLanes) {
    const int64_t n = Most(0, w.cols - k);
    const int64_t at = o * w.cols + k;
    Store(out + k - begin, w.format == WeightFormat::kF32
                               ? LoadFirst(static_cast<const float*>(w.data) + at, n)
                               : LoadFirst(static_cast<const BF16*>(w.data) + at, n));
  }
}

// Columns [begin, end) of outputs [out_begin, out_end) as floats, kStrip apart.
void DecodePanel(const Matrix& w, int64_t out_begin, int64_t out_end, int64_t begin, int64_t end,
                 float* panel) {
  for (int64_t o = out_begin; o < out_end; ++o) {
    float* row = panel + (o - out_begin) * kStrip;
    if (w.cols % kGroup != 0) {
      DecodeRagged(w, o, begin, end, row);
      continue;
    }
    switch (w.format) {
      case WeightFormat::kF32: DecodeStrip<ReadF32>(w, o, begin, end, row); break;
      case WeightFormat::kBF16: DecodeStrip<ReadBF16>(w, o, begin, end, row); break;
      case WeightFormat::kFp8: DecodeStrip<ReadFp8>(w, o, begin, end, row); break;
      case WeightFormat::kFp4: DecodeStrip<ReadFp4>(w, o, begin, end, row); break;
    }
  }
}

// One strip of a panel against up to kPanelRows rows. Partial sums wait in `partial` between
// strips; the last strip writes results.
struct PanelStrip {
  const float* panel;
  int64_t begin, end;  // columns
  bool first, last;
  F* partial;  // [row tiles, out tiles, kTileRows * kTileOuts]
};

void MultiplyStrip(const PanelStrip& strip, const float* const* x, int64_t rows, int64_t outs,
                   float* out, int64_t stride) {
  constexpr int kTile = kTileRows * kTileOuts;
  F* partial = strip.partial;
  for (int64_t r = 0; r < rows; r += kTileRows) {
    const float* row[kTileRows];
    for (int i = 0; i < kTileRows; ++i) row[i] = x[Least(r + i, rows - 1)] + strip.begin;
    for (int64_t o = 0; o < outs; o += kTileOuts, partial += kTile) {
      ReadF32<kTileOuts> reader;
      for (int i = 0; i < kTileOuts; ++i)
        reader.row[i] = strip.panel + Least(o + i, outs - 1) * kStrip;
      F sum[kTile];
      for (int i = 0; i < kTile; ++i) sum[i] = strip.first ? Zero() : partial[i];
      Tile<kTileRows, kTileOuts>(reader, row, 0, strip.end - strip.begin, sum);
      if (strip.last) {
        Finish<kTileRows, kTileOuts>(sum, Least(kTileRows, rows - r), Least(kTileOuts, outs - o),
                                     out + r * stride + o, stride);
      } else {
        for (int i = 0; i < kTile; ++i) partial[i] = sum[i];
      }
    }
  }
}

void PanelProduct(const Matrix& w, int64_t begin, int64_t end, const float* const* x, int64_t rows,
                  float* out, int64_t stride) {
  const int64_t width = PaddedWidth(w.cols);
  auto* panel = static_cast<float*>(Scratch(Slot::kPanel, kPanelOuts * kStrip * 4));
  auto* partial = static_cast<F*>(Scratch(
      Slot::kAccumulators, (kPanelRows + kTileRows) * (kPanelOuts + kTileOuts) * sizeof(F)));
  for (int64_t o = begin; o < end; o += kPanelOuts) {
    const int64_t outs = Least(kPanelOuts, end - o);
    for (int64_t r = 0; r < rows; r += kPanelRows) {
      for (int64_t k = 0; k < width; k += kStrip) {
        const int64_t k_end = Least(k + kStrip, width);
        if (r == 0 || width > kStrip) DecodePanel(w, o, o + outs, k, k_end, panel);
        MultiplyStrip({panel, k, k_end, k == 0, k_end == width, partial}, x + r,
                      Least(kPanelRows, rows - r), outs, out + r * stride + o - begin, stride);
      }
    }
  }
}

// out[r * stride + o - begin] = W[o] . x[r] for outputs [begin, end). Rows of x hold
// PaddedWidth(w.cols) floats, zeros behind the width.
void Multiply(const Matrix& w, int64_t begin, int64_t end, const float* const* x, int64_t rows,
              float* out, int64_t stride) {
  if (rows == 0 || begin >= end) return;
  const bool plain = w.format == WeightFormat::kF32;  // nothing to decode
  if (w.cols % kGroup != 0 || (rows > kFusedRows && !plain)) {
    return PanelProduct(w, begin, end, x, rows, out, stride);
  }
  switch (w.format) {
    case WeightFormat::kF32: return FusedRows<ReadF32>(w, begin, end, x, rows, out, stride);
    case WeightFormat::kBF16: return FusedRows<ReadBF16>(w, begin, end, x, rows, out, stride);
    case WeightFormat::kFp8: return FusedRows<ReadFp8>(w, begin, end, x, rows, out, stride);
    case WeightFormat::kFp4: return FusedRows<ReadFp4>(w, begin, end, x, rows, out, stride);
  }
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
