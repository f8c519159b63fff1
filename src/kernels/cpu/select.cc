#include "kernels/cpu/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "kernels/cpu/scratch.h"

namespace thalweg::kernels::cpu {
namespace {

// Keys order as scores do; 0 is never chosen. Adding zero makes one zero of two.
uint32_t KeyOf(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);
  if (std::isnan(score) || score == -std::numeric_limits<float>::infinity()) return 0;
  return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

// What is known of the k-th key: its bits above `shift`, and how many are still wanted among the
// keys that begin with them.
struct Border {
  uint32_t prefix = 0;
  uint32_t known = 0;  // mask of the bits in prefix
  int64_t wanted = 0;
};

// Fixes the next `bits` bits of the border below `shift + bits`.
void Narrow(const uint32_t* key, int64_t n, int shift, int bits, Border* border) {
  std::array<int64_t, 2048> histogram = {};
  const uint32_t mask = (1u << bits) - 1;
  for (int64_t i = 0; i < n; ++i) {
    if ((key[i] & border->known) == border->prefix && key[i] != 0) {
      ++histogram[(key[i] >> shift) & mask];
    }
  }
  uint32_t digit = mask;
  for (; digit > 0 && histogram[digit] < border->wanted; --digit)
    border->wanted -= histogram[digit];
  border->prefix |= digit << shift;
  border->known |= mask << shift;
}

}  // namespace

int64_t SelectBest(const float* score, int64_t n, int64_t count, int32_t* out) {
  auto* key = static_cast<uint32_t*>(Scratch(Slot::kOrder, n * 4));
  int64_t eligible = 0;
  for (int64_t i = 0; i < n; ++i) {
    key[i] = KeyOf(score[i]);
    eligible += key[i] != 0 ? 1 : 0;
  }
  Border border = {.wanted = std::min(count, eligible)};
  if (border.wanted == 0) return 0;
  Narrow(key, n, 21, 11, &border);
  Narrow(key, n, 10, 11, &border);
  Narrow(key, n, 0, 10, &border);
  int64_t chosen = 0;
  for (int64_t i = 0; i < n; ++i) {
    const bool tie = key[i] == border.prefix && border.wanted > 0;
    if (key[i] <= border.prefix && !tie) continue;
    if (tie) --border.wanted;
    out[chosen++] = static_cast<int32_t>(i);
  }
  return chosen;
}

int64_t SelectBlocks(const float* score, int64_t n, int64_t block_size, int64_t capacity,
                     int32_t* out) {
  const int64_t blocks = base::CeilDiv(n, block_size);
  auto* best = static_cast<float*>(Scratch(Slot::kBlockScores, blocks * 4));
  for (int64_t b = 0; b < blocks; ++b) {
    best[b] = -std::numeric_limits<float>::infinity();
    for (int64_t i = b * block_size; i < std::min(n, (b + 1) * block_size); ++i) {
      best[b] = std::max(best[b], score[i]);
    }
  }
  best[blocks - 1] = std::numeric_limits<float>::infinity();
  return SelectBest(best, blocks, capacity, out);
}

}  // namespace thalweg::kernels::cpu
