// The k best of a stream of scores in total order: higher first, equal ones by lower entry. A list
// takes only what lies above a running threshold, the k-th best of all before, and is cut back to k
// when it is full: each score is read once, and most meet one comparison (spec/performance.md 4).
#pragma once

#include "kernels/cpu/dot.inc.h"
#include "kernels/cpu/rows.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

constexpr int32_t kNeverOrder = INT32_MIN;
constexpr int64_t kListSlack = 1024;  // of a list behind the k best

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
    return (wanted + kListSlack + kLanes - 1) / kLanes * kLanes;
  }
  static BestList In(int32_t* memory, int64_t wanted) {  // of 2 * Capacity(wanted) words
    return {memory, memory + Capacity(wanted), wanted};
  }

  TW_INLINE void Append(int32_t order_word, int32_t e) {
    order[count] = order_word;
    entry[count] = e;
    ++count;
  }

  // Scores of the entries first, first + 1, ...; n <= kLanes of them.
  TW_INLINE void Offer(F score, int64_t n, int32_t first) {
    const U words = OrderOf(score);
    uint32_t above = LanesAbove(words, bound) & ((1u << n) - 1);
    if (above == 0) return;
    if (count + kLanes > Capacity(wanted)) Cut();
    int32_t lane[kLanes];
    StoreU(lane, words);
    for (; above != 0; above &= above - 1) {
      const int i = __builtin_ctz(above);
      Append(lane[i], first + i);
    }
  }

  // What another list has kept of higher entries.
  void Merge(const int32_t* orders, const int32_t* entries, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      if (orders[i] <= bound) continue;
      if (count == Capacity(wanted)) Cut();
      Append(orders[i], entries[i]);
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
    int64_t ties = wanted;
    for (int64_t i = 0; i < count; ++i) ties -= order[i] > least ? 1 : 0;
    int64_t kept = 0;
    for (int64_t i = 0; kept < wanted; ++i) {
      const int64_t tie = static_cast<int64_t>(order[i] == least) & static_cast<int64_t>(ties > 0);
      ties -= tie;
      const bool keep = order[i] > least || tie != 0;
      order[kept] = order[i];
      entry[kept] = entry[i];
      kept += keep ? 1 : 0;
    }
    count = kept;
    bound = least;
  }
};

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
