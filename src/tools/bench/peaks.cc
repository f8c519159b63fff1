#include "tools/bench/peaks.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace thalweg::tools::bench {
namespace {

// Keeps a value alive without storing it.
template <typename T>
inline void Keep(const T& value) {
  asm volatile("" : : "m"(value));
}

typedef float Float4 __attribute__((vector_size(16)));
typedef uint64_t Word2 __attribute__((vector_size(16)));

constexpr int64_t kPlainAccumulators = 12;

// Multiplies and adds that any processor has.
void PlainFp32(int64_t turns) {
  Float4 sums[kPlainAccumulators] = {};
  Float4 factor = {1.0f, 0.5f, 0.25f, 0.125f};
  for (int64_t turn = 0; turn < turns; ++turn) {
    asm volatile("" : "+m"(factor));  // a new value to the compiler in every turn
    for (Float4& sum : sums) sum = sum * factor + factor;
  }
  Keep(sums);
}

template <int kStreams>
void PlainRead(const std::byte* data, int64_t bytes) {
  const int64_t run = bytes / kStreams;
  Word2 sums[4] = {};
  for (int64_t at = 0; at < run; at += kReadStep) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const auto* words = reinterpret_cast<const Word2*>(data + stream * run + at);
      for (int64_t i = 0; i < kReadStep / 16; ++i) sums[i % 4] ^= words[i];
    }
  }
  Keep(sums);
}

constexpr ReadLoop kPlainReads[] = {{1, PlainRead<1>}, {2, PlainRead<2>}, {4, PlainRead<4>}};

#if defined(__x86_64__)

// Fourteen accumulators hide the latency of every instruction below; two registers hold operands.
#define TW_FOURTEEN(instruction, r)                                                           \
  instruction " %%" r "14, %%" r "15, %%" r "0\n\t" instruction " %%" r "14, %%" r "15, %%" r \
              "1\n\t" instruction " %%" r "14, %%" r "15, %%" r "2\n\t" instruction " %%" r   \
              "14, %%" r "15, %%" r "3\n\t" instruction " %%" r "14, %%" r "15, %%" r         \
              "4\n\t" instruction " %%" r "14, %%" r "15, %%" r "5\n\t" instruction " %%" r   \
              "14, %%" r "15, %%" r "6\n\t" instruction " %%" r "14, %%" r "15, %%" r         \
              "7\n\t" instruction " %%" r "14, %%" r "15, %%" r "8\n\t" instruction " %%" r   \
              "14, %%" r "15, %%" r "9\n\t" instruction " %%" r "14, %%" r "15, %%" r         \
              "10\n\t" instruction " %%" r "14, %%" r "15, %%" r "11\n\t" instruction " %%" r \
              "14, %%" r "15, %%" r "12\n\t" instruction " %%" r "14, %%" r "15, %%" r "13\n\t"

// A loop of `instruction` over registers `r`, both operands filled with the 32-bit word of `bits`.
#define TW_PEAK_LOOP(name, isa, instruction, r, bits)                                             \
  __attribute__((target(isa))) void name(int64_t turns) {                                         \
    const uint32_t word = bits;                                                                   \
    asm volatile("vzeroall\n\t"                                                                 \
                 "vpbroadcastd %1, %%" r "14\n\t"                                               \
                 "vpbroadcastd %1, %%" r "15\n\t"                                               \
                 "1:\n\t" TW_FOURTEEN(instruction, r) "dec %0\n\t"                              \
                 "jnz 1b\n\t"                                                                   \
                 "vzeroupper\n\t"                                                               \
                 : "+r"(turns)                                                                  \
                 : "m"(word)                                                                    \
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",        \
                   "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"); \
  }

constexpr uint32_t kHalf = 0x3f000000;    // 0.5 in fp32
constexpr uint32_t kHalves = 0x3f003f00;  // two of them in bf16
constexpr uint32_t kOnes = 0x01010101;    // four int8 ones
TW_PEAK_LOOP(Avx512Int8, "avx512f", "vpdpbusd", "zmm", kOnes)
TW_PEAK_LOOP(Avx512Bf16, "avx512f", "vdpbf16ps", "zmm", kHalves)
TW_PEAK_LOOP(Avx512Fp32, "avx512f", "vfmadd231ps", "zmm", kHalf)
TW_PEAK_LOOP(Avx2Fp32, "avx2", "vfmadd231ps", "ymm", kHalf)
#undef TW_PEAK_LOOP
#undef TW_FOURTEEN

constexpr int64_t kTurn = 14;
constexpr int64_t kAhead = 4096;  // bytes: the best distance moves little between machines

template <int kStreams>
__attribute__((target("avx512f"))) void Avx512Read(const std::byte* data, int64_t bytes) {
  const int64_t run = bytes / kStreams;
  __m512i sum0 = _mm512_setzero_si512(), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int64_t at = 0; at < run; at += kReadStep) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const std::byte* p = data + stream * run + at;
      for (int line = 0; line < 4; ++line) __builtin_prefetch(p + kAhead + line * 64, 0, 0);
      sum0 = _mm512_xor_si512(sum0, _mm512_load_si512(p));
      sum1 = _mm512_xor_si512(sum1, _mm512_load_si512(p + 64));
      sum2 = _mm512_xor_si512(sum2, _mm512_load_si512(p + 128));
      sum3 = _mm512_xor_si512(sum3, _mm512_load_si512(p + 192));
    }
  }
  Keep(_mm512_xor_si512(_mm512_xor_si512(sum0, sum1), _mm512_xor_si512(sum2, sum3)));
}

