// What kernels share: number formats as they are on the host (tensor/formats.h, row_format.h), sums
// over a block in one fixed order, and the quantisers with one value in each lane of a warp.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline float Wide(BF16 x) {
  return __uint_as_float(static_cast<uint32_t>(x.bits) << 16);
}
__device__ inline BF16 Narrow(float x) { return {__bfloat16_as_ushort(__float2bfloat16_rn(x))}; }
__device__ inline float RoundToBF16(float x) { return Wide(Narrow(x)); }

__device__ inline float FromE8M0(uint8_t code) {
  if (code == 0) return 0x1p-127f;
  return __uint_as_float(code == 255 ? 0x7fc00000u : static_cast<uint32_t>(code) << 23);
}
// The smallest power of two >= x, x positive and normal.
__device__ inline uint8_t CeilToE8M0(float x) {
  const uint32_t bits = __float_as_uint(x);
  return static_cast<uint8_t>((bits >> 23) + ((bits & 0x7fffffu) != 0 ? 1u : 0u));
}
// 1 / FromE8M0(code) for codes 1 to 253.
__device__ inline float InverseE8M0(uint8_t code) { return __uint_as_float((254u - code) << 23); }

__device__ inline float FromE4M3(uint8_t code) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)));
}
__device__ inline uint8_t ToE4M3(float x) {
  return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}

// The code's three bits as exponent and top mantissa bit of a tiny float.
__device__ inline float FromE2M1(uint32_t code) {
  return __uint_as_float((code & 7u) << 22 | (code & 8u) << 28) * 0x1p126f;
}
__device__ inline uint32_t ToE2M1(float x) {
  const float a = fabsf(x);
  const uint32_t code = (a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) +
                        (a >= 3.5f) + (a > 5.0f);
  return code | (__float_as_uint(x) >> 31) << 3;
}

// Value c of an encoded row.
__device__ inline float DecodeValue(RowFormat format, const uint8_t* row, int64_t width,
                                    int64_t c) {
  const auto nibble = [&] { return c % 2 == 0 ? row[c / 2] & 15u : row[c / 2] >> 4u; };
  switch (format) {
    case RowFormat::kBF16: return Wide(reinterpret_cast<const BF16*>(row)[c]);
    case RowFormat::kFp8E8M0: return FromE4M3(row[c]) * FromE8M0(row[width + c / 32]);
    case RowFormat::kFp4E8M0: return FromE2M1(nibble()) * FromE8M0(row[width / 2 + c / 32]);
    case RowFormat::kFp4E4M3: return FromE2M1(nibble()) * FromE4M3(row[width / 2 + c / 16]);
  }
  return 0;
}

// The largest over the lanes of each group of `lanes` (16 or 32); NaN does not count.
__device__ inline float GroupMaximum(float x, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, step));
  }
  return x;
}

// One quantised value: its code, its group's scale code, and what a reader sees.
struct Coded {
  uint32_t code = 0;
  uint8_t scale = 0;
  float value = 0;
};

// The scale code of a group by its largest magnitude; 0 where the format has none.
__device__ inline uint8_t ScaleCode(RowFormat format, float largest) {
  if (format == RowFormat::kFp8E8M0) {
    constexpr float kFloor = 1e-4f, kInverse448 = 1.0f / 448.0f;
    return CeilToE8M0(fmaxf(largest, kFloor) * kInverse448);
  }
  if (format == RowFormat::kFp4E8M0) {
    constexpr float kFloor = 6 * 0x1p-126f, kInverse6 = 1.0f / 6.0f;
    const uint8_t scale = CeilToE8M0(fmaxf(largest, kFloor) * kInverse6);
    return scale == 0 ? 1 : scale;
  }
  if (format == RowFormat::kFp4E4M3) {
    constexpr float kFloor = 6 * 0x1p-9f;
    return ToE4M3(fmaxf(largest, kFloor) / 6.0f);
  }
  return 0;
}

