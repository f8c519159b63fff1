// What goes into the caches, and the Engram table and gate (model.md 2.3, 2.5).
#pragma once

#include "kernels/cpu/rows.inc.h"
#include "kernels/reference/bodies.h"

namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET {
namespace {

struct CacheRowMaker {
  const BF16* norm_weight;  // or null
  float eps;
  const Rotation& rotation;
  RowFormat format;
  int64_t width;
  BF16* row;      // [width], scratch
  float* angles;  // [2 * rope_dim], scratch

  CacheRowMaker(const BF16* weight, float norm_eps, const Rotation& turns, RowFormat stored,
                int64_t values)
      : norm_weight(weight),
        eps(norm_eps),
        rotation(turns),
        format(stored),
        width(values),
        row(static_cast<BF16*>(Scratch(Slot::kRow, values * 2))),
        angles(ScratchFloats(Slot::kAngles, 2 * turns.rope_dim)) {}

  void Make(const BF16* x, int64_t index, uint8_t* out) const {
    if (norm_weight != nullptr) {
      RmsNorm(x, norm_weight, width, eps, row);
    } else {
      __builtin_memcpy(static_cast<void*>(row), x, static_cast<size_t>(width) * 2);
    }
    Rotate(row, width, SpreadAngles(rotation, index, false, angles));
    Encode(format, row, width, out);
  }
};

void WindowRows(const WindowRowsParams& p) {
  const int64_t row_bytes = tensor::RowBytes(p.format, p.width);
  p.stream.team->ParallelFor(p.rows, Most(1, (1 << 14) / p.width), [&](int64_t begin, int64_t end) {
    const CacheRowMaker maker(p.norm_weight, p.norm_eps, p.rotation, p.format, p.width);
    for (int64_t r = begin; r < end; ++r) maker.Make(p.kv + r * p.width, r, p.out + r * row_bytes);
  });
}

void StoreRows(const StoreRowsParams& p) {
  p.stream.team->ParallelFor(p.rows, Most(1, (1 << 12) / p.width), [&](int64_t begin, int64_t end) {
    const CacheRowMaker maker(p.norm_weight, p.norm_eps, p.rotation, p.format, p.width);
    for (int64_t r = begin; r < end; ++r) maker.Make(p.x + r * p.width, r, p.destination[r]);
  });
}

// Softmax over the two tokens of each channel's scores, weighted sum of their values.
TW_INLINE F PoolPair(F kv0, F kv1, F score0, F score1) {
  const F top = Max(score0, score1);
  const F e0 = Exp(score0 - top);
  const F e1 = Exp(score1 - top);
  const F sum = e0 + e1;
  return (e0 / sum) * kv0 + (e1 / sum) * kv1;
}

// The values of a group before the norm, at `out`.
void PoolGroup(const PoolParams& p, int64_t group, BF16* out) {
  const auto g = static_cast<size_t>(group);
  for (int64_t c = 0; c < p.width; c += kLanes) {
    const int64_t n = p.width - c;
    const F mixed =
        PoolPair(LoadFirst(p.first_kv[g] + c, n), LoadFirst(p.second_kv[g] + c, n),
                 LoadFirst(p.first_score[g] + c, n), LoadFirst(p.second_score[g] + c, n));
    StoreFirst(out + c, mixed, n);
  }
}

void Pool(const PoolParams& p) {
  const int64_t grain = Most(1, (1 << 13) / p.width);
  p.stream.team->ParallelFor(p.groups, grain, [&](int64_t begin, int64_t end) {
    auto* pooled = static_cast<BF16*>(Scratch(Slot::kRow, p.width * 2));
    for (int64_t g = begin; g < end; ++g) {
      if (p.ratio != 1) PoolGroup(p, g, pooled);
      const BF16* row = p.ratio == 1 ? p.kv_bf16 + g * p.width : pooled;
      RmsNorm(row, p.norm_weight, p.width, p.norm_eps, p.latent + g * p.width);
    }
  });
}

void EngramGather(const EngramGatherParams& p) {
  if (p.width % kGroup != 0) return reference::EngramGather(p);
  p.stream.team->ParallelFor(p.rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * p.columns; i < end * p.columns; ++i) {
      const uint8_t* codes = p.codes + p.table_rows[i] * p.width;
      const uint8_t* scales = p.scales + p.table_rows[i] * (p.width / kGroup);
      BF16* out = p.out + i * p.width;
      for (int64_t c = 0; c < p.width; c += kLanes) {
        StoreBF16(out + c, DecodeE4M3(codes + c, Set(ScaleOfE4M3(scales[c / kGroup]))));
      }
      RoundTrip(p.quantise, out, p.width, out);
    }
  });
}

// sigmoid of the signed square root of the normalised product of stream and key.
float EngramGateOf(const EngramGateParams& p, int64_t stream, const BF16* x, const BF16* key) {
  F product = Zero(), x_squares = Zero(), key_squares = Zero();
  const float* q = p.q_weight + stream * p.hidden;
  const float* k = p.k_weight + stream * p.hidden;
  for (int64_t c = 0; c < p.hidden; c += kLanes) {
    const int64_t n = p.hidden - c;
    const F value = LoadFirst(x + c, n);
    const F other = LoadFirst(key + c, n);
    product = product + value * (LoadFirst(q + c, n) * LoadFirst(k + c, n)) * other;
    x_squares = x_squares + value * value;
    key_squares = key_squares + other * other;
  }
  const float root = 1.0f / __builtin_sqrtf(static_cast<float>(p.hidden));
  const float dot = SumLanes(product) * InverseRms(SumLanes(x_squares), p.hidden, p.norm_eps) *
                    InverseRms(SumLanes(key_squares), p.hidden, p.norm_eps) * root;
  const float size = __builtin_fabsf(dot);
  const float signed_root = __builtin_copysignf(__builtin_sqrtf(size < 1e-6f ? 1e-6f : size), dot);
  return Sigmoid1(signed_root);
}

void EngramGateRow(const EngramGateParams& p, int64_t row) {
  const int64_t n = p.streams_n;
  const BF16* keys = p.kv + row * (n + 1) * p.hidden;
  const BF16* value = keys + n * p.hidden;
  for (int64_t j = 0; j < n; ++j) {
    BF16* x = p.streams + (row * n + j) * p.hidden;
    const F gate = Set(EngramGateOf(p, j, x, keys + j * p.hidden));
    for (int64_t c = 0; c < p.hidden; c += kLanes) {
      const int64_t left = p.hidden - c;
      StoreFirst(x + c, LoadFirst(x + c, left) + gate * LoadFirst(value + c, left), left);
    }
  }
}

void EngramGate(const EngramGateParams& p) {
  const int64_t grain = Most(1, (1 << 15) / (p.streams_n * p.hidden));
  p.stream.team->ParallelFor(p.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (p.dead == nullptr || p.dead[r] == 0) EngramGateRow(p, r);
    }
  });
}

}  // namespace
}  // namespace thalweg::kernels::cpu::THALWEG_CPU_TARGET
