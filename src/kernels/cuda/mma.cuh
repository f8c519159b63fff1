// Matrix instructions: D[64, N] += A[64, 16] B[16, N] by the four warps of a warpgroup, A in
// registers (each warp holds its 16 rows as the m16n8k16 fragment), B in shared memory, sums in
// fp32. Instructions of K = 16 in ascending order are the only order of sums there is: the bits of
// an output depend on its row of A and its column of B alone, not on N.
//
// B lies as 8x8 core matrices, each 8 rows of 16 bytes, cores of one group of 8 columns one after
// another along K (the layout without swizzle of the PTX manual, K-major).
#pragma once

#include <cstdint>

#include "kernels/cuda/wgmma_lists.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kCoreBytes = 128;

// A shared memory address as 32 bits.
__device__ inline uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline uint32_t LoadShared32(uint32_t address) {
  uint32_t x;
  asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(x) : "r"(address));
  return x;
}

// Copies 16 bytes behind the caller's back; zeros where `read` is false.
__device__ inline void CopyAsync16(uint32_t to, const void* from, bool read = true) {
  const int bytes = read ? 16 : 0;
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from),
               "r"(bytes));
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;\n" ::); }
template <int kPending>
__device__ inline void WaitCopies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kPending));
}

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define THALWEG_WGMMA 1
#endif

// What ordinary stores and copies wrote is there for the matrix instructions behind the next
// barrier.
__device__ inline void PublishShared() {
#ifdef THALWEG_WGMMA
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}
__device__ inline void BeginProducts() {
#ifdef THALWEG_WGMMA
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#endif
}
__device__ inline void CommitProducts() {
#ifdef THALWEG_WGMMA
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
#endif
}
// Waits until at most kPending committed groups are under way.
template <int kPending>
__device__ inline void WaitProducts() {
#ifdef THALWEG_WGMMA
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
#endif
}

#ifdef THALWEG_WGMMA
// clang-format off
__device__ inline void Wgmma(float (&d)[4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {" THALWEG_NAMES_4
      "}, {%4, %5, %6, %7}, %8, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_4
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[8], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {" THALWEG_NAMES_8
      "}, {%8, %9, %10, %11}, %12, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_8
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[12], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n24k16.f32.bf16.bf16 {" THALWEG_NAMES_12
      "}, {%12, %13, %14, %15}, %16, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_12
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[16], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" THALWEG_NAMES_16
      "}, {%16, %17, %18, %19}, %20, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_16
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[24], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {" THALWEG_NAMES_24
      "}, {%24, %25, %26, %27}, %28, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_24
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[32], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" THALWEG_NAMES_32
      "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_32
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[40], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {" THALWEG_NAMES_40
      "}, {%40, %41, %42, %43}, %44, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_40
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[48], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {" THALWEG_NAMES_48
      "}, {%48, %49, %50, %51}, %52, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_48
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[56], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n112k16.f32.bf16.bf16 {" THALWEG_NAMES_56
      "}, {%56, %57, %58, %59}, %60, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_56
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[64], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" THALWEG_NAMES_64
      "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_64
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void Wgmma(float (&d)[80], const uint32_t (&a)[4], uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 {" THALWEG_NAMES_80
      "}, {%80, %81, %82, %83}, %84, 1, 1, 1, 0;\n"
      : THALWEG_SUMS_80
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
// clang-format on

// Where B of one K = 16 step is: core matrices along K are neighbours, groups of 8 columns are
// `group_bytes` apart.
__device__ inline uint64_t CoreDescriptor(uint32_t address, uint32_t group_bytes) {
  return static_cast<uint64_t>((address & 0x3ffffu) >> 4) |
         static_cast<uint64_t>(kCoreBytes >> 4) << 16 |
         static_cast<uint64_t>(group_bytes >> 4) << 32;
}

#else

#endif

// d[4] += A[16, 16] B[16, 8], by one warp, all in registers.
__device__ inline void MultiplySmall(float* d, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};\n"
      : THALWEG_SUMS_4
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// d += A B for one step of K = 16: b is the address of its first core matrix.
template <int N>
__device__ inline void Multiply(float (&d)[N / 2], const uint32_t (&a)[4], uint32_t b,
                                uint32_t group_bytes) {
#ifdef THALWEG_WGMMA
  Wgmma(d, a, CoreDescriptor(b, group_bytes));
#else
  const uint32_t mine = b + (threadIdx.x % 32) * 4;
#pragma unroll
  for (int i = 0; i < N / 8; ++i) {
    const uint32_t b0 = LoadShared32(mine + i * group_bytes);
    const uint32_t b1 = LoadShared32(mine + i * group_bytes + kCoreBytes);
    MultiplySmall(&d[4 * i], a, b0, b1);
  }
#endif
}

}  // namespace thalweg::kernels::cuda
