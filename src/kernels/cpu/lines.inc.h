// Half a line of a panel (sixteen outputs) as operands of the dot products of dot.inc.h: words of
// two bf16 values, or words of four bytes. Decoding is exact.
#pragma once

#include "kernels/cpu/decode.inc.h"
#include "kernels/cpu/dot.inc.h"
#include "kernels/cpu/layout.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// 2^(code - 127) as the bits of a float. The ends of the range are not those of e8m0: code 0 is 0
// (for 2^-127) and code 255 infinity (for NaN), which saves three operations for every group.
TW_INLINE U ScaleBits(U code) { return code << 23; }

// Sixteen bytes, one a lane.
TW_INLINE U LoadBytes(const uint8_t* p) {
  U r;
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  r.part[0] = reinterpret_cast<NativeU>(_mm512_cvtepu8_epi32(bytes));
#elif defined(__AVX2__)
  for (int i = 0; i < kParts; ++i) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + i * kNative));
    r.part[i] = reinterpret_cast<NativeU>(_mm256_cvtepu8_epi32(bytes));
  }
#else
  uint32_t lane[kLanes];
  for (int i = 0; i < kLanes; ++i) lane[i] = p[i];
  r = LoadU(lane);
#endif
  return r;
}

// --- bf16: a word is two neighbouring columns. ---

struct LinesBF16 {
  static constexpr int kLines = 16, kWords = 1;
  // Columns of pair j of a group (low half, high half): where the word of a line has them.
  static constexpr int kLowColumn(int pair) { return 2 * pair; }
  static constexpr int kHighColumn(int pair) { return 2 * pair + 1; }

  using Raw = U;
  TW_INLINE static Raw Read(const uint8_t* line) { return LoadU(line); }
  TW_INLINE static U Word(const Raw& raw, int) { return raw; }
  TW_INLINE static F Scale(const uint8_t*, int64_t, int) { return Set(1.0f); }
};

// --- fp8: bytes 0 and 2 of a word are a pair, bytes 1 and 3 the other. ---

#if defined(__AVX512VBMI__)

struct ByteTable128 {
  alignas(64) uint8_t low[128];
  alignas(64) uint8_t high[128];
};

// Both bytes of bf16(e4m3 magnitude).
constexpr ByteTable128 MakeE4M3Bytes() {
  ByteTable128 table = {};
  for (int code = 0; code < 128; ++code) {
    const auto bits = __builtin_bit_cast(uint32_t, kE4M3Table.value[code]);
    table.low[code] = static_cast<uint8_t>(bits >> 16);
    table.high[code] = static_cast<uint8_t>(bits >> 24);
  }
  return table;
}
constexpr ByteTable128 kE4M3Bytes = MakeE4M3Bytes();

// The lower and the upper bytes of all four bf16 numbers of a word.
struct RawFp8 {
  __m512i low, high;
};

// `codes` are a sign and seven bits that the table knows.
TW_INLINE RawFp8 LookUpFp8(__m512i codes, const ByteTable128& table) {
  const __m512i low = _mm512_permutex2var_epi8(_mm512_load_si512(table.low), codes,
                                               _mm512_load_si512(table.low + 64));
  const __m512i magnitude = _mm512_permutex2var_epi8(_mm512_load_si512(table.high), codes,
                                                     _mm512_load_si512(table.high + 64));
  constexpr int kOrAnd = 0xf8;  // a | (b & c)
  return {low, _mm512_ternarylogic_epi32(magnitude, codes, _mm512_set1_epi8(-128), kOrAnd)};
}

TW_INLINE RawFp8 ReadFp8(const uint8_t* line) {
  return LookUpFp8(_mm512_loadu_si512(line), kE4M3Bytes);
}

TW_INLINE U PairOfFp8(const RawFp8& raw, int pair) {
  constexpr int kChoose = 0xd8;  // c ? b : a, bit by bit
  const __m512i top = _mm512_set1_epi16(static_cast<int16_t>(0xff00));
  const __m512i low = pair == 0 ? raw.low : _mm512_srli_epi16(raw.low, 8);
  const __m512i high = pair == 0 ? _mm512_slli_epi16(raw.high, 8) : raw.high;
  return {{reinterpret_cast<NativeU>(_mm512_ternarylogic_epi32(low, high, top, kChoose))}};
}

