// The matrix product of this backend: thirty-two outputs (one panel) of up to kPanelRows rows.
//
// An output is the sum over groups of 32 columns, ascending, of scale * (the group's dot product):
// - exact: the group's products of bf16 added one by one in fp32, in the order of its pairs;
// - fast: the group's products of bytes added in integers, which is exact.
// A lane is an output and never meets another; a row never meets another row. So neither the number
// of rows, nor how they are cut into tiles, nor where a panel came from shows in the bits.
#pragma once

#include "kernels/cpu/tiles.inc.h"

#if defined(__AMX_BF16__)
#include "kernels/cpu/amx.inc.h"
#endif

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

constexpr int kHalves = kPanelOuts / kLanes;

// Up to this many rows both halves of a panel are met together: running sums and the products of a
// group, for all rows, are to stay in registers.
constexpr int kBothHalvesRows = kPanelRows / 2;

// Lines of a group are written out where a line takes few instructions.
#if defined(__AVX512BF16__)
#define TW_UNROLL_LINES _Pragma("GCC unroll 16")
#else
#define TW_UNROLL_LINES _Pragma("GCC unroll 1")
#endif

// Weights are asked for this far ahead, into the second cache: lines on their way to the first one
// are so few that they would bound a core to less than half of what its memory gives.
constexpr int64_t kPrefetchAhead = 8192;  // bytes
constexpr int kIntoSecondCache = 2;

// kH halves of one line. The first kPrefetched of them are asked for ahead: products that need few
// instructions for a line run best when neighbouring lines are left to the processor.
template <int kPrefetched, int kH, typename Weights>
TW_INLINE void ReadLine(const uint8_t* line, typename Weights::Raw* raw) {
#pragma GCC unroll 2
  for (int h = 0; h < kH; ++h) {
    const uint8_t* at = line + h * kHalfLineBytes;
    if (h < kPrefetched) __builtin_prefetch(at + kPrefetchAhead, 0, kIntoSecondCache);
    raw[h] = Weights::Read(at);
  }
}

// acc[r][h] = dot(acc[r][h], weights[h], x[r]) for one word of every row.
template <int kRows, int kH, typename Acc, typename Dot>
TW_INLINE void AddWord(const U* weights, const uint32_t* x, const Dot& dot, Acc* acc) {
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int h = 0; h < kH; ++h) acc[r * kH + h] = dot(acc[r * kH + h], weights[h], SetU(x[r]));
  }
}

// acc[r][h] gets the dot products of group `group` for halves from kFirst on.
template <int kRows, int kPrefetched, int kFirst, int kH, typename Weights, typename Dot,
          typename Acc>
TW_INLINE void AddLines(const Panel& w, int64_t group, const uint32_t* x, const Dot& dot,
                        Acc* acc) {
  const uint8_t* lines = w.lines + group * (Weights::kLines * kLineBytes) + kFirst * kHalfLineBytes;
  TW_UNROLL_LINES
  for (int line = 0; line < Weights::kLines; ++line) {
    typename Weights::Raw raw[kH];
    ReadLine<kPrefetched, kH, Weights>(lines + line * kLineBytes, raw);
#pragma GCC unroll 4
    for (int i = 0; i < Weights::kWords; ++i) {
      U word[kH];
      for (int h = 0; h < kH; ++h) word[h] = Weights::Word(raw[h], i);
      AddWord<kRows, kH>(word, x + (line * Weights::kWords + i) * kRows, dot, acc);
    }
  }
}

// total[r][h] += group `group` of W x_r for halves from kFirst on, bf16 products.
template <int kRows, int kFirst, int kH, typename Lines>
TW_INLINE void AddPairs(const Panel& w, int64_t group, const uint32_t* x, F* total) {
  // Inlined by force: where a vector takes several registers, it would be passed through memory.
  const auto dot = [](F acc, U a, U b) __attribute__((always_inline)) {
    return DotBF16(acc, a, b);
  };
  F acc[kRows * kH];
#pragma GCC unroll 24
  for (F& a : acc) a = Zero();
  AddLines<kRows, kH, kFirst, kH, Lines>(w, group, x, dot, acc);
#pragma GCC unroll 2
  for (int h = 0; h < kH; ++h) {
    const F scale = Lines::Scale(w.scales, group, kFirst + h);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) total[r * kH + h] = total[r * kH + h] + acc[r * kH + h] * scale;
  }
}

// The same for products of bytes.
template <int kRows, int kFirst, int kH, typename Quads>
TW_INLINE void AddQuads(const Panel& w, int64_t group, const uint32_t* x, F* total) {
  const auto dot = [](U acc, U a, U b) __attribute__((always_inline)) {
    return Quads::Dot(acc, a, b);
  };
  const uint32_t* first = x + kQuadWords * kRows;
  const uint32_t* unit = first + kRows;
  U acc[kRows * kH];
#pragma GCC unroll 24
  for (int i = 0; i < kRows * kH; ++i) acc[i] = SetU(first[i / kH]);
  AddLines<kRows, 1, kFirst, kH, Quads>(w, group, x, dot, acc);
#pragma GCC unroll 2
  for (int h = 0; h < kH; ++h) {
    const U exponents = ScaleBits(Quads::ScaleCodes(w.scales, group, kFirst + h));
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const F scale = FromBits(exponents + SetU(unit[r]));
      total[r * kH + h] = total[r * kH + h] + FromInteger(acc[r * kH + h]) * scale;
    }
  }
}

