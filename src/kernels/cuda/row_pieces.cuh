// Rows that a block reads once: each thread keeps pieces of eight neighbouring values in registers.
#pragma once

#include "kernels/cuda/device.cuh"

namespace thalweg::kernels::cuda {

inline constexpr int kPieceValues = 8;

// A thread's pieces of a row of bf16: pieces thread, thread + threads of the block, ...
template <int kPieces>
struct RowPieces {
  uint4 pieces[kPieces];
  int width;

  __device__ int Column(int k) const {
    return (static_cast<int>(threadIdx.x) + k * static_cast<int>(blockDim.x)) * kPieceValues;
  }
  __device__ BF16* Values(int k) { return reinterpret_cast<BF16*>(&pieces[k]); }

  __device__ void Load(const BF16* row) {
#pragma unroll
    for (int k = 0; k < kPieces; ++k) {
      pieces[k] = Column(k) < width ? *reinterpret_cast<const uint4*>(row + Column(k)) : uint4{};
    }
  }

  // bf16(sum_j mix_j X_j), streams `width` apart.
  __device__ void LoadMixed(const BF16* streams, const float* mix, int64_t n) {
    float sums[kPieces][kPieceValues] = {};
#pragma unroll 4
    for (int64_t j = 0; j < n; ++j) {
      RowPieces one{.width = width};
      one.Load(streams + j * width);
#pragma unroll
      for (int k = 0; k < kPieces; ++k) {
#pragma unroll
        for (int i = 0; i < kPieceValues; ++i) sums[k][i] += mix[j] * Wide(one.Values(k)[i]);
      }
    }
#pragma unroll
    for (int k = 0; k < kPieces; ++k) {
#pragma unroll
      for (int i = 0; i < kPieceValues; ++i) Values(k)[i] = Narrow(sums[k][i]);
    }
  }

  __device__ void Store(BF16* row) const {
#pragma unroll
    for (int k = 0; k < kPieces; ++k) {
      if (Column(k) < width) *reinterpret_cast<uint4*>(row + Column(k)) = pieces[k];
    }
  }

  // RMSNorm in place.
  __device__ void Norm(const BF16* weight, float eps) {
    RowPieces weights{.width = width};
    weights.Load(weight);
    double squares = 0;
#pragma unroll
    for (int k = 0; k < kPieces; ++k) {
#pragma unroll
      for (int i = 0; i < kPieceValues; ++i) {
        const double x = Wide(Values(k)[i]);
        squares += x * x;
      }
    }
    const auto mean = static_cast<float>(BlockSum(squares) / static_cast<double>(width));
    const float inverse = 1.0f / sqrtf(mean + eps);
#pragma unroll
    for (int k = 0; k < kPieces; ++k) {
#pragma unroll
      for (int i = 0; i < kPieceValues; ++i) {
        Values(k)[i] = NormValue(Values(k)[i], weights.Values(k)[i], inverse);
      }
    }
  }

  // As a reader of the encoded row sees it, in place. Groups of values are those of two or four
  // neighbouring lanes.
  __device__ void RoundTrip(RowFormat format) {
    if (format == RowFormat::kBF16) return;
#pragma unroll
    for (int k = 0; k < kPieces; ++k) {
      float largest = 0;
#pragma unroll
      for (int i = 0; i < kPieceValues; ++i) largest = fmaxf(largest, fabsf(Wide(Values(k)[i])));
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
      if (format != RowFormat::kFp4E4M3) {
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
      }
      const uint8_t scale = ScaleCode(format, largest);
#pragma unroll
      for (int i = 0; i < kPieceValues; ++i) {
        Values(k)[i] = Narrow(CodeValue(format, scale, Wide(Values(k)[i])).value);
      }
    }
  }
};

// Whether a block of `threads` can hold a row in kPieces pieces of each.
template <int kPieces>
__host__ __device__ bool FitsPieces(int64_t width, int threads) {
  return width % kPieceValues == 0 && width <= int64_t{kPieces} * threads * kPieceValues;
}

}  // namespace thalweg::kernels::cuda