#else

// Upper half of the float of an e4m3 code in the low byte of each lane, in the upper half.
TW_INLINE U Fp8Upper(U code) {
  const U magnitude = code & SetU(0x7fu);
  const U normal = (magnitude << 20) + SetU(120u << 23);
  // Denormals: the same bits with the leading one put in, less that one.
  const F denormal = FromBits(normal + SetU(1u << 23)) - Set(0x1p-6f);
  U bits = IfLess(magnitude, SetU(8u), Bits(denormal), normal);
  bits = IfLess(SetU(0x7eu), magnitude, SetU(0x7fc00000u), bits);
  return bits | ((code & SetU(0x80u)) << 24);
}

using RawFp8 = U;

TW_INLINE RawFp8 ReadFp8(const uint8_t* line) { return LoadU(line); }

TW_INLINE U PairOfFp8(const RawFp8& word, int pair) {
  const U byte = SetU(0xffu);
  return (Fp8Upper((word >> (8 * pair)) & byte) >> 16) | Fp8Upper((word >> (8 * pair + 16)) & byte);
}

#endif

struct LinesFp8 {
  static constexpr int kLines = 8, kWords = 2;
  static constexpr int kLowColumn(int pair) { return pair / 2 * 4 + pair % 2; }
  static constexpr int kHighColumn(int pair) { return kLowColumn(pair) + 2; }

  using Raw = RawFp8;
  TW_INLINE static Raw Read(const uint8_t* line) { return ReadFp8(line); }
  TW_INLINE static U Word(const Raw& raw, int pair) { return PairOfFp8(raw, pair); }
  TW_INLINE static F Scale(const uint8_t* scales, int64_t group, int) {
    return FromBits(ScaleBits(SetU(scales[group])));
  }
};

// --- fp4: nibble t of the lower half of a word and nibble t of the upper half are a pair. ---

struct E2M1Words {
  alignas(64) uint16_t half[32];          // twice: a lookup of words takes five bits of its index
  alignas(64) uint8_t low[32], high[32];  // bytes of it, twice
  alignas(64) uint8_t offset[64];         // 2 * value + 12, four times
};

constexpr int kFp4Offset = 12;

constexpr E2M1Words MakeE2M1Words() {
  E2M1Words table = {};
  for (int i = 0; i < 64; ++i) {
    const auto bits = __builtin_bit_cast(uint32_t, kE2M1[i % 16]);
    if (i < 32) table.half[i] = static_cast<uint16_t>(bits >> 16);
    if (i < 32) table.low[i] = static_cast<uint8_t>(bits >> 16);
    if (i < 32) table.high[i] = static_cast<uint8_t>(bits >> 24);
    table.offset[i] = static_cast<uint8_t>(static_cast<int>(2 * kE2M1[i % 16]) + kFp4Offset);
  }
  return table;
}
constexpr E2M1Words kE2M1Words = MakeE2M1Words();

#if defined(__AVX512F__)

TW_INLINE U PairOfFp4(U word, int pair) {
  const __m512i codes =
      _mm512_srli_epi16(reinterpret_cast<__m512i>(word.part[0]), static_cast<unsigned>(4 * pair));
  return {{reinterpret_cast<NativeU>(
      _mm512_permutexvar_epi16(codes, _mm512_load_si512(kE2M1Words.half)))}};
}

#elif defined(__AVX2__)

// Bytes 0 and 2 of a lane hold a nibble; zero looks up zero in the others.
TW_INLINE U PairOfFp4(U word, int pair) {
  const __m256i low = _mm256_load_si256(reinterpret_cast<const __m256i*>(kE2M1Words.low));
  const __m256i high = _mm256_load_si256(reinterpret_cast<const __m256i*>(kE2M1Words.high));
  const U nibbles = (word >> (4 * pair)) & SetU(0x000f000fu);
  U r;
  for (int i = 0; i < kParts; ++i) {
    const auto index = reinterpret_cast<__m256i>(nibbles.part[i]);
    const __m256i upper = _mm256_slli_epi16(_mm256_shuffle_epi8(high, index), 8);
    r.part[i] = reinterpret_cast<NativeU>(_mm256_or_si256(upper, _mm256_shuffle_epi8(low, index)));
  }
  return r;
}