// Into the second cache, every other line, far ahead: on some processors (Zen 4) twice as fast as
// asking for every line at the first one.
__attribute__((target("avx512f"))) void Avx512ReadFarAhead(const std::byte* data, int64_t bytes) {
  constexpr int64_t kFarAhead = 8192;
  constexpr int kIntoSecondCache = 2;
  __m512i sum0 = _mm512_setzero_si512(), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  for (int64_t at = 0; at < bytes; at += kReadStep) {
    const std::byte* p = data + at;
    __builtin_prefetch(p + kFarAhead, 0, kIntoSecondCache);
    __builtin_prefetch(p + kFarAhead + 128, 0, kIntoSecondCache);
    sum0 = _mm512_xor_si512(sum0, _mm512_load_si512(p));
    sum1 = _mm512_xor_si512(sum1, _mm512_load_si512(p + 64));
    sum2 = _mm512_xor_si512(sum2, _mm512_load_si512(p + 128));
    sum3 = _mm512_xor_si512(sum3, _mm512_load_si512(p + 192));
  }
  Keep(_mm512_xor_si512(_mm512_xor_si512(sum0, sum1), _mm512_xor_si512(sum2, sum3)));
}
constexpr ReadLoop kAvx512Reads[] = {{1, Avx512Read<1>},
                                     {2, Avx512Read<2>},
                                     {4, Avx512Read<4>},
                                     {8, Avx512Read<8>},
                                     {1, Avx512ReadFarAhead}};

bool HasAvx512() { return __builtin_cpu_supports("avx512f"); }
bool HasAvx512Vnni() { return HasAvx512() && __builtin_cpu_supports("avx512vnni"); }
bool HasAvx512Bf16() { return HasAvx512() && __builtin_cpu_supports("avx512bf16"); }
bool HasAvx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

#endif

}  // namespace

PeakLoop Fp32Loop() {
#if defined(__x86_64__)
  if (HasAvx512()) return {"vfmadd231ps zmm", kTurn * 16 * 2, Avx512Fp32};
  if (HasAvx2()) return {"vfmadd231ps ymm", kTurn * 8 * 2, Avx2Fp32};
#endif
  return {"multiply and add of 4 floats", kPlainAccumulators * 4 * 2, PlainFp32};
}

PeakLoop Bf16Loop() {
#if defined(__x86_64__)
  if (HasAvx512Bf16()) return {"vdpbf16ps zmm", kTurn * 32 * 2, Avx512Bf16};
#endif
  return Fp32Loop();
}

PeakLoop Int8Loop() {
#if defined(__x86_64__)
  if (HasAvx512Vnni()) return {"vpdpbusd zmm", kTurn * 64 * 2, Avx512Int8};
#endif
  return Bf16Loop();
}

std::span<const ReadLoop> ReadLoops() {
#if defined(__x86_64__)
  if (HasAvx512()) return kAvx512Reads;
#endif
  return kPlainReads;
}

}  // namespace thalweg::tools::bench
