// Projections (model.md 5.1): plain, grouped (wo_a), and norm + quantise.
#include <vector>

#include "kernels/reference/bodies.h"

namespace thalweg::kernels::reference {

void Linear(const LinearParams& p) {
  std::vector<float> x(static_cast<size_t>(p.rows * p.in));
  Widen(p.x, p.rows * p.in, x.data());
  for (const Projection& projection : p.projections) {
    const int64_t out = projection.weight.rows;
    MultiplyRows(p.stream, projection.weight, x.data(), p.rows,
                 [&](int64_t row, int64_t o, float value) {
                   if (projection.out_f32 != nullptr) projection.out_f32[row * out + o] = value;
                   if (projection.out_bf16 != nullptr)
                     projection.out_bf16[row * out + o] = tensor::ToBF16(value);
                 });
  }
}

void GroupedLinear(const GroupedLinearParams& p) {
  const int64_t out_width = p.groups * p.group_out;
  p.stream.team->ParallelFor(out_width, 16, [&](int64_t begin, int64_t end) {
    std::vector<float> weight(static_cast<size_t>(p.group_in));
    std::vector<float> x(static_cast<size_t>(p.group_in));
    for (int64_t o = begin; o < end; ++o) {
      DequantiseRow(p.weight, o, weight.data());
      for (int64_t r = 0; r < p.rows; ++r) {
        Widen(p.x + (r * p.groups + o / p.group_out) * p.group_in, p.group_in, x.data());
        p.out[r * out_width + o] =
            tensor::ToBF16(static_cast<float>(Dot(x.data(), weight.data(), p.group_in)));
      }
    }
  });
  for (int64_t r = 0; r < p.rows; ++r) {
    BF16* row = p.out + r * out_width;
    tensor::RoundTripRow(p.quantise, row, out_width, row);
  }
}

void Norm(const NormParams& p) {
  p.stream.team->ParallelFor(p.rows, 8, [&](int64_t begin, int64_t end) {
    std::vector<BF16> normed(static_cast<size_t>(p.width));
    for (int64_t r = begin; r < end; ++r) {
      BF16* out = p.out != nullptr ? p.out + r * p.width : normed.data();
      RmsNorm(p.x + r * p.width, p.weight, p.width, p.eps, out);
      if (p.out_quantised == nullptr) continue;
      tensor::RoundTripRow(p.quantise, out, p.width, p.out_quantised + r * p.width);
    }
  });
}

}  // namespace thalweg::kernels::reference