#elif defined(__aarch64__)

// The same, sixteen lookups at once.
TW_INLINE U PairOfFp4(U word, int pair) {
  const uint8x16_t low = vld1q_u8(kE2M1Words.low), high = vld1q_u8(kE2M1Words.high);
  const U nibbles = (word >> (4 * pair)) & SetU(0x000f000fu);
  U r;
  for (int i = 0; i < kParts; ++i) {
    const auto index = reinterpret_cast<uint8x16_t>(nibbles.part[i]);
    const auto upper = reinterpret_cast<uint16x8_t>(vqtbl1q_u8(high, index));
    const auto lower = reinterpret_cast<uint16x8_t>(vqtbl1q_u8(low, index));
    r.part[i] = reinterpret_cast<NativeU>(vsliq_n_u16(lower, upper, 8));
  }
  return r;
}

#else

// Out of line: sixteen lookups unrolled into every product would take the compiler minutes.
[[gnu::noinline]] U PairOfFp4(U word, int pair) {
  uint32_t lane[kLanes];
  StoreU(lane, word >> (4 * pair));
  for (uint32_t& w : lane)
    w = kE2M1Words.half[w & 15u] | static_cast<uint32_t>(kE2M1Words.half[w >> 16 & 15u]) << 16;
  return LoadU(lane);
}

#endif

TW_INLINE U Fp4ScaleCodes(const uint8_t* scales, int64_t group, int half) {
  return LoadBytes(scales + group * kPanelOuts + half * kLanes);
}

struct LinesFp4 {
  static constexpr int kLines = 4, kWords = 4;
  static constexpr int kLowColumn(int pair) { return pair / 4 * 8 + pair % 4; }
  static constexpr int kHighColumn(int pair) { return kLowColumn(pair) + 4; }

  using Raw = U;
  TW_INLINE static Raw Read(const uint8_t* line) { return LoadU(line); }
  TW_INLINE static U Word(const Raw& raw, int pair) { return PairOfFp4(raw, pair); }
  TW_INLINE static F Scale(const uint8_t* scales, int64_t group, int half) {
    return FromBits(ScaleBits(Fp4ScaleCodes(scales, group, half)));
  }
};

// --- Bytes for Numerics::kFast: unsigned, around an offset. ---

// The lower four bits of every byte by kE2M1Words.offset.
#if defined(__AVX2__)
TW_INLINE U LookUpOffsets(U codes) {
  U r;
#if defined(__AVX512VBMI__)
  // A lookup takes six bits of its index: the table is there four times.
  const __m512i table = _mm512_load_si512(kE2M1Words.offset);
  r.part[0] = reinterpret_cast<NativeU>(
      _mm512_permutexvar_epi8(reinterpret_cast<__m512i>(codes.part[0]), table));
#elif defined(__AVX512F__)
  const __m512i table = _mm512_load_si512(kE2M1Words.offset);
  const U nibbles = codes & SetU(0x0f0f0f0fu);
  r.part[0] = reinterpret_cast<NativeU>(
      _mm512_shuffle_epi8(table, reinterpret_cast<__m512i>(nibbles.part[0])));
#else
  const __m256i table = _mm256_load_si256(reinterpret_cast<const __m256i*>(kE2M1Words.offset));
  const U nibbles = codes & SetU(0x0f0f0f0fu);
  for (int i = 0; i < kParts; ++i) {
    r.part[i] = reinterpret_cast<NativeU>(
        _mm256_shuffle_epi8(table, reinterpret_cast<__m256i>(nibbles.part[i])));
  }
#endif
  return r;
}
#elif defined(__aarch64__)
TW_INLINE U LookUpOffsets(U codes) {
  const uint8x16_t table = vld1q_u8(kE2M1Words.offset);
  const U nibbles = codes & SetU(0x0f0f0f0fu);
  U r;
  for (int i = 0; i < kParts; ++i) {
    const auto index = reinterpret_cast<uint8x16_t>(nibbles.part[i]);
    r.part[i] = reinterpret_cast<NativeU>(vqtbl1q_u8(table, index));
  }
  return r;
}
#else
[[gnu::noinline]] U LookUpOffsets(U codes) {
  uint8_t byte[kHalfLineBytes];
  StoreU(byte, codes);
  for (uint8_t& b : byte) b = kE2M1Words.offset[b & 15u];
  return LoadU(byte);
}
#endif