// The two kinds of products behind one name.
template <typename Lines>
struct PairProduct {
  static constexpr int kWords = kPairWords;
  template <int kRows, int kFirst, int kH>
  TW_INLINE static void Add(const Panel& w, int64_t group, const uint32_t* x, F* total) {
    AddPairs<kRows, kFirst, kH, Lines>(w, group, x, total);
  }
};
template <typename Quads>
struct QuadProduct {
  static constexpr int kWords = kFastWords;
  template <int kRows, int kFirst, int kH>
  TW_INLINE static void Add(const Panel& w, int64_t group, const uint32_t* x, F* total) {
    AddQuads<kRows, kFirst, kH, Quads>(w, group, x, total);
  }
};

// Groups [begin, end) of kH halves from kFirst on; sums wait in out [kRows, kPanelOuts].
template <int kRows, int kFirst, int kH, typename Product>
TW_INLINE void AddGroups(const Panel& w, int64_t begin, int64_t end, const uint32_t* x,
                         float* out) {
  constexpr int kStep = Product::kWords * kRows;
  F total[kRows * kH];
#pragma GCC unroll 24
  for (int i = 0; i < kRows * kH; ++i) {
    const int64_t at = i / kH * kPanelOuts + (kFirst + i % kH) * kLanes;
    total[i] = begin == 0 ? Zero() : Load(out + at);
  }
  for (int64_t g = begin; g < end; ++g)
    Product::template Add<kRows, kFirst, kH>(w, g, x + g * kStep, total);
#pragma GCC unroll 24
  for (int i = 0; i < kRows * kH; ++i)
    Store(out + i / kH * kPanelOuts + (kFirst + i % kH) * kLanes, total[i]);
}

// out[r][i] = output i of the panel for row r of the tile: [kRows, kPanelOuts].
template <int kRows, typename Product>
[[gnu::noinline]] void PanelKernel(const Panel& w, int64_t groups, const uint32_t* x, float* out) {
  if constexpr (kRows <= kBothHalvesRows) {
    AddGroups<kRows, 0, kHalves, Product>(w, 0, groups, x, out);
  } else {
    constexpr int64_t kCachedGroups = 8;  // the second half finds their lines and words at hand
    for (int64_t g = 0; g < groups; g += kCachedGroups) {
      const int64_t end = Least(g + kCachedGroups, groups);
      AddGroups<kRows, 0, 1, Product>(w, g, end, x, out);
      AddGroups<kRows, 1, 1, Product>(w, g, end, x, out);
    }
  }
}

using Kernel = void (*)(const Panel& w, int64_t groups, const uint32_t* x, float* out);

// kFirst, kFirst + 1, ...: a kernel for each number of rows.
template <typename Product, int kFirst, int... kMore>
TW_INLINE Kernel ByRows(int64_t rows, std::integer_sequence<int, kMore...>) {
  static constexpr Kernel kTable[] = {PanelKernel<kFirst + kMore, Product>...};
  return kTable[rows - kFirst];
}

#if !defined(__AMX_BF16__)  // which has the products of amx.inc.h

// The kernel of panels as they lie in memory, for a tile of 1 to kPanelRows rows.
Kernel KernelFor(const TileFormat& f, int64_t rows) {
  constexpr std::make_integer_sequence<int, kPanelRows> kAll;
  if (f.format == PanelFormat::kBF16) return ByRows<PairProduct<LinesBF16>, 1>(rows, kAll);
  if (f.format == PanelFormat::kFp8) return ByRows<PairProduct<LinesFp8>, 1>(rows, kAll);
  if (f.format == PanelFormat::kInt8) return ByRows<QuadProduct<QuadsInt8>, 1>(rows, kAll);
  if (f.Quads()) return ByRows<QuadProduct<QuadsFp4>, 1>(rows, kAll);
  return ByRows<PairProduct<LinesFp4>, 1>(rows, kAll);
}

// Two tiles or more have at least this many rows each.
constexpr int kDecodedRows = (kPanelRows + 1) / 2;

// The kernel of decoded panels, for a tile of kDecodedRows to kPanelRows rows.
Kernel DecodedKernelFor(const TileFormat& f, int64_t rows) {
  constexpr std::make_integer_sequence<int, kPanelRows - kDecodedRows + 1> kAll;
  if (f.format == PanelFormat::kFp8)
    return ByRows<PairProduct<DecodedPairs<LinesFp8>>, kDecodedRows>(rows, kAll);
  if (f.Quads()) return ByRows<QuadProduct<DecodedQuads<QuadsFp4>>, kDecodedRows>(rows, kAll);
  return ByRows<PairProduct<DecodedPairs<LinesFp4>>, kDecodedRows>(rows, kAll);
}

