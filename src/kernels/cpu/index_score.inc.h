// Index scores of one query row against sixteen FP4 keys (model.md 2.5). Values of e2m1 are halves
// of small integers, so the product of a group of 32 columns is an exact integer dot times two
// powers of two; groups, then heads, are added in ascending order in fp32. Lanes are keys.
#pragma once

#include "kernels/cpu/dot.inc.h"
#include "kernels/cpu/heads.inc.h"
#include "kernels/cpu/rows.inc.h"
#include "kernels/cpu/transpose.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Heads scored at a time: what the registers hold.
#if defined(__AVX512F__)
constexpr int kScoreHeads = 8;
#elif defined(__AVX2__)
constexpr int kScoreHeads = 2;
#else
constexpr int kScoreHeads = 1;
#endif
constexpr int64_t kGroupWords = 8;   // of four bytes: a group of 32 columns
constexpr uint32_t kKeyOffset = 12;  // makes twice a value of e2m1 unsigned

// A query row as integers. Four bytes of a word are twice the values of columns 8j, 8j + 2, 8j + 4
// and 8j + 6 of a group, or of the odd ones between them in the word behind it: as keys come apart.
struct IndexQuery {
  int64_t heads, groups;
  uint32_t* words;  // [heads, groups, kGroupWords]
  int32_t* start;   // [heads, groups]: takes back the offset of the keys
  float* scale;     // [heads, groups]: of the integer dot
  float* weight;    // [heads]

  // Words of memory of one row.
  static int64_t Words(int64_t heads, int64_t groups) {
    return heads * (groups * (kGroupWords + 2) + 1);
  }
  static IndexQuery In(uint32_t* memory, int64_t heads, int64_t groups) {
    const int64_t count = heads * groups;
    uint32_t* rest = memory + count * kGroupWords;
    return {heads,
            groups,
            memory,
            reinterpret_cast<int32_t*>(rest),
            reinterpret_cast<float*>(rest + count),
            reinterpret_cast<float*>(rest + 2 * count)};
  }
};

// --- Queries. ---

// |x| / scale on the grid of e2m1, to nearest even, at most 6; NaN counts as zero.
TW_INLINE F OnE2M1Grid(F magnitude) {
  const F denormal = (magnitude + Set(0x1.8p22f)) - Set(0x1.8p22f);
  const U bits = Bits(magnitude);
  const U rounded = (bits + SetU(0x1fffffu) + ((bits >> 22) & SetU(1))) & SetU(0xffc00000u);
  const F grid = IfLess(magnitude, Set(1.0f), denormal, FromBits(rounded));
  return IfLess(magnitude, Set(6.0f), grid, IfLess(Set(5.0f), magnitude, Set(6.0f), Zero()));
}

// The scale code of a group (model.md 5.3).
TW_INLINE uint8_t Fp4ScaleCode(F a, F b) {
  constexpr float kFloor = 6 * 0x1p-126f;
  const float maximum = GroupMaximum(a, b);
  const float scaled = (maximum > kFloor ? maximum : kFloor) * (1.0f / 6.0f);
  const auto bits = __builtin_bit_cast(uint32_t, scaled);
  const uint32_t code = (bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1u : 0u);
  return static_cast<uint8_t>(code > 1 ? code : 1);
}

// Quantises a group of 32 values in place; twice the integers in natural order; returns the scale.
TW_INLINE float QuantiseQueryGroup(BF16* x, int8_t* integers) {
  const F half[2] = {LoadBF16(x), LoadBF16(x + kLanes)};
  const float scale = ScaleOf(Fp4ScaleCode(half[0], half[1]));
  for (int i = 0; i < 2; ++i) {
    const U sign = Bits(half[i]) & SetU(0x80000000u);
    const F grid = FromBits(Bits(OnE2M1Grid(Abs(half[i]) / Set(scale))) | sign);
    StoreBF16(x + i * kLanes, grid * Set(scale));
    StoreBytes(reinterpret_cast<uint8_t*>(integers) + i * kLanes, ToInteger(grid + grid));
  }
  return scale;
}

// Quantises one head of a query in place and as integers.
void PutQueryHead(BF16* x, int64_t head, const IndexQuery& query) {
  for (int64_t g = 0; g < query.groups; ++g) {
    const int64_t at = head * query.groups + g;
    int8_t integer[kGroup];
    int8_t apart[kGroup];
    query.scale[at] = 0.25f * QuantiseQueryGroup(x + g * kGroup, integer);
    int32_t sum = 0;
    for (int64_t c = 0; c < kGroup; ++c) {
      apart[c / 8 * 8 + c % 2 * 4 + c % 8 / 2] = integer[c];
      sum += integer[c];
    }
    __builtin_memcpy(query.words + at * kGroupWords, apart, sizeof(apart));
    query.start[at] = -static_cast<int32_t>(kKeyOffset) * sum;
  }
}

// --- Keys. ---

// Sixteen keys as unsigned bytes, kKeyOffset too large.
struct KeyTile {
  uint32_t* words;  // [groups, kGroupWords, kLanes]
  float* scale;     // [groups, kLanes]

  static int64_t Words(int64_t groups) { return groups * (kGroupWords + 1) * kLanes; }
  static KeyTile In(uint32_t* memory, int64_t groups) {
    return {memory, reinterpret_cast<float*>(memory + groups * kGroupWords * kLanes)};
  }
};

