// Groups of a panel as pairs of bf16 that have their scale in them: sixteen pairs of thirty-two
// outputs, 128 bytes a pair. Scales are powers of two and e2m1, e4m3 and 8-bit integers have at
// most eight significant bits, so nothing is rounded.
//
// As elsewhere scale code 0 is 0 and 255 infinity; values below the normal floats count as zero in
// the instruction that reads them.
#pragma once

#include "kernels/cpu/lines.inc.h"

#if defined(__AVX512VBMI__)

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

constexpr int kGroupPairs = 16;
constexpr int64_t kScaledGroupBytes = kGroupPairs * kLineBytes;
constexpr int64_t kScaledPrefetch = 4096;  // bytes ahead in the packed panel

// --- fp4: a scale for every output, added to exponents. ---

// Both halves of every word times its lane's scale, whatever comes of it.
[[gnu::noinline]] U ScaleAny(U pair, U codes) {
  const F scale = FromBits(ScaleBits(codes));
  const F low = FromBits(pair << 16) * scale;
  const F high = FromBits(pair & SetU(0xffff0000u)) * scale;
  return (Bits(low) >> 16) | (Bits(high) & SetU(0xffff0000u));
}

// The same where no exponent leaves its range: `steps` are scale exponents in both halves.
TW_INLINE U ScaleNormal(U pair, __m512i steps) {
  const auto words = reinterpret_cast<__m512i>(pair.part[0]);
  const __mmask32 not_zero = _mm512_test_epi16_mask(words, _mm512_set1_epi16(0x7fff));
  return {{reinterpret_cast<NativeU>(_mm512_maskz_add_epi16(not_zero, words, steps))}};
}

// Whether every value of e2m1 but zero stays a normal float under each of these scales.
TW_INLINE bool ScalesAreNormal(U codes) {
  constexpr uint32_t kLeast = 2, kMost = 252;
  const auto above = reinterpret_cast<__m512i>((codes - SetU(kLeast)).part[0]);
  return _mm512_cmpgt_epu32_mask(above, _mm512_set1_epi32(kMost - kLeast)) == 0;
}

template <typename Scale>
TW_INLINE void DecodeFp4Half(const uint8_t* lines, uint8_t* out, const Scale& scale) {
#pragma GCC unroll 4
  for (int line = 0; line < LinesFp4::kLines; ++line) {
    const uint8_t* at = lines + line * kLineBytes;
    __builtin_prefetch(at + kScaledPrefetch);
    const U word = LoadU(at);
#pragma GCC unroll 4
    for (int p = 0; p < LinesFp4::kWords; ++p)
      StoreU(out + (line * LinesFp4::kWords + p) * kLineBytes, scale(PairOfFp4(word, p)));
  }
}

struct ScaledFp4 {
  TW_INLINE static void Decode(const Panel& w, int64_t group, uint8_t* out) {
    const uint8_t* lines = w.lines + group * (LinesFp4::kLines * kLineBytes);
    for (int half = 0; half < 2; ++half) {
      const int64_t at = half * kHalfLineBytes;
      const U codes = Fp4ScaleCodes(w.scales, group, half);
      if (ScalesAreNormal(codes)) [[likely]] {
        const U step = ((codes - SetU(127)) << 7) & SetU(0xffffu);
        const auto steps = reinterpret_cast<__m512i>((step | (step << 16)).part[0]);
        DecodeFp4Half(lines + at, out + at, [&](U pair) { return ScaleNormal(pair, steps); });
      } else {
        DecodeFp4Half(lines + at, out + at, [&](U pair) { return ScaleAny(pair, codes); });
      }
    }
  }
};

// --- One scale for a whole group: tables of bytes with the scale in them. ---

// For every scale code both bytes of bf16(magnitude * scale).
struct ScaledTables {
  ByteTable128 of[256];
};

template <typename Magnitude>
const ScaledTables* MakeTables(const Magnitude& magnitude) {
  static ScaledTables tables;
  for (uint32_t code = 0; code < 256; ++code) {
    const float scale = __builtin_bit_cast(float, code << 23);
    for (int i = 0; i < 128; ++i) {
      const auto bits = __builtin_bit_cast(uint32_t, magnitude(i) * scale);
      tables.of[code].low[i] = static_cast<uint8_t>(bits >> 16);
      tables.of[code].high[i] = static_cast<uint8_t>(bits >> 24);
    }
  }
  return &tables;
}

// `codes` are a sign and seven bits that the table knows.
TW_INLINE void DecodeByTable(const ByteTable128& table, __m512i codes, uint8_t* out) {
  const RawFp8 raw = LookUpFp8(codes, table);
  StoreU(out, PairOfFp8(raw, 0));
  StoreU(out + kLineBytes, PairOfFp8(raw, 1));
}

struct ScaledFp8 {
  static const ScaledTables& Tables() {
    static const ScaledTables* const tables = MakeTables([](int i) { return kE4M3Table.value[i]; });
    return *tables;
  }
  TW_INLINE static __m512i Codes(__m512i bytes) { return bytes; }
};

// Bytes around 128 to a sign and a magnitude.
struct ScaledInt8 {
  static const ScaledTables& Tables() {
    static const ScaledTables* const tables =
        MakeTables([](int i) { return static_cast<float>(i); });
    return *tables;
  }
  TW_INLINE static __m512i Codes(__m512i bytes) {
    const __m512i sign = _mm512_set1_epi8(-128);
    const __m512i value = _mm512_xor_si512(bytes, sign);
    constexpr int kOrAnd = 0xf8;  // a | (b & c)
    return _mm512_ternarylogic_epi32(_mm512_abs_epi8(value), value, sign, kOrAnd);
  }
};

template <typename Kind>
struct ScaledByTable {
  TW_INLINE static void Decode(const Panel& w, int64_t group, uint8_t* out) {
    const ByteTable128& table = Kind::Tables().of[w.scales[group]];
    const uint8_t* lines = w.lines + group * (LinesFp8::kLines * kLineBytes);
#pragma GCC unroll 4
    for (int line = 0; line < LinesFp8::kLines; ++line) {
#pragma GCC unroll 2
      for (int64_t at = line * kLineBytes; at < (line + 1) * kLineBytes; at += kHalfLineBytes) {
        __builtin_prefetch(lines + at + kScaledPrefetch);
        DecodeByTable(table, Kind::Codes(_mm512_loadu_si512(lines + at)),
                      out + at + line * kLineBytes);
      }
    }
  }
};

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET

#endif