// Whether products of several tiles have the panel decoded first: not where decoding costs less
// than the memory that its result takes.
TW_INLINE bool Decodes([[maybe_unused]] const TileFormat& f) {
#if defined(__AVX512VBMI__)
  return false;
#else
  return f.format == PanelFormat::kFp8 || f.format == PanelFormat::kFp4;
#endif
}

Panel DecodePanel(const Panel& w, const TileFormat& f) {
  auto* out = static_cast<uint8_t*>(
      Scratch(Slot::kDecoded, f.Groups() * (f.Quads() ? 8 : 16) * kLineBytes));
  if (f.format == PanelFormat::kFp8) {
    DecodeLines<LinesFp8>(w, f.Groups(), out);
  } else if (f.Quads()) {
    DecodeLines<QuadsFp4>(w, f.Groups(), out);
  } else {
    DecodeLines<LinesFp4>(w, f.Groups(), out);
  }
  return {out, w.scales};
}

// product[r * kPanelOuts ...] = one panel times the rows of tiles [first_tile, last_tile).
void MultiplyPanel(const Panel& w, const Tiles& x, int64_t first_tile, int64_t last_tile,
                   float* product) {
  const bool decode = last_tile - first_tile > 1 && Decodes(x.format);
  const Panel panel = decode ? DecodePanel(w, x.format) : w;
  const int64_t base = x.tiling.First(first_tile);
  for (int64_t t = first_tile; t < last_tile; ++t) {
    const int64_t rows = x.tiling.Rows(t);
    const Kernel kernel = decode ? DecodedKernelFor(x.format, rows) : KernelFor(x.format, rows);
    kernel(panel, x.format.Groups(), x.Of(t), product + (x.tiling.First(t) - base) * kPanelOuts);
  }
}

#endif

// Panels of one matrix: where they lie, or, when it was not packed, how they are made.
class Panels {
 public:
  Panels(const Matrix& w, Numerics numerics) : w_(w), layout_(LayoutOf(w, numerics)) {}

  int64_t count() const { return layout_.panels; }
  const PanelLayout& layout() const { return layout_; }

  // An unpacked panel is made in this thread's memory and lives until the next one.
  Panel Get(int64_t panel) const {
    const int64_t line_bytes = layout_.LineBytes(), scale_bytes = layout_.ScaleBytes();
    if (w_.packed != nullptr) {
      const auto* lines = static_cast<const uint8_t*>(w_.packed);
      const uint8_t* scales = lines + layout_.panels * line_bytes;
      return {lines + panel * line_bytes, scales + panel * scale_bytes};
    }
    auto* made = static_cast<uint8_t*>(Scratch(Slot::kPanel, line_bytes + scale_bytes));
    PackPanel(w_, layout_, panel, made, made + line_bytes);
    return {made, made + line_bytes};
  }

 private:
  const Matrix& w_;
  PanelLayout layout_;
};

TW_INLINE TileFormat TilesFor(const Matrix& w, Numerics numerics) {
  return {LayoutOf(w, numerics).format, numerics, w.cols};
}

// The first n outputs of a panel, at most kPanelOuts, to their place.
template <typename T>
TW_INLINE void StoreOuts(T* out, const float* product, int64_t n) {
  for (int64_t i = 0; i < Least(n, kPanelOuts); i += kLanes)
    StoreFirst(out + i, Load(product + i), n - i);
}

// Calls body(first_tile, last_tile) for runs of tiles that a core's cache holds while panel after
// panel passes by.
template <typename Body>
TW_INLINE void ForTileRuns(const Tiles& x, const Body& body) {
  const int64_t tile_bytes = Most(1, kPanelRows * x.format.Words() * 4);
  const int64_t step = Most(1, kTileRunBytes / tile_bytes);
  const int64_t count = x.tiling.Count();
  for (int64_t t = 0; t < count; t += step) body(t, Least(t + step, count));
}

// Calls use(row, first output, product) for every row of x and every panel in [begin, end).
template <typename Use>
TW_INLINE void ForProducts(const Panels& w, int64_t begin, int64_t end, const Tiles& x,
                           const Use& use) {
  ForTileRuns(x, [&](int64_t first, int64_t last) {
    const int64_t row = x.tiling.First(first), rows = x.tiling.First(last) - row;
    float* product = ScratchFloats(Slot::kProduct, rows * kPanelOuts);
    for (int64_t p = begin; p < end; ++p) {
      MultiplyPanel(w.Get(p), x, first, last, product);
      for (int64_t r = 0; r < rows; ++r) use(row + r, p * kPanelOuts, product + r * kPanelOuts);
    }
  });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
