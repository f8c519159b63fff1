// Activation rows as the products read them: tiles of a few rows, group after group, every word
// beside those of the tile's other rows, in the column order that decoded weights have.
#pragma once

#include "kernels/cpu/lines.inc.h"
#include "kernels/cpu/rows.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Rows that a kernel takes at once: as many as the registers hold beside one line of weights.
#if defined(__AMX_BF16__)
constexpr int kPanelRows = 32;
#elif defined(__AVX512BF16__)
constexpr int kPanelRows = 12;
#elif defined(__AVX512F__)
constexpr int kPanelRows = 6;
#elif defined(__AVX2__)
constexpr int kPanelRows = 4;
#else
constexpr int kPanelRows = 2;
#endif

constexpr int kPairWords = 16;  // of a row in a group: pairs of bf16
constexpr int kQuadWords = 8;   // quads of int8

// AMX reads sixteen words of a row side by side, and integers as bf16 with their scale in them
// (amx.inc.h); registers hold a word of every row.
#if defined(__AMX_BF16__)
constexpr bool kRowsInOnePiece = true;
constexpr int kFastWords = kPairWords;
#else
constexpr bool kRowsInOnePiece = false;
constexpr int kFastWords = kQuadWords + 2;  // and the first sum, and the scale
#endif
constexpr int64_t kTileRunBytes = kRowsInOnePiece ? 5 << 18 : 1 << 19;  // that caches hold

// Where a row of a tile's group begins, and how far its words are apart.
TW_INLINE int64_t RowStart(int64_t r) { return kRowsInOnePiece ? r * kPairWords : r; }
TW_INLINE int64_t WordStep(int64_t tile_rows) { return kRowsInOnePiece ? 1 : tile_rows; }

// Rows cut into tiles of nearly the same size.
struct Tiling {
  int64_t rows;
  int64_t Count() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t First(int64_t tile) const { return rows * tile / Most(1, Count()); }
  int64_t Rows(int64_t tile) const { return First(tile + 1) - First(tile); }
};

// Words of one row of `width` columns.
TW_INLINE int64_t RowWords(int64_t width, bool fast) {
  return PaddedWidth(width) / kGroup * (fast ? kFastWords : kPairWords);
}

// --- One row of one group into its place in the tile: words `step` apart. ---

typedef uint16_t GroupHalves __attribute__((vector_size(kGroup * 2)));
typedef uint8_t GroupBytes __attribute__((vector_size(kGroup)));

// Words one after the other to words `step` apart.
template <int kWords, typename Vector>
TW_INLINE void Spread(const Vector& words, uint32_t* out, int64_t step) {
  if constexpr (kRowsInOnePiece) {
    __builtin_memcpy(out, &words, sizeof(words));
    return;
  }
  uint32_t word[kWords];
  static_assert(sizeof(word) == sizeof(words));
  __builtin_memcpy(word, &words, sizeof(words));
#pragma GCC unroll 16
  for (int j = 0; j < kWords; ++j) out[j * step] = word[j];
}

template <typename Lines, int... kPair>
TW_INLINE void InPairs(GroupHalves* x, std::integer_sequence<int, kPair...>) {
  *x = __builtin_shufflevector(
      *x, *x, (kPair % 2 == 0 ? Lines::kLowColumn(kPair / 2) : Lines::kHighColumn(kPair / 2))...);
}

template <typename Lines>
TW_INLINE void PutPairs(const BF16* x, uint32_t* out, int64_t step) {
  GroupHalves halves;
  __builtin_memcpy(&halves, x, sizeof(halves));
  InPairs<Lines>(&halves, std::make_integer_sequence<int, kGroup>{});
  Spread<kPairWords>(halves, out, step);
}

// Exponent of the power of two that is one unit of the group's integers: the largest value lies
// in 64..127 of them. Clamped so that products of scales stay normal floats.
TW_INLINE int UnitExponent(float largest) {
  constexpr int kMost = 60;
  const int exponent = static_cast<int>(__builtin_bit_cast(uint32_t, largest) >> 23) - 127 - 6;
  return exponent > kMost ? kMost : exponent < -kMost ? -kMost : exponent;
}

// Sixteen values in units, to nearest even, at most 127.
TW_INLINE U InUnits(F x, F inverse_unit) {
  const F units = Max(Min(x * inverse_unit, Set(127.0f)), Set(-127.0f));
  return Bits(units + Set(0x1.8p23f)) - SetU(0x4b400000u);
}

template <typename Quads, int... kByte>
TW_INLINE void InQuads(GroupBytes* x, std::integer_sequence<int, kByte...>) {
  *x = __builtin_shufflevector(*x, *x, Quads::kColumn(kByte / 4, kByte % 4)...);
}

TW_INLINE F PowerOfTwo(int exponent) {
  return Set(__builtin_bit_cast(float, static_cast<uint32_t>(127 + exponent) << 23));
}

