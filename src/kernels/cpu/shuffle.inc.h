// Lanes moved about, and the one tree that adds the sixteen lanes of a sum: the same on every
// target.
#pragma once

#include "kernels/cpu/simd.inc.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

// Lanes of two registers by constant indices; those of b follow those of a.
template <int... kIndex>
TW_INLINE NativeF Choose(NativeF a, NativeF b) {
  return __builtin_shufflevector(a, b, kIndex...);
}

// First<h>(a, b): of each group of 2h lanes the first h, those of a and then those of b.
// Last<h>(a, b): the last h. kSide is 0 for the first and 1 for the last.
#if defined(__AVX512F__)

template <int kHalf, int kSide>
TW_INLINE F Halves(F a, F b) {
  constexpr int s = kSide * kHalf;
  const NativeF x = a.part[0], y = b.part[0];
  if constexpr (kHalf == 8) {
    return {{Choose<s, s + 1, s + 2, s + 3, s + 4, s + 5, s + 6, s + 7, s + 16, s + 17, s + 18,
                    s + 19, s + 20, s + 21, s + 22, s + 23>(x, y)}};
  } else if constexpr (kHalf == 4) {
    return {{Choose<s, s + 1, s + 2, s + 3, s + 8, s + 9, s + 10, s + 11, s + 16, s + 17, s + 18,
                    s + 19, s + 24, s + 25, s + 26, s + 27>(x, y)}};
  } else if constexpr (kHalf == 2) {
    return {{Choose<s, s + 1, s + 4, s + 5, s + 8, s + 9, s + 12, s + 13, s + 16, s + 17, s + 20,
                    s + 21, s + 24, s + 25, s + 28, s + 29>(x, y)}};
  } else {
    return {{Choose<s, s + 2, s + 4, s + 6, s + 8, s + 10, s + 12, s + 14, s + 16, s + 18, s + 20,
                    s + 22, s + 24, s + 26, s + 28, s + 30>(x, y)}};
  }
}

// Neighbours exchanged: (1, 0, 3, 2, ...).
TW_INLINE F SwapPairs(F a) {
  return {{Choose<1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14>(a.part[0], a.part[0])}};
}
// Of a 4x4 matrix: column j spread along its rows, row k repeated.
template <int j>
TW_INLINE F Column(F a) {
  return {{Choose<j, j, j, j, j + 4, j + 4, j + 4, j + 4, j + 8, j + 8, j + 8, j + 8, j + 12,
                  j + 12, j + 12, j + 12>(a.part[0], a.part[0])}};
}
template <int k>
TW_INLINE F Row(F a) {
  constexpr int s = 4 * k;
  return {{Choose<s, s + 1, s + 2, s + 3, s, s + 1, s + 2, s + 3, s, s + 1, s + 2, s + 3, s, s + 1,
                  s + 2, s + 3>(a.part[0], a.part[0])}};
}

#elif defined(__AVX2__)

template <int kHalf, int kSide>
TW_INLINE F Halves(F a, F b) {
  constexpr int s = kSide * kHalf;
  F r;
  for (int i = 0; i < 2; ++i) {
    const F& from = i == 0 ? a : b;
    const NativeF x = from.part[0], y = from.part[1];
    if constexpr (kHalf == 8) {
      r.part[i] = kSide == 0 ? x : y;
    } else if constexpr (kHalf == 4) {
      r.part[i] = Choose<s, s + 1, s + 2, s + 3, s + 8, s + 9, s + 10, s + 11>(x, y);
    } else if constexpr (kHalf == 2) {
      r.part[i] = Choose<s, s + 1, s + 4, s + 5, s + 8, s + 9, s + 12, s + 13>(x, y);
    } else {
      r.part[i] = Choose<s, s + 2, s + 4, s + 6, s + 8, s + 10, s + 12, s + 14>(x, y);
    }
  }
  return r;
}

