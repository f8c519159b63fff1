// Sixteen lanes, whatever the processor: one register of AVX-512, two of AVX2, four of SSE2. Every
// sum of this backend runs over these sixteen lanes in the same order, so all targets give the same
// bits. Compiled once per target; everything has internal linkage, so that no function with
// instructions of one target can be picked by the linker for another.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "kernels/ops.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

#define TW_INLINE [[gnu::always_inline, maybe_unused]] inline

constexpr int kLanes = 16;
#if defined(__AVX512F__)
constexpr int kNative = 16;
#elif defined(__AVX2__)
constexpr int kNative = 8;
#else
constexpr int kNative = 4;
#endif
constexpr int kParts = kLanes / kNative;

typedef float NativeF __attribute__((vector_size(kNative * 4)));
typedef uint32_t NativeU __attribute__((vector_size(kNative * 4)));
typedef int32_t NativeI __attribute__((vector_size(kNative * 4)));
typedef uint16_t NativeH __attribute__((vector_size(kNative * 2)));
typedef uint8_t NativeB __attribute__((vector_size(kNative)));

// Sixteen floats, and sixteen 32-bit words (also masks: all ones or zero).
struct F {
  NativeF part[kParts];
};
struct U {
  NativeU part[kParts];
};

#define TW_BINARY(type, op)                                              \
  TW_INLINE type operator op(type a, type b) {                           \
    type r;                                                              \
    for (int i = 0; i < kParts; ++i) r.part[i] = a.part[i] op b.part[i]; \
    return r;                                                            \
  }
TW_BINARY(F, +)
TW_BINARY(F, -)
TW_BINARY(F, *)
TW_BINARY(F, /)
TW_BINARY(U, +)
TW_BINARY(U, -)
TW_BINARY(U, &)
TW_BINARY(U, |)
TW_BINARY(U, ^)
#undef TW_BINARY

TW_INLINE U operator<<(U a, int n) {
  for (NativeU& part : a.part) part = part << n;
  return a;
}
TW_INLINE U operator>>(U a, int n) {
  for (NativeU& part : a.part) part = part >> n;
  return a;
}

TW_INLINE F Set(float x) {
  F r;
  for (NativeF& part : r.part) part = x - NativeF{};  // x - 0 is x, also for -0: a plain broadcast
  return r;
}
TW_INLINE U SetU(uint32_t x) {
  U r;
  for (NativeU& part : r.part) part = NativeU{} + x;
  return r;
}
TW_INLINE F Zero() {
  F r;
  for (NativeF& part : r.part) part = NativeF{};
  return r;
}

TW_INLINE U Bits(F a) {
  U r;
  for (int i = 0; i < kParts; ++i) r.part[i] = reinterpret_cast<NativeU>(a.part[i]);
  return r;
}
TW_INLINE F FromBits(U a) {
  F r;
  for (int i = 0; i < kParts; ++i) r.part[i] = reinterpret_cast<NativeF>(a.part[i]);
  return r;
}

// yes where a < b, else no; a NaN compares false.
TW_INLINE F IfLess(F a, F b, F yes, F no) {
  F r;
  for (int i = 0; i < kParts; ++i) r.part[i] = a.part[i] < b.part[i] ? yes.part[i] : no.part[i];
  return r;
}
// yes where a < b as unsigned words, else no.
TW_INLINE U IfLess(U a, U b, U yes, U no) {
  U r;
  for (int i = 0; i < kParts; ++i) r.part[i] = a.part[i] < b.part[i] ? yes.part[i] : no.part[i];
  return r;
}
// b where a or b is NaN.
TW_INLINE F Max(F a, F b) { return IfLess(b, a, a, b); }
TW_INLINE F Min(F a, F b) { return IfLess(a, b, a, b); }
TW_INLINE U Max(U a, U b) { return IfLess(a, b, b, a); }
TW_INLINE F Abs(F a) { return FromBits(Bits(a) & SetU(0x7fffffffu)); }

// The integer value of each word, as floats and back (towards zero).
TW_INLINE U ToInteger(F a) {
  U r;
  for (int i = 0; i < kParts; ++i) {
    r.part[i] = reinterpret_cast<NativeU>(__builtin_convertvector(a.part[i], NativeI));
  }
  return r;
}

