// Sixteen lanes, whatever the processor: one register of AVX-512, two of AVX2, four of SSE2. Every
// sum of this backend runs over these sixteen lanes in the same order, so all targets give the same
// bits. Compiled once per target; everything has internal linkage, so that no function with
// instructions of one target can be picked by the linker for another.
#pragma once

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
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

// Lanes of a and b picked by constant indices (16 and more are b's): the same on every target.
#if defined(__AVX512F__)
#define TW_SHUFFLE(name, ...)                                              \
  TW_INLINE F name(F a, F b) {                                             \
    return {{__builtin_shufflevector(a.part[0], b.part[0], __VA_ARGS__)}}; \
  }
#else
#define TW_SHUFFLE(name, ...)                                                       \
  TW_INLINE F name(F a, F b) {                                                      \
    constexpr int kPick[kLanes] = {__VA_ARGS__};                                    \
    F r;                                                                            \
    for (int i = 0; i < kLanes; ++i) {                                              \
      const int lane = kPick[i] % kLanes;                                           \
      const F& from = kPick[i] < kLanes ? a : b;                                    \
      r.part[i / kNative][i % kNative] = from.part[lane / kNative][lane % kNative]; \
    }                                                                               \
    return r;                                                                       \
  }
#endif
// For groups of 2h lanes: the first h of each group, or the last h, of a and then of b.
TW_SHUFFLE(First8, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23)
TW_SHUFFLE(Last8, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31)
TW_SHUFFLE(First4, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
TW_SHUFFLE(Last4, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)
TW_SHUFFLE(First2, 0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21, 24, 25, 28, 29)
TW_SHUFFLE(Last2, 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23, 26, 27, 30, 31)
TW_SHUFFLE(First1, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
TW_SHUFFLE(Last1, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
// Neighbours exchanged: (1, 0, 3, 2, ...).
TW_SHUFFLE(SwapPairsOf, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
// A 4x4 matrix: column j, or row k, repeated over the matrix.
TW_SHUFFLE(Column0, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12)
TW_SHUFFLE(Column1, 1, 1, 1, 1, 5, 5, 5, 5, 9, 9, 9, 9, 13, 13, 13, 13)
TW_SHUFFLE(Column2, 2, 2, 2, 2, 6, 6, 6, 6, 10, 10, 10, 10, 14, 14, 14, 14)
TW_SHUFFLE(Column3, 3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 15, 15, 15, 15)
TW_SHUFFLE(Row0, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3)
TW_SHUFFLE(Row1, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7)
TW_SHUFFLE(Row2, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11, 8, 9, 10, 11)
TW_SHUFFLE(Row3, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15, 12, 13, 14, 15)
#undef TW_SHUFFLE

TW_INLINE F SwapPairs(F a) { return SwapPairsOf(a, a); }

// The sums over lanes of `kCount` vectors (a power of two up to 16), in the first kCount lanes.
// Halves are added to halves: ((l0+l8)+(l4+l12)) + ..., the one order of every sum.
template <int kCount>
TW_INLINE F SumLanes(const F* v) {
  constexpr int kA = kCount > 1 ? kCount / 2 : 1;
  constexpr int kB = kA > 1 ? kA / 2 : 1;
  constexpr int kC = kB > 1 ? kB / 2 : 1;
  F a[kA], b[kB], c[kC];
  for (int i = 0; i < kA; ++i) {
    const F& x = v[kCount > 1 ? 2 * i : i];
    const F& y = v[kCount > 1 ? 2 * i + 1 : i];
    a[i] = First8(x, y) + Last8(x, y);
  }
  for (int i = 0; i < kB; ++i) {
    const F& x = a[kA > 1 ? 2 * i : i];
    const F& y = a[kA > 1 ? 2 * i + 1 : i];
    b[i] = First4(x, y) + Last4(x, y);
  }
  for (int i = 0; i < kC; ++i) {
    const F& x = b[kB > 1 ? 2 * i : i];
    const F& y = b[kB > 1 ? 2 * i + 1 : i];
    c[i] = First2(x, y) + Last2(x, y);
  }
  const F& x = c[0];
  const F& y = c[kC > 1 ? 1 : 0];
  return First1(x, y) + Last1(x, y);
}
TW_INLINE float SumLanes(F v) { return SumLanes<1>(&v).part[0][0]; }
TW_INLINE float MaxLanes(F v) {
  float lane[kLanes];
  Store(lane, v);
  float best = lane[0];
  for (int i = 1; i < kLanes; ++i) best = lane[i] > best ? lane[i] : best;
  return best;
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