struct QuadsFp4 {
  static constexpr int kLines = 4, kWords = 2;
  static constexpr int kOffset = kFp4Offset;
  static constexpr int kExponentBias = 1;  // weights are twice their value
  // Column of byte b of quad j of a group.
  static constexpr int kColumn(int quad, int b) { return quad / 2 * 8 + 2 * b + quad % 2; }

  using Raw = U;
  TW_INLINE static Raw Read(const uint8_t* line) { return LoadU(line); }
  TW_INLINE static U Word(const Raw& codes, int quad) {
    return LookUpOffsets(quad == 0 ? codes : codes >> 4);
  }
  TW_INLINE static U Dot(U acc, U weights, U x) { return DotU8S8(acc, weights, x); }
  TW_INLINE static U ScaleCodes(const uint8_t* scales, int64_t group, int half) {
    return Fp4ScaleCodes(scales, group, half);
  }
};

// The four products of a lane where unsigned bytes use all eight bits.
TW_INLINE U DotFullU8S8(U acc, U unsigned_bytes, U signed_bytes) {
#if defined(__AVX512VNNI__)
  return DotU8S8(acc, unsigned_bytes, signed_bytes);
#else
  // x = 2 h + l with h in 0..127 and l in 0..1.
  const U halves = (unsigned_bytes >> 1) & SetU(0x7f7f7f7fu);
  const U odd = unsigned_bytes & SetU(0x01010101u);
  const U twice = DotU8S8(SetU(0), halves, signed_bytes) << 1;
  return DotU8S8(acc + twice, odd, signed_bytes);
#endif
}

struct QuadsInt8 {
  static constexpr int kLines = 8, kWords = 1;
  static constexpr int kOffset = 128;
  static constexpr int kExponentBias = 0;
  static constexpr int kColumn(int quad, int b) { return 4 * quad + b; }

  using Raw = U;
  TW_INLINE static Raw Read(const uint8_t* line) { return LoadU(line); }
  TW_INLINE static U Word(const Raw& raw, int) { return raw; }
  TW_INLINE static U Dot(U acc, U weights, U x) { return DotFullU8S8(acc, weights, x); }
  TW_INLINE static U ScaleCodes(const uint8_t* scales, int64_t group, int) {
    return SetU(scales[group]);
  }
};

// --- The same weights decoded once for many rows: one word a line, scales as they were. ---

template <typename Lines>
struct DecodedPairs {
  static constexpr int kLines = 16, kWords = 1;
  using Raw = U;
  TW_INLINE static Raw Read(const uint8_t* line) { return LoadU(line); }
  TW_INLINE static U Word(const Raw& raw, int) { return raw; }
  TW_INLINE static F Scale(const uint8_t* scales, int64_t group, int half) {
    return Lines::Scale(scales, group, half);
  }
};

template <typename Quads>
struct DecodedQuads {
  static constexpr int kLines = 8, kWords = 1;
  using Raw = U;
  TW_INLINE static Raw Read(const uint8_t* line) { return LoadU(line); }
  TW_INLINE static U Word(const Raw& raw, int) { return raw; }
  TW_INLINE static U Dot(U acc, U weights, U x) { return Quads::Dot(acc, weights, x); }
  TW_INLINE static U ScaleCodes(const uint8_t* scales, int64_t group, int half) {
    return Quads::ScaleCodes(scales, group, half);
  }
};

template <typename Weights>
void DecodeLines(const Panel& w, int64_t groups, uint8_t* out) {
  const int64_t bytes = groups * Weights::kLines * kLineBytes;
  for (int64_t at = 0; at < bytes; at += kHalfLineBytes) {
    const int64_t line = at / kLineBytes, inside = at % kLineBytes;
    const auto raw = Weights::Read(w.lines + at);
    for (int i = 0; i < Weights::kWords; ++i)
      StoreU(out + (line * Weights::kWords + i) * kLineBytes + inside, Weights::Word(raw, i));
  }
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
