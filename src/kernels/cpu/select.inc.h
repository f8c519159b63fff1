// The k best of a row of scores in total order: higher first, equal ones by lower index.
#pragma once

#include "kernels/cpu/rows.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

constexpr int32_t kNeverKey = INT32_MIN;

// Signed words that order as scores do; -inf and NaN get kNeverKey. Adding zero makes one zero of
// two. Padded with kNeverKey to whole vectors.
void MakeKeys(const float* score, int64_t n, int32_t* key) {
  const U infinity = SetU(0x7f800000u);
  for (int64_t i = 0; i < n; i += kLanes) {
    const U bits = Bits(LoadFirst(score + i, n - i) + Zero());
    const U flip = IfLess(bits, SetU(0x80000000u), SetU(0), SetU(0x7fffffffu));
    const U ordered = bits ^ flip;
    // -inf is 0xff800000, and every NaN lies above one of the infinities in its own half.
    const U chosen_from = IfLess(bits & SetU(0x7fffffffu), infinity, ordered,
                                 IfLess(bits, infinity + SetU(1), ordered, SetU(0x80000000u)));
    Store(reinterpret_cast<float*>(key) + i, FromBits(chosen_from));
  }
  for (int64_t i = n; i % kLanes != 0; ++i) key[i] = kNeverKey;
}

// How many of key[0..padded) are >= bound.
int64_t CountFrom(const int32_t* key, int64_t padded, int32_t bound) {
  int32_t count = 0;
  for (int64_t i = 0; i < padded; ++i) count += key[i] >= bound ? 1 : 0;
  return count;
}

// Writes the indices of the best `count` of score[0..n) ascending to `out` and returns how many:
// fewer than `count` when fewer can be chosen (-inf and NaN cannot).
int64_t SelectBest(const float* score, int64_t n, int64_t count, int32_t* out) {
  const int64_t padded = (n + kLanes - 1) / kLanes * kLanes;
  auto* key = static_cast<int32_t*>(Scratch(Slot::kOrder, padded * 4));
  MakeKeys(score, n, key);
  const int64_t wanted = Least(count, CountFrom(key, padded, kNeverKey + 1));
  // The highest bound that `wanted` keys reach, bit by bit from above. Counting everything again
  // is cheaper than it looks: it has no branch that scores could mislead.
  int64_t low = kNeverKey + int64_t{1}, high = INT32_MAX;
  int64_t reached = -1;
  while (low < high && reached != wanted) {
    const int64_t middle = low + (high - low + 1) / 2;
    const int64_t found = CountFrom(key, padded, static_cast<int32_t>(middle));
    if (found >= wanted) {
      low = middle;
      reached = found;
    } else {
      high = middle - 1;
    }
  }
  const auto bound = static_cast<int32_t>(low);
  int64_t ties = bound == INT32_MAX ? wanted : wanted - CountFrom(key, padded, bound + 1);
  int64_t chosen = 0;
  for (int64_t i = 0; chosen < wanted; ++i) {
    const int64_t tie = static_cast<int64_t>(key[i] == bound) & static_cast<int64_t>(ties > 0);
    ties -= tie;
    out[chosen] = static_cast<int32_t>(i);
    chosen += static_cast<int64_t>(key[i] > bound) | tie;
  }
  return chosen;
}

// The best `capacity` blocks of `block_size` scores by their highest score, ascending; the last
// block, of the newest entry, is always in. There are more than `capacity` blocks.
int64_t SelectBlocks(const float* score, int64_t n, int64_t block_size, int64_t capacity,
                     int32_t* out) {
  const int64_t blocks = (n + block_size - 1) / block_size;
  float* best = ScratchFloats(Slot::kBlockScores, blocks);
  for (int64_t b = 0; b < blocks; ++b) {
    float top = -__builtin_inff();
    for (int64_t i = b * block_size; i < Least(n, (b + 1) * block_size); ++i) {
      top = score[i] > top ? score[i] : top;
    }
    best[b] = top;
  }
  best[blocks - 1] = __builtin_inff();
  return SelectBest(best, blocks, capacity, out);
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
