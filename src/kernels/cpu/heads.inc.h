// Heads taken in tiles that the registers hold.
#pragma once

#include <type_traits>

#include "kernels/cpu/simd.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Calls body(count, first) for tiles of kMost heads, and smaller ones for the rest; `count` is a
// std::integral_constant.
template <int kMost, typename Body>
TW_INLINE void ForHeads(int64_t begin, int64_t end, const Body& body) {
  for (; begin + kMost <= end; begin += kMost) body(std::integral_constant<int, kMost>{}, begin);
  if constexpr (kMost > 1) {
    if (begin < end) ForHeads<kMost / 2>(begin, end, body);
  }
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
