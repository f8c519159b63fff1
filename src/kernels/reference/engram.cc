// Engram lookup and gate (model.md 2.3).
#include <cmath>
#include <vector>

#include "kernels/reference/bodies.h"

namespace thalweg::kernels::reference {
namespace {

// sigmoid of the signed square root of the normalised product of stream and key.
float GateOf(const EngramGateParams& p, int64_t stream, const BF16* x, const BF16* key) {
  std::vector<float> weighted(static_cast<size_t>(p.hidden));
  std::vector<float> wide(static_cast<size_t>(p.hidden));
  Widen(key, p.hidden, wide.data());
  for (int64_t c = 0; c < p.hidden; ++c) {
    const float w = p.q_weight[stream * p.hidden + c] * p.k_weight[stream * p.hidden + c];
    weighted[static_cast<size_t>(c)] = ToFloat(x[c]) * w;
  }
  const auto width = static_cast<double>(p.hidden);
  const auto product = static_cast<float>(Dot(weighted.data(), wide.data(), p.hidden));
  const float x_inverse =
      1.0f / std::sqrt(static_cast<float>(SumOfSquares(x, p.hidden) / width) + p.norm_eps);
  const float k_inverse =
      1.0f / std::sqrt(static_cast<float>(SumOfSquares(key, p.hidden) / width) + p.norm_eps);
  const float dot = product * x_inverse * k_inverse * static_cast<float>(1.0 / std::sqrt(width));
  return Sigmoid(std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6f)), dot));
}

}  // namespace

void EngramGather(const EngramGatherParams& p) {
  std::vector<BF16> row(static_cast<size_t>(p.columns * p.width));
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t column = 0; column < p.columns; ++column) {
      const int64_t entry = p.table_rows[r * p.columns + column];
      for (int64_t c = 0; c < p.width; ++c) {
        const float scale = tensor::E8M0ToFloat(p.scales[entry * (p.width / 32) + c / 32]);
        row[static_cast<size_t>(column * p.width + c)] =
            tensor::ToBF16(tensor::E4M3ToFloat(p.codes[entry * p.width + c]) * scale);
      }
    }
    tensor::RoundTripRow(p.quantise, row.data(), p.columns * p.width,
                         p.out + r * p.columns * p.width);
  }
}

void EngramGate(const EngramGateParams& p) {
  const int64_t n = p.streams_n;
  p.stream.team->ParallelFor(p.rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (p.dead != nullptr && p.dead[r] != 0) continue;
      const BF16* keys = p.kv + r * (n + 1) * p.hidden;
      const BF16* value = keys + n * p.hidden;
      for (int64_t j = 0; j < n; ++j) {
        BF16* x = p.streams + (r * n + j) * p.hidden;
        const float gate = GateOf(p, j, x, keys + j * p.hidden);
        for (int64_t c = 0; c < p.hidden; ++c)
          x[c] = tensor::ToBF16(ToFloat(x[c]) + gate * ToFloat(value[c]));
      }
    }
  });
}

}  // namespace thalweg::kernels::reference