template <typename Quads>
TW_INLINE void PutQuads(F a, F b, uint32_t* out, int64_t step) {
  const int exponent = UnitExponent(GroupMaximum(a, b));
  const F inverse = PowerOfTwo(-exponent);
  const U unit[2] = {InUnits(a, inverse), InUnits(b, inverse)};
  uint8_t byte[kGroup];
  StoreBytes(byte, unit[0]);
  StoreBytes(byte + kLanes, unit[1]);
  GroupBytes bytes;
  __builtin_memcpy(&bytes, byte, sizeof(bytes));
  InQuads<Quads>(&bytes, std::make_integer_sequence<int, kGroup>{});
  Spread<kQuadWords>(bytes, out, step);
  const auto sum = static_cast<int32_t>(SumLanes(FromInteger(unit[0] + unit[1])));
  out[kQuadWords * step] = static_cast<uint32_t>(-sum * Quads::kOffset);
  out[(kQuadWords + 1) * step] = static_cast<uint32_t>(exponent - Quads::kExponentBias) << 23;
}

// The same integers times their unit, as pairs of bf16.
template <typename Lines>
TW_INLINE void PutRounded(F a, F b, uint32_t* out, int64_t step) {
  const int exponent = UnitExponent(GroupMaximum(a, b));
  const F unit = PowerOfTwo(exponent), inverse = PowerOfTwo(-exponent);
  BF16 rounded[kGroup];
  StoreExact(rounded, FromInteger(InUnits(a, inverse)) * unit);
  StoreExact(rounded + kLanes, FromInteger(InUnits(b, inverse)) * unit);
  PutPairs<Lines>(rounded, out, step);
}

// A row as integers; `Lines` has the column order of the quads' matrix as pairs.
template <typename Quads, typename Lines>
TW_INLINE void PutIntegers(const BF16* x, uint32_t* out, int64_t step) {
  if constexpr (kRowsInOnePiece) {
    PutRounded<Lines>(LoadBF16(x), LoadBF16(x + kLanes), out, step);
  } else {
    PutQuads<Quads>(LoadBF16(x), LoadBF16(x + kLanes), out, step);
  }
}

// The group as products of panels of `format` want it.
TW_INLINE void PutGroup(PanelFormat format, Numerics numerics, const BF16* x, uint32_t* out,
                        int64_t step) {
  if (format == PanelFormat::kBF16) return PutPairs<LinesBF16>(x, out, step);
  if (format == PanelFormat::kFp8) return PutPairs<LinesFp8>(x, out, step);
  if (format == PanelFormat::kInt8) return PutIntegers<QuadsInt8, LinesFp8>(x, out, step);
  if (numerics == Numerics::kExact) return PutPairs<LinesFp4>(x, out, step);
  PutIntegers<QuadsFp4, LinesFp4>(x, out, step);
}

// Whether rows that meet panels of this format are integers.
TW_INLINE bool UsesQuads(PanelFormat format, Numerics numerics) {
  return format == PanelFormat::kInt8 ||
         (format == PanelFormat::kFp4 && numerics == Numerics::kFast);
}

// --- Whole rows. ---

// How rows of one width lie in memory for panels of one format.
struct TileFormat {
  PanelFormat format;
  Numerics numerics;
  int64_t width;

  bool Quads() const { return UsesQuads(format, numerics); }
  int64_t GroupWords() const { return Quads() ? kFastWords : kPairWords; }
  int64_t Words() const { return RowWords(width, Quads()); }  // of a row
  int64_t Groups() const { return PaddedWidth(width) / kGroup; }
};

// Row r of a tile; what lies behind the width is zero, whatever the memory there holds.
inline void PutRow(const TileFormat& f, const BF16* x, int64_t r, int64_t tile_rows,
                   uint32_t* tile) {
  const int64_t step = f.GroupWords() * tile_rows;
  const int64_t whole = f.width / kGroup;
  for (int64_t g = 0; g < whole; ++g)
    PutGroup(f.format, f.numerics, x + g * kGroup, tile + g * step + RowStart(r),
             WordStep(tile_rows));
  if (f.width % kGroup == 0) return;
  BF16 last[kGroup] = {};
  for (int64_t c = whole * kGroup; c < f.width; ++c) last[c - whole * kGroup] = x[c];
  PutGroup(f.format, f.numerics, last, tile + whole * step + RowStart(r), WordStep(tile_rows));
}

// All tiles of `rows` rows; source(row) is where a row lies.
struct Tiles {
  TileFormat format;
  Tiling tiling;
  const uint32_t* words;
  const uint32_t* Of(int64_t tile) const { return words + tiling.First(tile) * format.Words(); }
};

// Tile `tile` made from rows source(0), source(1), ...
template <typename Source>
TW_INLINE void PutTile(const TileFormat& f, const Tiling& tiling, int64_t tile,
                       const Source& source, uint32_t* words) {
  const int64_t first = tiling.First(tile), count = tiling.Rows(tile);
  for (int64_t r = 0; r < count; ++r)
    PutRow(f, source(first + r), r, count, words + first * f.Words());
}

// Rows of bf16, `stride` apart, as tiles in this thread's slot, made by the whole team.
inline Tiles MakeTiles(const Stream& stream, const TileFormat& format, const BF16* x, int64_t rows,
                       int64_t stride, Slot slot) {
  constexpr int64_t kValuesWorthAThread = 1 << 15;
  auto* words = static_cast<uint32_t*>(Scratch(slot, rows * format.Words() * 4));
  const Tiling tiling = {rows};
  const int64_t grain = Most(1, kValuesWorthAThread / (kPanelRows * Most(1, format.width)));
  stream.team->ParallelFor(tiling.Count(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      PutTile(
          format, tiling, t, [&](int64_t r) { return x + r * stride; }, words);
  });
  return {format, tiling, words};
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