// Bytes 2 * e2m1 + kKeyOffset of the codes in the low nibbles of all bytes; high nibbles are zero.
TW_INLINE U OffsetBytes(U nibbles) {
  U r;
#if defined(__AVX2__)
  const __m128i table = _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
#if defined(__AVX512F__)
  r.part[0] = reinterpret_cast<NativeU>(_mm512_shuffle_epi8(
      _mm512_broadcast_i32x4(table), reinterpret_cast<__m512i>(nibbles.part[0])));
#else
  for (int i = 0; i < kParts; ++i) {
    r.part[i] = reinterpret_cast<NativeU>(_mm256_shuffle_epi8(
        _mm256_broadcastsi128_si256(table), reinterpret_cast<__m256i>(nibbles.part[i])));
  }
#endif
#else
  constexpr uint8_t kTable[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
  uint8_t byte[4 * kLanes];
  StoreU(byte, nibbles);
  for (uint8_t& b : byte) b = kTable[b];
  r = LoadU(byte);
#endif
  return r;
}

// Up to sixteen words of a row, zero behind them.
TW_INLINE U LoadWords(const uint8_t* from, int64_t words) {
  if (words >= kLanes) return LoadU(from);
#if defined(__AVX512F__)
  const auto mask = static_cast<__mmask16>((1u << words) - 1);
  return {{reinterpret_cast<NativeU>(_mm512_maskz_loadu_epi32(mask, from))}};
#else
  uint32_t padded[kLanes] = {};
  __builtin_memcpy(padded, from, static_cast<size_t>(words) * 4);
  return LoadU(padded);
#endif
}

// e8m0 codes to scales: 0 is 2^-127, 255 is NaN.
TW_INLINE F ScalesOf(U codes) {
  const U plain = IfLess(codes, SetU(1), SetU(0x00400000u), codes << 23);
  return FromBits(IfLess(SetU(254), codes, SetU(0x7fc00000u), plain));
}

void PutKeyScales(const uint8_t* const* key, int64_t code_bytes, int64_t groups, float* out) {
  for (int64_t g = 0; g < groups; g += 4) {
    uint32_t codes[kLanes] = {};
    for (int i = 0; i < kLanes; ++i) {
      __builtin_memcpy(&codes[i], key[i] + code_bytes + g,
                       static_cast<size_t>(Least(4, groups - g)));
    }
    U words = LoadU(codes);
    for (int64_t i = g; i < Least(g + 4, groups); ++i, words = words >> 8) {
      Store(out + i * kLanes, ScalesOf(words & SetU(255)));
    }
  }
}

// Rows of sixteen keys to a tile.
void PutKeys(const uint8_t* const* key, int64_t groups, const KeyTile& tile) {
  const int64_t code_words = groups * kGroupWords / 2;
  const U nibble = SetU(0x0f0f0f0fu);
  for (int64_t w = 0; w < code_words; w += kLanes) {
    F words[kLanes];
    for (int i = 0; i < kLanes; ++i) words[i] = FromBits(LoadWords(key[i] + w * 4, code_words - w));
    Transpose16(words);
    for (int64_t i = 0; i < Least(kLanes, code_words - w); ++i) {
      uint32_t* out = tile.words + (w + i) * 2 * kLanes;
      StoreU(out, OffsetBytes(Bits(words[i]) & nibble));
      StoreU(out + kLanes, OffsetBytes((Bits(words[i]) >> 4) & nibble));
    }
  }
  PutKeyScales(key, code_words * 4, groups, tile.scale);
}

// --- Scores. ---

// dot[i] = products of the heads head + i with the keys.
template <int kHeads>
TW_INLINE void DotQueries(const IndexQuery& query, int64_t head, const KeyTile& keys, F* dot) {
  for (int i = 0; i < kHeads; ++i) dot[i] = Zero();
  for (int64_t g = 0; g < query.groups; ++g) {
    const int64_t at = head * query.groups + g;
    U sum[kHeads];
#pragma GCC unroll 8
    for (int64_t i = 0; i < kHeads; ++i) {
      sum[i] = SetU(static_cast<uint32_t>(query.start[at + i * query.groups]));
    }
#pragma GCC unroll 8
    for (int64_t w = 0; w < kGroupWords; ++w) {
      const U key = LoadU(keys.words + (g * kGroupWords + w) * kLanes);
#pragma GCC unroll 8
      for (int64_t i = 0; i < kHeads; ++i) {
        const uint32_t* words = query.words + (at + i * query.groups) * kGroupWords;
        sum[i] = DotU8S8(sum[i], key, SetU(words[w]));
      }
    }
    const F scale = Load(keys.scale + g * kLanes);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kHeads; ++i) {
      const F both = scale * Set(query.scale[at + i * query.groups]);
      dot[i] = AddExactProduct(dot[i], FromInteger(sum[i]), both);
    }
  }
}

// sum_h relu(q_h . key) w_h of sixteen keys.
F ScoreKeys(const IndexQuery& query, const KeyTile& keys) {
  F total = Zero();
  ForHeads<kScoreHeads>(0, query.heads, [&](auto tile, int64_t head) {
    F dot[tile];
    DotQueries<tile>(query, head, keys, dot);
    for (int64_t i = 0; i < tile; ++i) {
      total = total + Max(dot[i], Zero()) * Set(query.weight[head + i]);
    }
  });
  return total;
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
