// Matrix instructions on e4m3 codes: D[64, N] = A[64, 32] B[32, N] by the four warps of a
// warpgroup, sums in fp32 that begin at zero. One instruction is one block of the quantisers'
// 32 columns; who calls adds its sums, times the scales, in ascending order (model.md 5.2).
//
// A is in registers: each warp holds its 16 rows as the m16n8k32 fragment. B is in shared memory,
// as core matrices of 8 rows of 16 codes (the layout without swizzle of the PTX manual, K-major):
// cores along K are neighbours, groups of 8 rows `group_bytes` apart.
#pragma once

#include "kernels/cuda/mma.cuh"

namespace thalweg::kernels::cuda {

#ifdef THALWEG_WGMMA
// clang-format off
#define THALWEG_WGMMA_CODES(SUMS, N, A0, A1, A2, A3, B) \
  __device__ inline void WgmmaCodes(float (&d)[SUMS], const uint32_t (&a)[4], uint64_t b) { \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" \
        THALWEG_NAMES_##SUMS "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", 0, 1, 1;\n" \
        : THALWEG_SUMS_##SUMS : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b)); \
  }
THALWEG_WGMMA_CODES(4, 8, 4, 5, 6, 7, 8)
THALWEG_WGMMA_CODES(8, 16, 8, 9, 10, 11, 12)
THALWEG_WGMMA_CODES(12, 24, 12, 13, 14, 15, 16)
THALWEG_WGMMA_CODES(16, 32, 16, 17, 18, 19, 20)
THALWEG_WGMMA_CODES(20, 40, 20, 21, 22, 23, 24)
THALWEG_WGMMA_CODES(24, 48, 24, 25, 26, 27, 28)
THALWEG_WGMMA_CODES(32, 64, 32, 33, 34, 35, 36)
THALWEG_WGMMA_CODES(40, 80, 40, 41, 42, 43, 44)
THALWEG_WGMMA_CODES(48, 96, 48, 49, 50, 51, 52)
THALWEG_WGMMA_CODES(56, 112, 56, 57, 58, 59, 60)
THALWEG_WGMMA_CODES(64, 128, 64, 65, 66, 67, 68)
#undef THALWEG_WGMMA_CODES
// clang-format on
#endif

// d[4] = A[16, 32] B[32, 8], by one warp, all in registers.
__device__ inline void MultiplySmallCodes(float* d, const uint32_t (&a)[4], uint32_t b0,
                                          uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %10, %10, %10};\n"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0f));
}

// d = A B for 32 columns of K: b is the address of the first core matrix of B.
template <int N>
__device__ inline void MultiplyCodes(float (&d)[N / 2], const uint32_t (&a)[4], uint32_t b,
                                     uint32_t group_bytes) {
#ifdef THALWEG_WGMMA
  WgmmaCodes(d, a, CoreDescriptor(b, group_bytes));
#else
  const uint32_t mine = b + (threadIdx.x % 32) * 4;
#pragma unroll
  for (int i = 0; i < N / 8; ++i) {
    const uint32_t b0 = LoadShared32(mine + i * group_bytes);
    const uint32_t b1 = LoadShared32(mine + i * group_bytes + kCoreBytes);
    MultiplySmallCodes(&d[4 * i], a, b0, b1);
  }
#endif
}

// Operand B of one instruction, from its first core matrix on. Moving on takes one addition.
struct CodeColumns {
#ifdef THALWEG_WGMMA
  uint32_t low, high;
  __device__ CodeColumns(uint32_t address, uint32_t group_bytes)
      : low((address & 0x3ffffu) >> 4 | (kCoreBytes >> 4) << 16), high(group_bytes >> 4) {}
  __device__ CodeColumns Behind(uint32_t bytes) const {
    CodeColumns next = *this;
    next.low += bytes >> 4;
    return next;
  }
  __device__ uint64_t Descriptor() const { return static_cast<uint64_t>(high) << 32 | low; }
#else
  uint32_t address, group_bytes;
  __device__ CodeColumns(uint32_t from, uint32_t bytes) : address(from), group_bytes(bytes) {}
  __device__ CodeColumns Behind(uint32_t bytes) const { return {address + bytes, group_bytes}; }
#endif
};
template <int N>
__device__ inline void MultiplyCodes(float (&d)[N / 2], const uint32_t (&a)[4],
                                     const CodeColumns& b) {
#ifdef THALWEG_WGMMA
  WgmmaCodes(d, a, b.Descriptor());
#else
  MultiplyCodes<N>(d, a, b.address, b.group_bytes);
#endif
}

// Keeps the compiler from moving what reads d in front of the wait that ends its products.
template <int kSums>
__device__ inline void Settle(float (&d)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

}  // namespace thalweg::kernels::cuda
