// Products of every cpu target add in the order that Ops::sums declares, and in no other: bits
// equal those of a scalar model of that order, for any number of rows. Fast products of FP8 and FP4
// sum integers, so that all targets give the same bits whatever their order is.
#include <gtest/gtest.h>

#include "kernels/backends.h"
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {
namespace {

constexpr int64_t kColumns = 32;

struct Pair {
  int64_t even, odd;
};

// The columns of pair p of a group (kernels/cpu/lines.inc.h): halves of one stored word.
Pair PairOf(WeightFormat format, int64_t p) {
  if (format == WeightFormat::kBF16) return {2 * p, 2 * p + 1};
  const int64_t apart = format == WeightFormat::kFp4 ? 4 : 2;
  const int64_t even = p / apart * (2 * apart) + p % apart;
  return {even, even + apart};
}

struct Problem {
  WeightFormat format;
  int64_t in, out, rows;
  OwnedMatrix weight;
  std::vector<BF16> x;

  Problem(WeightFormat f, int64_t in_width, int64_t outs, int64_t row_count, Random* random)
      : format(f), in(in_width), out(outs), rows(row_count), weight(f, outs, in_width, random) {
    x = random->Values(rows * in);
  }

  std::vector<float> Run(const Ops& ops, const std::vector<BF16>& inputs) const {
    const int64_t count = static_cast<int64_t>(inputs.size()) / in;
    std::vector<float> y(static_cast<size_t>(count * out));
    const base::ThreadTeam team(2);
    const Projection projection{.weight = weight, .out_f32 = y.data()};
    ops.linear({{&team}, count, in, inputs.data(), {&projection, 1}});
    return y;
  }

  // [in, out], as the products of unit rows show them.
  std::vector<float> Weights() const {
    std::vector<BF16> unit(static_cast<size_t>(in * in));
    for (int64_t i = 0; i < in; ++i) unit[static_cast<size_t>(i * in + i)] = tensor::ToBF16(1.0f);
    return Run(ReferenceOps(), unit);
  }
};

// Thirty-two products in the declared order.
float GroupSum(const Problem& p, SumOrder order, const BF16* x, const float* w) {
  const auto product = [&](int64_t c) { return ToFloat(x[c]) * w[c * p.out]; };
  float even = 0, odd = 0, sum = 0;
  for (int64_t i = 0; i < kColumns / 2; ++i) {
    const Pair pair = PairOf(p.format, i);
    even += product(pair.even);
    odd += product(pair.odd);
    sum += product(pair.odd);
    sum += product(pair.even);
  }
  return order == SumOrder::kPairByPair ? sum : even + odd;
}

std::vector<float> Model(const Problem& p, SumOrder order) {
  const std::vector<float> weights = p.Weights();
  std::vector<float> y;
  for (int64_t r = 0; r < p.rows; ++r) {
    for (int64_t o = 0; o < p.out; ++o) {
      float total = 0;
      for (int64_t c = 0; c < p.in; c += kColumns)
        total += GroupSum(p, order, p.x.data() + r * p.in + c, weights.data() + c * p.out + o);
      y.push_back(total);
    }
  }
  return y;
}

const WeightFormat kFormats[] = {WeightFormat::kFp8, WeightFormat::kFp4, WeightFormat::kBF16};
constexpr int64_t kRowCounts[] = {1, 2, 3, 7, 12, 15, 16, 17, 31, 32, 33, 50, 65};

TEST(SumOrder, ExactProductsAddAsDeclared) {
  Random random(11);
  for (const WeightFormat format : kFormats) {
    for (const int64_t rows : kRowCounts) {
      const Problem problem(format, 32 * (1 + rows % 19), 45, rows, &random);
      for (const CpuTarget& target : CpuTargets()) {
        if (!target.supported) continue;
        EXPECT_EQ(problem.Run(*target.ops, problem.x), Model(problem, target.ops->sums))
            << target.name << " format " << static_cast<int>(format) << " rows " << rows;
      }
    }
  }
}

TEST(SumOrder, FastProductsOfFP8AndFP4HaveNone) {
  Random random(12);
  for (const WeightFormat format : {WeightFormat::kFp8, WeightFormat::kFp4}) {
    for (const int64_t rows : kRowCounts) {
      const Problem problem(format, 32 * (1 + rows % 19), 45, rows, &random);
      const std::vector<float> want = problem.Run(**CpuOps("generic", Numerics::kFast), problem.x);
      for (const CpuTarget& target : CpuTargets()) {
        if (!target.supported) continue;
        EXPECT_EQ(problem.Run(*target.fast, problem.x), want)
            << target.name << " format " << static_cast<int>(format) << " rows " << rows;
      }
    }
  }
}

}  // namespace
}  // namespace thalweg::kernels::testing
