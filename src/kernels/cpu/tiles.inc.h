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
#elif defined(__AVX2__) || defined(__aarch64__)
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
constexpr int64_t kTileRunBytes = kRowsInOnePiece ? 1 << 20 : 1 << 19;  // that caches hold

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
TW_INLINE int UnitExponent(uint32_t largest_bits) {
  constexpr int kMost = 60;
  const int exponent = static_cast<int>(largest_bits >> 7) - 127 - 6;
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

// The largest magnitude of a group, as bf16 bits: their order is that of the numbers.
TW_INLINE uint32_t LargestBits(const BF16* x) {
#if defined(__AVX512F__)
  const __m512i magnitude =
      _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi16(int16_t{0x7fff}));
  const __m256i half =
      _mm256_max_epu16(_mm512_castsi512_si256(magnitude), _mm512_extracti64x4_epi64(magnitude, 1));
  const __m128i quarter =
      _mm_max_epu16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(quarter, _mm_set1_epi16(-1)));
  return ~static_cast<uint32_t>(_mm_cvtsi128_si32(least)) & 0xffffu;
#else
  uint32_t largest = 0;
  for (int64_t i = 0; i < kGroup; ++i) {
    const uint32_t magnitude = x[i].bits & 0x7fffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
#endif
}

TW_INLINE int32_t SumOfWords(U a) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_epi32(reinterpret_cast<__m512i>(a.part[0]));
#else
  uint32_t lane[kLanes];
  StoreU(lane, a);
  uint32_t sum = 0;
  for (const uint32_t word : lane) sum += word;
  return static_cast<int32_t>(sum);
#endif
}

// A group as integers, and what one of them is: 2^exponent.
struct Integers {
  int exponent;
  U unit[2];
};

TW_INLINE Integers ToIntegers(const BF16* x) {
  const int exponent = UnitExponent(LargestBits(x));
  const F inverse = PowerOfTwo(-exponent);
  return {exponent, {InUnits(LoadBF16(x), inverse), InUnits(LoadBF16(x + kLanes), inverse)}};
}

template <typename Quads>
TW_INLINE void PutQuads(const BF16* x, uint32_t* out, int64_t step) {
  const Integers integers = ToIntegers(x);
  uint8_t byte[kGroup];
  StoreBytes(byte, integers.unit[0]);
  StoreBytes(byte + kLanes, integers.unit[1]);
  GroupBytes bytes;
  __builtin_memcpy(&bytes, byte, sizeof(bytes));
  InQuads<Quads>(&bytes, std::make_integer_sequence<int, kGroup>{});
  Spread<kQuadWords>(bytes, out, step);
  const int32_t sum = SumOfWords(integers.unit[0] + integers.unit[1]);
  out[kQuadWords * step] = static_cast<uint32_t>(-sum * Quads::kOffset);
  out[(kQuadWords + 1) * step] = static_cast<uint32_t>(integers.exponent - Quads::kExponentBias)
                                 << 23;
}

// The same integers times their unit, as pairs of bf16.
template <typename Lines>
TW_INLINE void PutRounded(const BF16* x, uint32_t* out, int64_t step) {
  const Integers integers = ToIntegers(x);
  const F unit = PowerOfTwo(integers.exponent);
  BF16 rounded[kGroup];
  StoreExact(rounded, FromInteger(integers.unit[0]) * unit);
  StoreExact(rounded + kLanes, FromInteger(integers.unit[1]) * unit);
  PutPairs<Lines>(rounded, out, step);
}

// A row as integers; `Lines` has the column order of the quads' matrix as pairs.
template <typename Quads, typename Lines>
TW_INLINE void PutIntegers(const BF16* x, uint32_t* out, int64_t step) {
  if constexpr (kRowsInOnePiece) {
    PutRounded<Lines>(x, out, step);
  } else {
    PutQuads<Quads>(x, out, step);
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
