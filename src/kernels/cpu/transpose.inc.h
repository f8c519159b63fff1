// Sixteen vectors of sixteen lanes, rows and columns exchanged.
#pragma once

#include "kernels/cpu/shuffle.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// One of four steps: even lanes of two neighbours side by side, and odd lanes. It moves the lowest
// bit of a row's number to the top of the lane's, and the lowest bit of the lane's to the row's.
TW_INLINE void ExchangeLowestBits(const F* from, F* to) {
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; i += 2) {
    to[i / 2] = Halves<1, 0>(from[i], from[i + 1]);
    to[i / 2 + kLanes / 2] = Halves<1, 1>(from[i], from[i + 1]);
  }
}

// v[i] lane j to v[j] lane i.
TW_INLINE void Transpose16(F* v) {
  F w[kLanes];
  ExchangeLowestBits(v, w);
  ExchangeLowestBits(w, v);
  ExchangeLowestBits(v, w);
  ExchangeLowestBits(w, v);
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
