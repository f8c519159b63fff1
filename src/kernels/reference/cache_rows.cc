// What goes into the caches: window rows, pooled latents, main compressed rows and index keys
// (model.md 2.5, 5.3).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/reference/bodies.h"

namespace thalweg::kernels::reference {
namespace {

struct RowWorker {
  const BF16* norm_weight;
  float eps;
  const Rotation& rotation;
  RowFormat format;
  int64_t width;
  std::vector<BF16> row;

  void Store(const BF16* x, int64_t index, uint8_t* out) {
    row.resize(static_cast<size_t>(width));
    if (norm_weight != nullptr) {
      RmsNorm(x, norm_weight, width, eps, row.data());
    } else {
      std::copy_n(x, width, row.data());
    }
    const int64_t half = rotation.rope_dim / 2;
    Rotate(row.data(), width, rotation.cos + index * half, rotation.sin + index * half,
           rotation.rope_dim, false);
    tensor::EncodeRow(format, row.data(), width, out);
  }
};

// Softmax over the two tokens of each channel's scores, weighted sum of their values.
float PoolPair(float kv0, float kv1, float score0, float score1) {
  const float top = std::max(score0, score1);
  const float e0 = std::exp(score0 - top);
  const float e1 = std::exp(score1 - top);
  const float sum = e0 + e1;
  return (e0 / sum) * kv0 + (e1 / sum) * kv1;
}

}  // namespace

void WindowRows(const WindowRowsParams& p) {
  const int64_t row_bytes = tensor::RowBytes(p.format, p.width);
  p.stream.team->ParallelFor(p.rows, 8, [&](int64_t begin, int64_t end) {
    RowWorker worker{p.norm_weight, p.norm_eps, p.rotation, p.format, p.width, {}};
    for (int64_t r = begin; r < end; ++r)
      worker.Store(p.kv + r * p.width, r, p.out + r * row_bytes);
  });
}

void StoreRows(const StoreRowsParams& p) {
  RowWorker worker{p.norm_weight, p.norm_eps, p.rotation, p.format, p.width, {}};
  for (int64_t r = 0; r < p.rows; ++r) worker.Store(p.x + r * p.width, r, p.destination[r]);
}

void Pool(const PoolParams& p) {
  std::vector<BF16> pooled(static_cast<size_t>(p.width));
  for (int64_t g = 0; g < p.groups; ++g) {
    if (p.ratio == 1) {
      RmsNorm(p.kv_bf16 + g * p.width, p.norm_weight, p.width, p.norm_eps, p.latent + g * p.width);
      continue;
    }
    const auto i = static_cast<size_t>(g);
    for (int64_t c = 0; c < p.width; ++c) {
      pooled[static_cast<size_t>(c)] = tensor::ToBF16(
          PoolPair(p.first_kv[i][c], p.second_kv[i][c], p.first_score[i][c], p.second_score[i][c]));
    }
    RmsNorm(pooled.data(), p.norm_weight, p.width, p.norm_eps, p.latent + g * p.width);
  }
}

}  // namespace thalweg::kernels::reference
