// Stored numbers to floats, sixteen or thirty-two at a time. Every step is exact, so the way a
// target takes does not show in the bits.
#pragma once

#include "kernels/cpu/simd.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

struct ScaleTable {
  float value[256];
};

// 2^(code - 127 + shift), infinity where a float ends; code 255 is NaN, code 0 small.
constexpr ScaleTable MakeScaleTable(int shift) {
  ScaleTable table = {};
  table.value[0] = shift == 0 ? 0x1p-127f : __builtin_bit_cast(float, uint32_t(shift) << 23);
  for (int code = 1; code < 255; ++code) {
    const int exponent = code + shift;
    table.value[code] = __builtin_bit_cast(float, uint32_t(exponent < 255 ? exponent : 255) << 23);
  }
  table.value[255] = __builtin_nanf("");
  return table;
}

// Looked up, for a load can fill all lanes at once. e4m3 values come out of their decoder 2^8 too
// small; their scales make up for it.
constexpr ScaleTable kScales = MakeScaleTable(0);
constexpr ScaleTable kScalesOfE4M3 = MakeScaleTable(8);
TW_INLINE float ScaleOf(uint8_t code) { return kScales.value[code]; }
TW_INLINE float ScaleOfE4M3(uint8_t code) { return kScalesOfE4M3.value[code]; }

// All values of e4m3, for single codes.
struct E4M3Table {
  float value[256];
};

constexpr E4M3Table MakeE4M3Table() {
  E4M3Table table = {};
  for (int code = 0; code < 256; ++code) {
    const int exponent = (code >> 3) & 15;
    const int mantissa = code & 7;
    float magnitude = static_cast<float>(exponent == 0 ? mantissa : 8 + mantissa) * 0x1p-9f;
    for (int i = 1; i < exponent; ++i) magnitude *= 2;
    if (exponent == 15 && mantissa == 7) magnitude = __builtin_nanf("");
    table.value[code] = code >= 128 ? -magnitude : magnitude;
  }
  return table;
}

constexpr E4M3Table kE4M3Table = MakeE4M3Table();

#if defined(__AVX2__)

// Sixteen values times a scale, which comes from ScaleOfE4M3. An e4m3 code is the top of a
// half-precision number whose exponent is 8 too small, and the processor converts those, denormals
// included. The NaN code is set apart.
TW_INLINE __m256i HalvesOfE4M3(__m128i codes) {
  const __m256i wide = _mm256_slli_epi16(_mm256_cvtepi8_epi16(codes), 7);
  const __m256i half = _mm256_and_si256(wide, _mm256_set1_epi16(static_cast<int16_t>(0xbfff)));
  const __m256i magnitude = _mm256_and_si256(half, _mm256_set1_epi16(0x3f80));
  const __m256i is_nan = _mm256_cmpeq_epi16(magnitude, _mm256_set1_epi16(0x3f80));
  return _mm256_or_si256(half, _mm256_and_si256(is_nan, _mm256_set1_epi16(0x7e00)));
}

TW_INLINE F DecodeE4M3(const uint8_t* codes, F scale) {
  const __m256i half = HalvesOfE4M3(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
  F r;
#if defined(__AVX512F__)
  r.part[0] = reinterpret_cast<NativeF>(_mm512_cvtph_ps(half));
#else
  r.part[0] = reinterpret_cast<NativeF>(_mm256_cvtph_ps(_mm256_castsi256_si128(half)));
  r.part[1] = reinterpret_cast<NativeF>(_mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)));
#endif
  return r * scale;
}

#else

TW_INLINE F DecodeE4M3(const uint8_t* codes, F scale) {
  float lane[kLanes];
  for (int i = 0; i < kLanes; ++i) lane[i] = kE4M3Table.value[codes[i]] * 0x1p-8f;
  return Load(lane) * scale;
}

#endif

// The sixteen values of e2m1 times a scale, made once per group and then looked up.
struct E2M1Table {
#if defined(__AVX512F__)
  F values;
#elif defined(__AVX2__)
  __m256 magnitudes;
#else
  float values[16];
#endif
};

