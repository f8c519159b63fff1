// fp4 and fp8 weights as operand A of matrix instructions of e4m3, and input rows as operand B: the
// codes go in as they are, 32 columns at a time, and the scales of both sides meet the partial sums
// (spec/model.md 5.2). Units of 16 rows by 64 columns, laid out by pack.cu. a[s] is the fragment of
// columns 32 s to 32 s + 31: lane l = 4 g + t has rows g and g + 8, of each 16 columns the four
// from 4 t on; rows g and g + 8 of the first 16 columns, then of the others.
//
// - kFp8 (1040 bytes): 8 core matrices of 8 rows by 16 codes, those of 8 rows one after another
// along
//   K; the scales of columns 0-31 and 32-63 as floats; 8 bytes of nothing.
// - kFp4 (544 bytes): 32 lanes of 16 bytes: row g and row g + 8 of columns 0-31, then of 32-63, a
//   word each as FromFp4 finds them; then 8 words, of lanes 4g to 4g + 3: the e8m0 scales of row g
//   (columns 0-31, 32-63) and of row g + 8. Behind all units of a matrix, for each slab, 16 bytes:
//   the base exponent of each row (kBaseBelow); then a byte a slab: whether all of its scales can
//   be taken as the base and an exponent that e4m3 has room for (kFoldRange).
//
// A scale of NaN stays 255, which is infinity as an exponent, over codes of zero: together NaN. A
// scale of 2^-127 counts as zero.
//
// Inputs: for each unit and 8 rows, 4 core matrices of 8 rows by 16 codes; then for each t < 4 the
// scales of rows 2t and 2t + 1 in the first 32 columns and in the others, as floats.
#pragma once

#include "kernels/cuda/operand.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kBlockCols = 32;  // of K, one scale
inline constexpr int kUnitBlocks = kUnitCols / kBlockCols;
inline constexpr int kCodeCores = kUnitCols / 16;
inline constexpr int kCodesBytes = kCodeCores * kCoreBytes;                // of 8 rows
inline constexpr int kInputUnitBytes = kCodesBytes + 8 * kUnitBlocks * 4;  // of 8 rows
// A row's base exponent is that of its largest scale less kBaseBelow, not below zero; the codes of
// a slab whose scales are all at least base - kFoldRange are normal e4m3 numbers times the base.
inline constexpr int kBaseBelow = 6, kFoldRange = 5;
inline constexpr int kNoBase = 255;  // of all rows of a slab whose scales do not fit
inline constexpr int kBasesBytes = kUnitRows;  // of a slab

// Magnitudes of e2m1 as e4m3, by code.
inline constexpr uint32_t kFp4Low = 0x3c383000u, kFp4High = 0x4c484440u;

// Codes of four columns from 4 t on, and of the four 16 columns behind them, from the eight fp4
// codes of a word: magnitudes in the low three bits of eight nibbles, the signs of the first four
// in the topmost bits of bytes, those of the others between.
__device__ inline void FromFp4(uint32_t w, uint32_t* first, uint32_t* second) {
  const uint32_t m = w & 0x77777777u;
  uint32_t a, b;
  asm("prmt.b32 %0, %1, %2, %3;\n" : "=r"(a) : "r"(kFp4Low), "r"(kFp4High), "r"(m));
  asm("prmt.b32 %0, %1, %2, %3;\n" : "=r"(b) : "r"(kFp4Low), "r"(kFp4High), "r"(m >> 16));
  *first = a | (w & 0x80808080u);
  *second = b | ((w << 4) & 0x80808080u);
}

// The scales of a lane's two rows, of two blocks of columns: [block][row].
using RowScales = float[kUnitBlocks][2];

// What a lane holds of a unit.
struct Fp4Codes {
  static constexpr int kUnitBytes = kFp4UnitBytes;
  uint4 codes = {};
  uint32_t scales = 0;
  __device__ void Load(uint32_t unit, int lane) {
    codes = LoadShared128(unit + lane * 16);
    scales = LoadShared32(unit + 512 + lane / 4 * 4);
  }
  __device__ void Unpack(uint32_t (&a)[kUnitBlocks][4]) const {
    FromFp4(codes.x, &a[0][0], &a[0][2]);
    FromFp4(codes.y, &a[0][1], &a[0][3]);
    FromFp4(codes.z, &a[1][0], &a[1][2]);
    FromFp4(codes.w, &a[1][1], &a[1][3]);
  }
  __device__ void Scales(RowScales& out) const {
    out[0][0] = __uint_as_float((scales << 23) & 0x7f800000u);
    out[1][0] = __uint_as_float((scales << 15) & 0x7f800000u);
    out[0][1] = __uint_as_float((scales << 7) & 0x7f800000u);
    out[1][1] = __uint_as_float((scales >> 1) & 0x7f800000u);
  }
};
struct Fp8Codes {
  static constexpr int kUnitBytes = kFp8UnitBytes;
  uint32_t codes[kUnitBlocks][4] = {};
  uint32_t low = 0, high = 0;
  __device__ void Load(uint32_t unit, int lane) {
    const uint32_t mine =
        unit + lane / 8 % 2 * kCodesBytes + lane / 16 * kCoreBytes + lane % 8 * 16;
#pragma unroll
    for (int s = 0; s < kUnitBlocks; ++s) {
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                   : "=r"(codes[s][0]), "=r"(codes[s][1]), "=r"(codes[s][2]), "=r"(codes[s][3])
                   : "r"(mine + s * 2 * kCoreBytes));
    }
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];\n" : "=r"(low), "=r"(high) : "r"(unit + 1024));
  }
  __device__ void Unpack(uint32_t (&a)[kUnitBlocks][4]) const {
#pragma unroll
    for (int i = 0; i < kUnitBlocks * 4; ++i) a[i / 4][i % 4] = codes[i / 4][i % 4];
  }
  __device__ void Scales(RowScales& out) const {
    out[0][0] = out[0][1] = __uint_as_float(low);
    out[1][0] = out[1][1] = __uint_as_float(high);
  }
};

