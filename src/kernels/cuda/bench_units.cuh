// Matrices of random codes and one scale as a table of bodies packs them, for benches: made on the
// device, for they are many.
#pragma once

#include "base/math.h"
#include "kernels/cuda/bench_kit.cuh"
#include "kernels/cuda/bodies.h"
#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/ops.h"

namespace thalweg::kernels::cuda {

// What stands behind the codes of a unit, by words: `scales` words, then zeros.
struct UnitTail {
  int64_t unit_words = 0, code_words = 0, scales = 0;
  uint32_t scale = 0;
  uint32_t mask = 0xffffffffu;  // keeps e4m3 codes away from NaN
};

static __global__ void FillUnits(uint32_t* words, int64_t count, UnitTail tail, uint32_t seed) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const int64_t behind = i % tail.unit_words - tail.code_words;
    words[i] = behind < 0             ? Mixed(static_cast<uint64_t>(i), seed) & tail.mask
               : behind < tail.scales ? tail.scale
                                      : 0;
  }
}

inline const Ops* bench_ops = &CudaOps();  // the bodies that are measured

inline Matrix RandomMatrix(WeightFormat format, int64_t rows, int64_t cols,
                           Inputs inputs = Inputs::kQuantised) {
  static uint32_t seed = 1;
  Matrix m{.format = format, .rows = rows, .cols = cols, .inputs = inputs};
  if (bench_ops->packed_bytes(m) == 0) {
    auto* data = Make<BF16>(rows * cols);
    FillHalves<<<1024, 256>>>(data, rows * cols, 0.02f);
    m.data = data;
    return m;
  }
  constexpr uint32_t kFp4Scale = 120, kFp8Scale = 116;  // as e8m0
  const bool fp4 = format == WeightFormat::kFp4;
  const bool codes = bench_ops->numerics == Numerics::kFast && inputs == Inputs::kQuantised;
  UnitTail tail{(fp4 ? kFp4UnitBytes : kFp8UnitBytes) / 4, fp4 ? 128 : 256, fp4 ? 8 : 2};
  if (fp4) {
    tail.scale = 0x01010101u * (kFp4Scale + (codes ? 0 : kFp4ScaleOffset));
  } else {
    tail.scale = codes ? kFp8Scale << 23 : 0x00010001u * ((kFp8ScaleOffset + kFp8Scale) << 7);
    tail.mask = codes ? 0xbfbfbfbfu : tail.mask;
  }
  const int64_t slabs = base::CeilDiv(rows, int64_t{kUnitRows});
  const int64_t units = slabs * base::CeilDiv(cols, int64_t{kUnitCols});
  auto* data = Make<unsigned char>(bench_ops->packed_bytes(m));
  const int64_t bytes = units * tail.unit_words * 4;
  FillUnits<<<1024, 256>>>(reinterpret_cast<uint32_t*>(data), bytes / 4, tail, seed++);
  if (fp4 && codes) {
    Check(cudaMemset(data + bytes, kFp4Scale - kBaseBelow, static_cast<size_t>(slabs * kUnitRows)),
          "bases");
    Check(cudaMemset(data + bytes + slabs * kUnitRows, 1, static_cast<size_t>(slabs)), "foldable");
  }
  m.packed = data;
  return m;
}

}  // namespace thalweg::kernels::cuda