TW_INLINE F SwapPairs(F a) {
  for (NativeF& x : a.part) x = Choose<1, 0, 3, 2, 5, 4, 7, 6>(x, x);
  return a;
}
template <int j>
TW_INLINE F Column(F a) {
  for (NativeF& x : a.part) x = Choose<j, j, j, j, j + 4, j + 4, j + 4, j + 4>(x, x);
  return a;
}
template <int k>
TW_INLINE F Row(F a) {
  constexpr int s = k % 2 * 4;
  const NativeF x = a.part[k / 2];
  const NativeF row = Choose<s, s + 1, s + 2, s + 3, s, s + 1, s + 2, s + 3>(x, x);
  return {{row, row}};
}

#else

template <int kHalf, int kSide>
TW_INLINE F Halves(F a, F b) {
  constexpr int s = kSide * kHalf;
  F r;
  for (int i = 0; i < kParts; ++i) {
    const NativeF* from = i < 2 ? a.part : b.part;
    const int k = i % 2;
    if constexpr (kHalf == 8) {
      r.part[i] = from[2 * kSide + k];
    } else if constexpr (kHalf == 4) {
      r.part[i] = from[2 * k + kSide];
    } else if constexpr (kHalf == 2) {
      r.part[i] = Choose<s, s + 1, s + 4, s + 5>(from[2 * k], from[2 * k + 1]);
    } else {
      r.part[i] = Choose<s, s + 2, s + 4, s + 6>(from[2 * k], from[2 * k + 1]);
    }
  }
  return r;
}

TW_INLINE F SwapPairs(F a) {
  for (NativeF& x : a.part) x = Choose<1, 0, 3, 2>(x, x);
  return a;
}
template <int j>
TW_INLINE F Column(F a) {
  for (NativeF& x : a.part) x = Choose<j, j, j, j>(x, x);
  return a;
}
template <int k>
TW_INLINE F Row(F a) {
  return {{a.part[k], a.part[k], a.part[k], a.part[k]}};
}

#endif

// Each group of 2h lanes as the h sums of its halves.
template <int kHalf>
TW_INLINE F AddHalves(F a, F b) {
  return Halves<kHalf, 0>(a, b) + Halves<kHalf, 1>(a, b);
}

// kCount vectors to half as many (one stays one), h lanes of sums for each.
template <int kHalf, int kCount>
TW_INLINE void AddHalvesOf(const F* v, F* out) {
  if constexpr (kCount == 1) {
    out[0] = AddHalves<kHalf>(v[0], v[0]);
  } else {
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) out[i] = AddHalves<kHalf>(v[2 * i], v[2 * i + 1]);
  }
}

// The sums over lanes of kCount vectors (a power of two up to 16), in the first kCount lanes.
// Halves are added to halves: ((l0+l8)+(l4+l12)) + ..., the one order of every sum.
template <int kCount>
TW_INLINE F SumLanes(const F* v) {
  constexpr int kA = kCount > 1 ? kCount / 2 : 1;
  constexpr int kB = kA > 1 ? kA / 2 : 1;
  constexpr int kC = kB > 1 ? kB / 2 : 1;
  F a[kA], b[kB], c[kC], sum[1];
  AddHalvesOf<8, kCount>(v, a);
  AddHalvesOf<4, kA>(a, b);
  AddHalvesOf<2, kB>(b, c);
  AddHalvesOf<1, kC>(c, sum);
  return sum[0];
}
TW_INLINE float SumLanes(F v) { return SumLanes<1>(&v).part[0][0]; }

TW_INLINE float MaxLanes(F v) {
  const F a = Max(Halves<8, 0>(v, v), Halves<8, 1>(v, v));
  const F b = Max(Halves<4, 0>(a, a), Halves<4, 1>(a, a));
  const F c = Max(Halves<2, 0>(b, b), Halves<2, 1>(b, b));
  return Max(Halves<1, 0>(c, c), Halves<1, 1>(c, c)).part[0][0];
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