// Eight neighbouring values of a row as codes, and the scale of the 32 which four neighbouring
// lanes hold together: all lanes call it. Exact for what the quantiser has left
// (spec/model.md 5.2).
struct CodedPiece {
  uint2 codes = {};
  float scale = 0;
};
__device__ inline CodedPiece CodesOf(uint4 values) {
  const uint32_t pairs[4] = {values.x, values.y, values.z, values.w};
  float2 wide[4];
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    wide[i] = {__uint_as_float(pairs[i] << 16), __uint_as_float(pairs[i] & 0xffff0000u)};
    largest = fmaxf(largest, fmaxf(fabsf(wide[i].x), fabsf(wide[i].y)));
  }
  largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
  largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
  const uint8_t scale = ScaleCode(RowFormat::kFp8E8M0, largest);
  const float inverse = InverseE8M0(scale);
  uint32_t codes[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    codes[i] = __nv_cvt_float2_to_fp8x2({wide[i].x * inverse, wide[i].y * inverse}, __NV_SATFINITE,
                                        __NV_E4M3);
  }
  return {{codes[0] | codes[1] << 16, codes[2] | codes[3] << 16}, FromE8M0(scale)};
}

// Where piece `piece` (of 8) of row `row` has its codes in an input chunk, and its scale.
__device__ inline int CodesAt(int row, int piece) {
  return piece / 2 * kCoreBytes + row * 16 + piece % 2 * 8;
}
__device__ inline int InputScaleAt(int row, int piece) {
  return kCodesBytes + (row / 2 * 4 + piece / 4 * 2 + row % 2) * 4;
}

// Pieces `first` to `first` + `pieces` - 1 (a multiple of 4) of rows as codes, by a block of
// kThreads: row(n) is row n of `rows`, aligned; store(n, piece, coded) keeps them. Loads of many
// pieces are under way at a time: other copies keep memory busy.
template <int kThreads, typename Row, typename Store>
__device__ inline void EncodePieces(int rows, int first, int pieces, Row row, Store store) {
  constexpr int kAhead = 8;
  int n = 0, piece = static_cast<int>(threadIdx.x);
  // Whole warps, for lanes share scales.
  while (__any_sync(kAllLanes, n < rows && piece < (rows - n) * pieces)) {
    uint4 values[kAhead] = {};
    int rows_of[kAhead], pieces_of[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      for (; piece >= pieces && n < rows; piece -= pieces) ++n;
      rows_of[j] = n;
      pieces_of[j] = first + piece;
      if (n < rows) values[j] = *reinterpret_cast<const uint4*>(row(n) + pieces_of[j] * 8);
      piece += kThreads;
    }
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (!__any_sync(kAllLanes, rows_of[j] < rows)) break;
      const CodedPiece coded = CodesOf(values[j]);
      if (rows_of[j] < rows) store(rows_of[j], pieces_of[j], coded);
    }
  }
}

// A piece of row n of a group at its place in the group's chunks, `unit_bytes` apart.
__device__ inline void StorePiece(int n, int piece, const CodedPiece& coded, int unit_bytes,
                                  unsigned char* chunks) {
  unsigned char* chunk = chunks + piece / 8 * unit_bytes;
  *reinterpret_cast<uint2*>(chunk + CodesAt(n, piece % 8)) = coded.codes;
  if (piece % 4 == 0) *reinterpret_cast<float*>(chunk + InputScaleAt(n, piece % 8)) = coded.scale;
}

// Up to eight rows of `units` units as the chunks of one group.
template <int kThreads, typename Row>
__device__ inline void EncodeRows(int rows, int units, Row row, unsigned char* to) {
  EncodePieces<kThreads>(rows, 0, units * 8, row, [&](int n, int piece, const CodedPiece& coded) {
    StorePiece(n, piece, coded, kInputUnitBytes, to);
  });
}

// acc += partial * weight scale * input scale, for 8 columns of one block: a lane's sums of rows g
// and g + 8, columns 2t and 2t + 1. Powers of two: only the addition rounds.
__device__ inline void AddBlock(const float* partial, const float (&rows)[2], float even, float odd,
                                float* acc) {
  acc[0] = __fmaf_rn(partial[0], rows[0] * even, acc[0]);
  acc[1] = __fmaf_rn(partial[1], rows[0] * odd, acc[1]);
  acc[2] = __fmaf_rn(partial[2], rows[1] * even, acc[2]);
  acc[3] = __fmaf_rn(partial[3], rows[1] * odd, acc[3]);
}

}  // namespace thalweg::kernels::cuda
