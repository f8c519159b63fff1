// Dot products of small operands inside each of sixteen 32-bit lanes: two products of bf16, four of
// bytes. Processors with AVX512-BF16 and AVX512-VNNI have an instruction for each; the others do
// the same arithmetic in steps, and get the same bits.
#pragma once

#include "kernels/cpu/simd.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

TW_INLINE U LoadU(const void* p) {
  U r;
  for (int i = 0; i < kParts; ++i) {
    __builtin_memcpy(&r.part[i], static_cast<const char*>(p) + i * kNative * 4, sizeof(NativeU));
  }
  return r;
}
TW_INLINE void StoreU(void* p, U a) {
  for (int i = 0; i < kParts; ++i) {
    __builtin_memcpy(static_cast<char*>(p) + i * kNative * 4, &a.part[i], sizeof(NativeU));
  }
}

// acc + a * b where the product is exact in fp32: one rounding, fused or not.
TW_INLINE F AddExactProduct(F acc, F a, F b) {
#if defined(__AVX512F__)
  return {{reinterpret_cast<NativeF>(_mm512_fmadd_ps(reinterpret_cast<__m512>(a.part[0]),
                                                     reinterpret_cast<__m512>(b.part[0]),
                                                     reinterpret_cast<__m512>(acc.part[0])))}};
#elif defined(__AVX2__)
  for (int i = 0; i < kParts; ++i) {
    acc.part[i] = reinterpret_cast<NativeF>(_mm256_fmadd_ps(reinterpret_cast<__m256>(a.part[i]),
                                                            reinterpret_cast<__m256>(b.part[i]),
                                                            reinterpret_cast<__m256>(acc.part[i])));
  }
  return acc;
#elif defined(__aarch64__)
  for (int i = 0; i < kParts; ++i) {
    acc.part[i] = vfmaq_f32(acc.part[i], a.part[i], b.part[i]);
  }
  return acc;
#else
  return acc + a * b;
#endif
}

// Lanes a[i] = two bf16 values: the odd column in bits 31..16, the even one in bits 15..0, as two
// neighbours lie in memory. Adds the odd product and then the even one to `acc`, each sum rounded
// to nearest even; products are exact in fp32. Denormal operands and sums count as zero where the
// processor has the instruction, so all targets agree as long as none occurs.
TW_INLINE F DotBF16(F acc, U a, U b) {
#if defined(__AVX512BF16__) && defined(__clang__)
  // The intrinsic of a broadcast operand sends clang 16 into endless recursion.
  asm("vdpbf16ps %2, %1, %0" : "+v"(acc.part[0]) : "v"(a.part[0]), "v"(b.part[0]));
  return acc;
#elif defined(__AVX512BF16__)
  return {{reinterpret_cast<NativeF>(_mm512_dpbf16_ps(reinterpret_cast<__m512>(acc.part[0]),
                                                      reinterpret_cast<__m512bh>(a.part[0]),
                                                      reinterpret_cast<__m512bh>(b.part[0])))}};
#else
  const U high = SetU(0xffff0000u);
  const F odd = AddExactProduct(acc, FromBits(a & high), FromBits(b & high));
  return AddExactProduct(odd, FromBits(a << 16), FromBits(b << 16));
#endif
}

#if !defined(__AVX2__) && !defined(__aarch64__)
typedef int16_t NativeS __attribute__((vector_size(kNative * 4)));

// Products of the low and of the high byte of each half-word, added in 16 bits.
TW_INLINE NativeU PairSums(NativeU unsigned_bytes, NativeU signed_bytes) {
  const auto a = reinterpret_cast<NativeS>(unsigned_bytes);
  const auto b = reinterpret_cast<NativeS>(signed_bytes);
  const NativeS low = (a & 0xff) * static_cast<NativeS>(static_cast<NativeS>(b << 8) >> 8);
  const NativeS high = (a >> 8) * (b >> 8);
  return reinterpret_cast<NativeU>(low + high);
}
#endif

// acc[i] + the four products of the bytes of lane i, exact in 32 bits. Unsigned bytes are at most
// 127: the pairs of products that other targets add in 16 bits stay inside them (2 * 127 * 128).
TW_INLINE U DotU8S8(U acc, U unsigned_bytes, U signed_bytes) {
  U r;
#if defined(__AVX512VNNI__)
  r.part[0] = reinterpret_cast<NativeU>(_mm512_dpbusd_epi32(
      reinterpret_cast<__m512i>(acc.part[0]), reinterpret_cast<__m512i>(unsigned_bytes.part[0]),
      reinterpret_cast<__m512i>(signed_bytes.part[0])));
#elif defined(__AVX512F__)
  const __m512i pairs = _mm512_maddubs_epi16(reinterpret_cast<__m512i>(unsigned_bytes.part[0]),
                                             reinterpret_cast<__m512i>(signed_bytes.part[0]));
  const __m512i sums = _mm512_madd_epi16(pairs, _mm512_set1_epi16(1));
  r.part[0] = acc.part[0] + reinterpret_cast<NativeU>(sums);
#elif defined(__AVX2__)
  for (int i = 0; i < kParts; ++i) {
    const __m256i pairs = _mm256_maddubs_epi16(reinterpret_cast<__m256i>(unsigned_bytes.part[i]),
                                               reinterpret_cast<__m256i>(signed_bytes.part[i]));
    const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    r.part[i] = acc.part[i] + reinterpret_cast<NativeU>(sums);
  }
#elif defined(__aarch64__)
  for (int i = 0; i < kParts; ++i) {
    const auto a = reinterpret_cast<int8x16_t>(unsigned_bytes.part[i]);
    const auto b = reinterpret_cast<int8x16_t>(signed_bytes.part[i]);
    const auto sum = reinterpret_cast<int32x4_t>(acc.part[i]);
#if defined(__ARM_FEATURE_DOTPROD)
    r.part[i] = reinterpret_cast<NativeU>(vdotq_s32(sum, a, b));
#else
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b));
    const int16x8_t pairs = vpaddq_s16(low, vmull_high_s8(a, b));
    r.part[i] = reinterpret_cast<NativeU>(vpadalq_s16(sum, pairs));
#endif
  }
#else
  for (int i = 0; i < kParts; ++i) {
    const auto pairs =
        reinterpret_cast<NativeI>(PairSums(unsigned_bytes.part[i], signed_bytes.part[i]));
    const NativeI low = static_cast<NativeI>(pairs << 16) >> 16;
    r.part[i] = acc.part[i] + reinterpret_cast<NativeU>(low + (pairs >> 16));
  }
#endif
  return r;
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