// A value of a group whose scale is known.
__device__ inline Coded CodeValue(RowFormat format, uint8_t scale_code, float x) {
  Coded out = {.scale = scale_code};
  if (format == RowFormat::kBF16) {
    out.value = x;
  } else if (format == RowFormat::kFp8E8M0) {
    out.code = ToE4M3(x * InverseE8M0(scale_code));
    out.value = FromE4M3(static_cast<uint8_t>(out.code)) * FromE8M0(scale_code);
  } else if (format == RowFormat::kFp4E8M0) {
    out.code = ToE2M1(x * InverseE8M0(scale_code));
    out.value = FromE2M1(out.code) * FromE8M0(scale_code);
  } else {
    const float scale = FromE4M3(scale_code);
    out.code = ToE2M1(x / scale);
    out.value = FromE2M1(out.code) * scale;
  }
  return out;
}

// Each lane brings one of 32 neighbouring values (all lanes call it).
__device__ inline Coded QuantiseLane(RowFormat format, float x) {
  if (format == RowFormat::kBF16) return {.value = x};
  const float largest = GroupMaximum(fabsf(x), format == RowFormat::kFp4E4M3 ? 16 : 32);
  return CodeValue(format, ScaleCode(format, largest), x);
}

// Stores value c of a row; the lanes of a warp hold neighbours, and all of them call it.
__device__ inline void StoreCoded(RowFormat format, const Coded& coded, int64_t c, int64_t width,
                                  bool active, uint8_t* row) {
  const uint32_t high = __shfl_down_sync(kAllLanes, coded.code, 1);
  if (!active) return;
  if (format == RowFormat::kBF16) {
    reinterpret_cast<BF16*>(row)[c] = Narrow(coded.value);
  } else if (format == RowFormat::kFp8E8M0) {
    row[c] = static_cast<uint8_t>(coded.code);
    if (c % 32 == 0) row[width + c / 32] = coded.scale;
  } else {
    const int64_t group = format == RowFormat::kFp4E4M3 ? 16 : 32;
    if (c % 2 == 0) row[c / 2] = static_cast<uint8_t>(coded.code | high << 4);
    if (c % group == 0) row[width / 2 + c / group] = coded.scale;
  }
}

// Calls f(column, active) so that each warp has 32 neighbouring columns and all of its lanes come.
template <typename F>
__device__ inline void ForColumns(int64_t width, F f) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int64_t base = static_cast<int64_t>(threadIdx.x) - lane; base < width; base += blockDim.x) {
    f(base + lane, base + lane < width);
  }
}

// The sum over the threads of a block (whole warps, at most 1024), in every thread: a fixed tree.
__device__ inline double BlockSum(double x) {
  __shared__ double part[kWarp];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  for (int step = kWarp / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  __syncthreads();  // the sum before has been read
  if (lane == 0) part[threadIdx.x / kWarp] = x;
  __syncthreads();
  double sum = 0;
  for (unsigned i = 0; i < blockDim.x / kWarp; ++i) sum += part[i];
  return sum;
}

// 1 / sqrt(mean square + eps) of a row that the block reads together.
__device__ inline float InverseRms(const BF16* row, int64_t width, float eps) {
  double squares = 0;
#pragma unroll 4
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    const double x = Wide(row[c]);
    squares += x * x;
  }
  const auto mean = static_cast<float>(BlockSum(squares) / static_cast<double>(width));
  return 1.0f / sqrtf(mean + eps);
}

__device__ inline BF16 NormValue(BF16 x, BF16 weight, float inverse) {
  return Narrow(Wide(weight) * (Wide(x) * inverse));
}

__device__ inline float SigmoidOf(float x) { return 1.0f / (1.0f + expf(-x)); }

// Rotates one pair by the angle; inverse turns back.
__device__ inline void RotatePair(BF16* pair, float cosine, float sine, bool inverse) {
  const float re = Wide(pair[0]), im = Wide(pair[1]);
  const float s = inverse ? -sine : sine;
  pair[0] = Narrow(re * cosine - im * s);
  pair[1] = Narrow(re * s + im * cosine);
}

}  // namespace thalweg::kernels::cuda