TW_INLINE F FromInteger(U a) {
  F r;
  for (int i = 0; i < kParts; ++i) {
    r.part[i] = __builtin_convertvector(reinterpret_cast<NativeI>(a.part[i]), NativeF);
  }
  return r;
}

TW_INLINE F Load(const float* p) {
  F r;
  for (int i = 0; i < kParts; ++i) __builtin_memcpy(&r.part[i], p + i * kNative, sizeof(NativeF));
  return r;
}
TW_INLINE void Store(float* p, F a) {
  for (int i = 0; i < kParts; ++i) __builtin_memcpy(p + i * kNative, &a.part[i], sizeof(NativeF));
}

TW_INLINE float ValueOf(BF16 x) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16);
}
TW_INLINE F LoadBF16(const BF16* p) {
  F r;
  for (int i = 0; i < kParts; ++i) {
    NativeH half;
    __builtin_memcpy(&half, p + i * kNative, sizeof(half));
    r.part[i] = reinterpret_cast<NativeF>(__builtin_convertvector(half, NativeU) << 16);
  }
  return r;
}

#if defined(__AVX512BF16__)

// bf16(a), to nearest even; NaN stays a quiet NaN, denormals become zero.
TW_INLINE __m256i ToBF16(F a) {
#if defined(__clang__)
  __m256i r;  // clang 16 does not get over casts of bf16 vectors
  asm("vcvtneps2bf16 %1, %0" : "=v"(r) : "v"(a.part[0]));
  return r;
#else
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(a.part[0])));
#endif
}
TW_INLINE U BF16Bits(F a) {
  return {{reinterpret_cast<NativeU>(_mm512_cvtepu16_epi32(ToBF16(a)))}};
}
TW_INLINE F RoundToBF16(F a) { return FromBits(BF16Bits(a) << 16); }
TW_INLINE void StoreBF16(BF16* p, F a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), ToBF16(a));
}

#else

// The bits of bf16(a), to nearest even, in the low half of each word; NaN stays a quiet NaN.
TW_INLINE U BF16Bits(F a) {
  const U bits = Bits(a);
  const U rounded = (bits + SetU(0x7fffu) + ((bits >> 16) & SetU(1))) >> 16;
  const U quiet = (bits >> 16) | SetU(0x40u);
  return IfLess(SetU(0x7f800000u), bits & SetU(0x7fffffffu), quiet, rounded);
}
TW_INLINE F RoundToBF16(F a) { return FromBits(BF16Bits(a) << 16); }
TW_INLINE void StoreBF16(BF16* p, F a) {
  const U bits = BF16Bits(a);
  for (int i = 0; i < kParts; ++i) {
    const NativeH half = __builtin_convertvector(bits.part[i], NativeH);
    __builtin_memcpy(static_cast<void*>(p + i * kNative), &half, sizeof(half));
  }
}
#endif

TW_INLINE void StoreBytes(uint8_t* p, U a) {
  for (int i = 0; i < kParts; ++i) {
    const NativeB bytes = __builtin_convertvector(a.part[i], NativeB);
    __builtin_memcpy(p + i * kNative, &bytes, sizeof(bytes));
  }
}

// The first n of sixteen values; the others read as zero and are not written.
TW_INLINE F LoadFirst(const float* p, int64_t n) {
  if (n >= kLanes) return Load(p);
  float padded[kLanes] = {};
  __builtin_memcpy(padded, p, static_cast<size_t>(n) * sizeof(float));
  return Load(padded);
}
TW_INLINE F LoadFirst(const BF16* p, int64_t n) {
  if (n >= kLanes) return LoadBF16(p);
  uint16_t padded[kLanes] = {};
  __builtin_memcpy(padded, p, static_cast<size_t>(n) * sizeof(BF16));
  return LoadBF16(reinterpret_cast<const BF16*>(padded));
}
TW_INLINE void StoreFirst(float* p, F a, int64_t n) {
  if (n >= kLanes) return Store(p, a);
  float padded[kLanes];
  Store(padded, a);
  __builtin_memcpy(p, padded, static_cast<size_t>(n) * sizeof(float));
}
TW_INLINE void StoreFirst(BF16* p, F a, int64_t n) {
  if (n >= kLanes) return StoreBF16(p, a);
  BF16 padded[kLanes];
  StoreBF16(padded, a);
  __builtin_memcpy(static_cast<void*>(p), padded, static_cast<size_t>(n) * sizeof(BF16));
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
