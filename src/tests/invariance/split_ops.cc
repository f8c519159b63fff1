#include "tests/invariance/split_ops.h"

#include <array>
#include <atomic>
#include <vector>

#include "kernels/backends.h"
#include "tensor/formats.h"

namespace thalweg::tests {
namespace {

using kernels::LinearParams;
using kernels::Projection;
using tensor::BF16;

constexpr int64_t kParts = 4;
constexpr int64_t kFewRows = 4;

// The product with all columns but every fourth set to zero, which adds nothing. (Quarters that are
// whole blocks of columns might happen to be summed as the body itself sums them.)
std::vector<float> Partial(const LinearParams& p, const Projection& projection, int64_t part) {
  std::vector<BF16> x(p.x, p.x + p.rows * p.in);
  for (int64_t i = 0; i < p.rows * p.in; ++i) {
    if (i % p.in % kParts != part) x[static_cast<size_t>(i)] = BF16{0};
  }
  std::vector<float> out(static_cast<size_t>(p.rows * projection.weight.rows));
  const Projection to_float{.weight = projection.weight, .out_f32 = out.data()};
  kernels::CpuOps().linear({.stream = p.stream,
                            .rows = p.rows,
                            .in = p.in,
                            .x = x.data(),
                            .projections = {&to_float, 1}});
  return out;
}

void SplitOne(const LinearParams& p, const Projection& projection, int64_t first_part) {
  std::array<std::vector<float>, kParts> parts;
  for (int64_t part = 0; part < kParts; ++part)
    parts[static_cast<size_t>(part)] = Partial(p, projection, part);
  for (size_t i = 0; i < parts[0].size(); ++i) {
    float sum = 0;
    for (int64_t k = 0; k < kParts; ++k)
      sum += parts[static_cast<size_t>((first_part + k) % kParts)][i];
    if (projection.out_f32 != nullptr) projection.out_f32[i] = sum;
    if (projection.out_bf16 != nullptr) projection.out_bf16[i] = tensor::ToBF16(sum);
  }
}

void Split(const LinearParams& p, int64_t first_part) {
  for (const Projection& projection : p.projections) SplitOne(p, projection, first_part);
}

void FixedSplit(const LinearParams& p) { Split(p, 0); }

void ArrivalOrder(const LinearParams& p) {
  static std::atomic<int64_t> calls = 0;
  Split(p, calls.fetch_add(1) % kParts);
}

void SplitByRows(const LinearParams& p) {
  if (p.rows > kFewRows) return kernels::CpuOps().linear(p);
  Split(p, 0);
}

kernels::Ops WithLinear(void (*linear)(const LinearParams&)) {
  kernels::Ops ops = kernels::CpuOps();
  ops.linear = linear;
  return ops;
}

}  // namespace

const kernels::Ops& FixedSplitOps() {
  static const kernels::Ops ops = WithLinear(FixedSplit);
  return ops;
}

const kernels::Ops& ArrivalOrderOps() {
  static const kernels::Ops ops = WithLinear(ArrivalOrder);
  return ops;
}

const kernels::Ops& SplitByRowsOps() {
  static const kernels::Ops ops = WithLinear(SplitByRows);
  return ops;
}

}  // namespace thalweg::tests
