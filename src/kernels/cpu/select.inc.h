// The k best of a stream of scores in total order: higher first, equal ones by lower entry. A list
// takes only what lies above a running threshold, the k-th best of all before, and is cut back to k
// when it is full: each score is read once, and most meet one comparison (spec/performance.md 4).
#pragma once

#include "kernels/cpu/dot.inc.h"
#include "kernels/cpu/rows.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

constexpr int32_t kNeverOrder = INT32_MIN;
constexpr int64_t kListSlack = 256;  // of a list behind twice the k best

// Signed words that order as scores do; -inf and NaN get kNeverOrder. Adding zero makes one zero of
// two.
TW_INLINE U OrderOf(F score) {
  const U infinity = SetU(0x7f800000u);
  const U bits = Bits(score + Zero());
  const U flip = IfLess(bits, SetU(0x80000000u), SetU(0), SetU(0x7fffffffu));
  const U ordered = bits ^ flip;
  // -inf is 0xff800000, and every NaN lies above one of the infinities in its own half.
  return IfLess(bits & SetU(0x7fffffffu), infinity, ordered,
                IfLess(bits, infinity + SetU(1), ordered, SetU(0x80000000u)));
}

// Bit i is set where lane i, as a signed word, is above the bound.
TW_INLINE uint32_t LanesAbove(U order, int32_t bound) {
#if defined(__AVX512F__)
  return _mm512_cmpgt_epi32_mask(reinterpret_cast<__m512i>(order.part[0]),
                                 _mm512_set1_epi32(bound));
#elif defined(__AVX2__)
  uint32_t mask = 0;
  for (int i = 0; i < kParts; ++i) {
    const __m256i above =
        _mm256_cmpgt_epi32(reinterpret_cast<__m256i>(order.part[i]), _mm256_set1_epi32(bound));
    mask |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(above))) << (i * kNative);
  }
  return mask;
#else
  int32_t lane[kLanes];
  StoreU(lane, order);
  uint32_t mask = 0;
  for (int i = 0; i < kLanes; ++i) mask |= static_cast<uint32_t>(lane[i] > bound) << i;
  return mask;
#endif
}

// Writes the lanes of the mask side by side; up to kLanes words behind `out` are overwritten.
TW_INLINE void StoreLanes(int32_t* out, U a, uint32_t mask) {
#if defined(__AVX512F__)
  StoreU(out, {{reinterpret_cast<NativeU>(_mm512_maskz_compress_epi32(
                  static_cast<__mmask16>(mask), reinterpret_cast<__m512i>(a.part[0])))}});
#else
  int32_t lane[kLanes];
  StoreU(lane, a);
  for (; mask != 0; mask &= mask - 1) *out++ = lane[__builtin_ctz(mask)];
#endif
}

// The numbers first, first + 1, ...
TW_INLINE U NumbersFrom(int32_t first) {
  constexpr uint32_t kNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return LoadU(kNumbers) + SetU(static_cast<uint32_t>(first));
}

// The lowest `n` bits of the mask.
TW_INLINE uint32_t LowestBits(uint32_t mask, int64_t n) {
  while (__builtin_popcount(mask) > n) mask ^= 0x80000000u >> __builtin_clz(mask);
  return mask;
}

// How many of order[0..padded) are >= bound.
int64_t CountFrom(const int32_t* order, int64_t padded, int32_t bound) {
  int32_t count = 0;
  for (int64_t i = 0; i < padded; ++i) count += order[i] >= bound ? 1 : 0;
  return count;
}

// The best `wanted` of what was offered in ascending entries, ascending, once it is cut.
struct BestList {
  int32_t* order;  // [Capacity(wanted)]
  int32_t* entry;  // [Capacity(wanted)]
  int64_t wanted;
  int64_t count = 0;
  int32_t bound = kNeverOrder;  // what is not above can no longer be chosen

  static int64_t Capacity(int64_t wanted) {
    return (2 * wanted + kListSlack + kLanes - 1) / kLanes * kLanes;
  }
  static BestList In(int32_t* memory, int64_t wanted) {  // of 2 * Capacity(wanted) words
    return {memory, memory + Capacity(wanted), wanted};
  }

  TW_INLINE void Append(U words, U entries, uint32_t mask) {
    StoreLanes(order + count, words, mask);
    StoreLanes(entry + count, entries, mask);
    count += __builtin_popcount(mask);
    if (count + kLanes > Capacity(wanted)) Cut();
  }

  // Scores of the entries first, first + 1, ...; n <= kLanes of them.
  TW_INLINE void Offer(F score, int64_t n, int32_t first) {
    const U words = OrderOf(score);
    const uint32_t above = LanesAbove(words, bound) & ((1u << n) - 1);
    if (above != 0) Append(words, NumbersFrom(first), above);
  }

  // What another list has kept of higher entries; it can be read in whole vectors.
  void Merge(const int32_t* orders, const int32_t* entries, int64_t n) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const U words = LoadU(orders + i);
      const uint32_t present = n - i < kLanes ? (1u << (n - i)) - 1 : 0xffffu;
      const uint32_t above = LanesAbove(words, bound) & present;
      if (above != 0) Append(words, LoadU(entries + i), above);
    }
  }

  // The highest bound that `wanted` words reach, bit by bit from above. Counting everything again
  // is cheaper than it looks: it has no branch that scores could mislead.
  int32_t ReachedBound() const {
    const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
    for (int64_t i = count; i < padded; ++i) order[i] = kNeverOrder;
    int64_t low = Most(bound, kNeverOrder + int64_t{1}), high = INT32_MAX;
    int64_t reached = -1;
    while (low < high && reached != wanted) {
      const int64_t middle = low + (high - low + 1) / 2;
      const int64_t found = CountFrom(order, padded, static_cast<int32_t>(middle));
      if (found >= wanted) {
        low = middle;
        reached = found;
      } else {
        high = middle - 1;
      }
    }
    return static_cast<int32_t>(low);
  }

  // Keeps the best `wanted` and raises the bound.
  void Cut() {
    if (count <= wanted) return;
    const int32_t least = ReachedBound();
    const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
    int64_t ties = least == INT32_MAX ? wanted : wanted - CountFrom(order, padded, least + 1);
    int64_t kept = 0;
    for (int64_t i = 0; i < padded; i += kLanes) {
      const U words = LoadU(order + i), entries = LoadU(entry + i);
      const uint32_t above = LanesAbove(words, least);
      const uint32_t equal = LowestBits(LanesAbove(words, least - 1) & ~above, ties);
      ties -= __builtin_popcount(equal);
      StoreLanes(order + kept, words, above | equal);
      StoreLanes(entry + kept, entries, above | equal);
      kept += __builtin_popcount(above | equal);
    }
    count = kept;
    bound = least;
  }
};

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
