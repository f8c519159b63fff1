// Tiles of 64 rows in shared memory that the matrix instructions of a warpgroup read where they
// lie: chunks of 64 channels, 128 bytes of a row side by side, swizzled as the PTX manual's
// 128-byte mode says. The rows are the columns of B in one product (keys, channels along K), and
// its K in the other (values, channels along N): one copy of a row serves both.
//
// Within each eight, channels lie as 0 4 1 5 2 6 3 7, the order in which packed codes come apart
// cheaply; queries lie the same way, and sums are put back in order where they are stored.
#pragma once

#include <cstdint>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/fragments.cuh"
#include "kernels/cuda/mma.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kTileRows = 64;
inline constexpr int kTileWidth = 512;
inline constexpr int kTilePiece = 16;                // bytes that are stored at a time
inline constexpr int kChunkBytes = kTileRows * 128;  // 64 channels of the rows
inline constexpr int kTileBytes = kTileWidth / 64 * kChunkBytes;

// Where a piece (eight channels) of a row lies in its tile.
__device__ inline int TileOffset(int row, int piece) {
  return piece / 8 * kChunkBytes + row * 128 + (piece % 8 ^ row % 8) * kTilePiece;
}

// Eight neighbouring channels, as pairs, in the order of tiles.
__device__ inline uint4 Reorder(uint4 x) {
  constexpr unsigned kLows = 0x5410, kHighs = 0x7632;
  return {__byte_perm(x.x, x.z, kLows), __byte_perm(x.x, x.z, kHighs), __byte_perm(x.y, x.w, kLows),
          __byte_perm(x.y, x.w, kHighs)};
}

// Tiles hold values times 2^-9, so that the scale of an e2m1 group and what turns its codes' bits
// into their values are one factor (e4m3 scales reach 2^9; a bf16 does not reach 2^135). Powers of
// two change no product's digits.
inline constexpr float kTileScale = 0x1p-9f, kInverseTileScale = 0x1p9f;

// Two e4m3 scales (the low bytes) as factors of the codes' bits.
__device__ inline uint32_t Fp4Factors(uint32_t codes) {
  constexpr uint32_t kTwice120 = 0x7b807b80u, kTwice117 = 0x7a007a00u;
  const uint32_t tiny = (codes & 0x7fu) << 4 | (codes & 0x7f00u) << 12;
  return MultiplyPairs(MultiplyPairs(tiny, kTwice120), kTwice117);
}

// Eight e2m1 values of a word.
__device__ inline uint4 TileFp4(uint32_t w, uint32_t factors) {
  constexpr uint32_t kSigns = 0x80008000u, kBits = 0x01c001c0u;
  return {MultiplyPairs((w << 12 & kSigns) | (w << 6 & kBits), factors),
          MultiplyPairs((w << 8 & kSigns) | (w << 2 & kBits), factors),
          MultiplyPairs((w << 4 & kSigns) | (w >> 2 & kBits), factors),
          MultiplyPairs((w & kSigns) | (w >> 6 & kBits), factors)};
}

// A pair of e4m3 values: bytes i of the two words.
template <int kByte>
__device__ inline uint32_t TileFp8Pair(uint32_t a, uint32_t b, uint32_t scales) {
  constexpr uint32_t kTwice120 = 0x7b807b80u;
  const uint32_t two = __byte_perm(a, b, 0x4400u + 0x1111u * kByte);
  const uint32_t tiny = (two & 0x80008000u) | (two >> 4 & 0x07f007f0u);
  return MultiplyPairs(MultiplyPairs(tiny, kTwice120), scales);
}

// Eight e4m3 values of two words.
__device__ inline uint4 TileFp8(uint32_t a, uint32_t b, uint32_t scales) {
  return {TileFp8Pair<0>(a, b, scales), TileFp8Pair<1>(a, b, scales), TileFp8Pair<2>(a, b, scales),
          TileFp8Pair<3>(a, b, scales)};
}
__device__ inline uint32_t Fp8Factors(uint8_t scale) {
  const float factor = FromE8M0(scale) * kTileScale;
  return PackPair(factor, factor);
}

// The dynamic shared memory of a block, which tiles may begin at. (Rounding an address up instead
// would hide from the compiler what memory it is in: generic loads and stores are slower.)
template <typename T>
__device__ T& AlignedShared() {
  extern __shared__ __align__(1024) uint8_t dynamic_shared[];
  return *reinterpret_cast<T*>(dynamic_shared);
}

// Barriers in shared memory: `count` arrivals end a phase; Await waits for the phase of a parity.
__device__ inline void OpenBarrier(uint64_t* barrier, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(SharedAddress(barrier)), "r"(count)
               : "memory");
}
__device__ inline void Arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(SharedAddress(barrier))
               : "memory");
}
__device__ inline void Await(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\nagain:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n}\n" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
}

// A barrier of some warps of the block.
__device__ inline void Meet(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void Signal(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

#ifdef THALWEG_WGMMA

// Rows as columns of B (or as rows of A): K runs along the channels.
__device__ inline uint64_t KeysDescriptor(const void* tile) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kGroup = uint64_t{1024 >> 4} << 32;
  return (SharedAddress(tile) & 0x3ffffu) >> 4 | uint64_t{1} << 16 | kGroup | kSwizzle128;
}
// Rows as K of B: columns run along the channels, chunks of 64 apart.
__device__ inline uint64_t ValuesDescriptor(const void* tile) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62, kGroup = uint64_t{1024 >> 4} << 32;
  constexpr uint64_t kChunk = uint64_t{kChunkBytes >> 4} << 16;
  return (SharedAddress(tile) & 0x3ffffu) >> 4 | kChunk | kGroup | kSwizzle128;
}
// What a step of 16 channels (keys) or rows (values) adds to a descriptor.
__device__ constexpr uint64_t KeysStep(int step) {
  return static_cast<uint64_t>(step / 4 * kChunkBytes + step % 4 * 32) >> 4;
}
__device__ constexpr uint64_t ValuesStep(int step) {
  return static_cast<uint64_t>(step * 16 * 128) >> 4;
}

// One step of K = 16 by a warpgroup. ProductStep: A and B in shared memory, K along both; sums of
// before count where `add` is. ValueStep: A in registers or shared memory, K across the rows of B.
// clang-format off
__device__ inline void ProductStep(float (&d)[16], uint64_t a, uint64_t b, int add) {
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %18, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {" THALWEG_NAMES_16
      "}, %16, %17, add, 1, 1, 0, 0;\n}\n"
      : THALWEG_SUMS_16
      : "l"(a), "l"(b), "r"(add));
}
__device__ inline void ProductStep(float (&d)[32], uint64_t a, uint64_t b, int add) {
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" THALWEG_NAMES_32
      "}, %32, %33, add, 1, 1, 0, 0;\n}\n"
      : THALWEG_SUMS_32
      : "l"(a), "l"(b), "r"(add));
}
__device__ inline void ValueStep(float (&d)[32], const uint32_t* a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" THALWEG_NAMES_32
      "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;\n"
      : THALWEG_SUMS_32
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void ValueStep(float (&d)[64], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" THALWEG_NAMES_64
      "}, %64, %65, 1, 1, 1, 0, 1;\n"
      : THALWEG_SUMS_64
      : "l"(a), "l"(b));
}
// clang-format on

#endif

}  // namespace thalweg::kernels::cuda