alignas(64) constexpr float kE2M1[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                         -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

TW_INLINE E2M1Table ScaledE2M1(float scale) {
  E2M1Table table;
#if defined(__AVX512F__)
  table.values = Load(kE2M1) * Set(scale);
#elif defined(__AVX2__)
  table.magnitudes = _mm256_mul_ps(_mm256_load_ps(kE2M1), _mm256_set1_ps(scale));
#else
  for (int i = 0; i < 16; ++i) table.values[i] = kE2M1[i] * scale;
#endif
  return table;
}

// Sixteen values from eight bytes, the even one in the low nibble.
TW_INLINE F DecodeE2M1(const uint8_t* codes, const E2M1Table& table) {
#if defined(__AVX512F__)
  // Each byte fills two words; a lookup reads the low four bits of a word.
  const __m512i bytes =
      _mm512_cvtepu8_epi64(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
  const __m512i nibbles = _mm512_or_si512(bytes, _mm512_slli_epi64(bytes, 28));
  return {{reinterpret_cast<NativeF>(
      _mm512_permutexvar_ps(nibbles, reinterpret_cast<__m512>(table.values.part[0])))}};
#elif defined(__AVX2__)
  F r;
  for (int i = 0; i < 2; ++i) {
    int32_t word;
    __builtin_memcpy(&word, codes + 4 * i, sizeof(word));
    const __m256i nibbles =
        _mm256_srlv_epi32(_mm256_set1_epi32(word), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i sign = _mm256_slli_epi32(_mm256_srli_epi32(nibbles, 3), 31);
    r.part[i] = reinterpret_cast<NativeF>(_mm256_xor_ps(
        _mm256_permutevar8x32_ps(table.magnitudes, nibbles), _mm256_castsi256_ps(sign)));
  }
  return r;
#else
  float lane[kLanes];
  for (int i = 0; i < 8; ++i) {
    lane[2 * i] = table.values[codes[i] & 15];
    lane[2 * i + 1] = table.values[codes[i] >> 4];
  }
  return Load(lane);
#endif
}

// Sixteen values that bf16 holds exactly.
TW_INLINE void StoreExact(BF16* p, F a) {
  for (int i = 0; i < kParts; ++i) {
    const NativeH half =
        __builtin_convertvector(reinterpret_cast<NativeU>(a.part[i]) >> 16, NativeH);
    __builtin_memcpy(static_cast<void*>(p + i * kNative), &half, sizeof(half));
  }
}

// An encoded cache row in bf16, which holds it exactly (spec/model.md 5.3); padded with zeros to a
// multiple of 32 values.
void DecodeCacheRow(RowFormat format, const uint8_t* row, int64_t width, BF16* out) {
  if (format == RowFormat::kFp8E8M0) {
    for (int64_t c = 0; c < width; c += kLanes) {
      StoreExact(out + c, DecodeE4M3(row + c, Set(ScaleOfE4M3(row[width + c / 32]))));
    }
  } else if (format == RowFormat::kFp4E8M0) {
    for (int64_t c = 0; c < width; c += kLanes) {
      const E2M1Table table = ScaledE2M1(ScaleOf(row[width / 2 + c / 32]));
      StoreExact(out + c, DecodeE2M1(row + c / 2, table));
    }
  } else if (format == RowFormat::kFp4E4M3) {
    for (int64_t c = 0; c < width; c += kLanes) {
      const float scale = kE4M3Table.value[row[width / 2 + c / 16]];
      StoreExact(out + c, DecodeE2M1(row + c / 2, ScaledE2M1(scale)));
    }
  } else {
    for (int64_t c = 0; c < width; c += kLanes) {
      StoreExact(out + c, LoadFirst(reinterpret_cast<const BF16*>(row) + c, width - c));
    }
  }
  const int64_t written = (width + kLanes - 1) / kLanes * kLanes;
  if (written % 32 != 0) StoreExact(out + written, Zero());
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
