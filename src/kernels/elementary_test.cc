// Bodies against formulas written out by hand on tiny inputs: norms, softplus at its limits,
// Sinkhorn sums, the direction of the stream mix, the sink in the denominator, empty windows, the
// SwiGLU clamp and the place of the routing weight; and the error of the vector mathematics.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/backends.h"
#include "kernels/test_kit.h"

#define THALWEG_CPU_TARGET testing
#include "kernels/cpu/math.inc.h"

namespace thalweg::kernels::testing {
namespace {

class EveryBackend : public ::testing::TestWithParam<const Ops*> {
 protected:
  const Ops& ops() const { return *GetParam(); }
  base::ThreadTeam team_{1};
};

std::vector<const Ops*> AllOps() {
  std::vector<const Ops*> all = {&ReferenceOps()};
  if (DeviceOps() != nullptr) return {all.front(), DeviceOps()};
  for (const CpuTarget& target : CpuTargets()) {
    if (target.supported) all.push_back(target.ops);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Elementary, EveryBackend, ::testing::ValuesIn(AllOps()));

std::vector<BF16> ToHalves(const std::vector<float>& x) {
  std::vector<BF16> out;
  for (const float value : x) out.push_back(tensor::ToBF16(value));
  return out;
}

TEST_P(EveryBackend, NormDividesByTheRootOfTheMeanSquare) {
  const std::vector<BF16> x = ToHalves({3, 4, 0, 0});
  const std::vector<BF16> weight = ToHalves({1, 2, 1, 1});
  std::vector<BF16> y(4);
  ops().norm(
      {{&team_}, 1, 4, x.data(), weight.data(), 1e-20f, RowFormat::kBF16, y.data(), nullptr});
  EXPECT_EQ(ToFloat(y[0]), tensor::RoundBF16(3 / 2.5f));
  EXPECT_EQ(ToFloat(y[1]), tensor::RoundBF16(2 * 4 / 2.5f));
}

TEST_P(EveryBackend, NormOfZeroIsZero) {
  const std::vector<BF16> x(32), weight(32, tensor::ToBF16(1));
  std::vector<BF16> y(32, tensor::ToBF16(7));
  ops().norm(
      {{&team_}, 1, 32, x.data(), weight.data(), 1e-20f, RowFormat::kFp8E8M0, y.data(), y.data()});
  for (const BF16 value : y) EXPECT_EQ(ToFloat(value), 0.0f);
}

// The router's scores of two experts, seen through their normalised weights.
float ShareOfFirst(const Ops& ops, const base::ThreadTeam& team, float z0, float z1) {
  const std::vector<float> weights = {z0, z1};
  const BF16 x = tensor::ToBF16(1);
  const float bias[2] = {};
  int32_t chosen[2];
  float shares[2];
  ops.gate({{&team},
            1,
            1,
            2,
            2,
            &x,
            {WeightFormat::kF32, weights.data(), nullptr, 2, 1},
            bias,
            bias,
            nullptr,
            1.0f,
            chosen,
            shares});
  return shares[0];
}

TEST_P(EveryBackend, RouterScoresAreRootsOfSoftplusAtItsLimits) {
  // Far up softplus is the identity, far down the exponential; log(2) in the middle.
  EXPECT_NEAR(ShareOfFirst(ops(), team_, 400, 100), 20.0 / 30.0, 1e-6);
  EXPECT_NEAR(ShareOfFirst(ops(), team_, 25, 0), 5 / (5 + std::sqrt(std::log(2.0))), 1e-6);
  EXPECT_NEAR(ShareOfFirst(ops(), team_, -30, -32), 1 / (1 + std::exp(-1.0)), 1e-5);
  EXPECT_NEAR(ShareOfFirst(ops(), team_, 300, -300), 1.0, 1e-6);
}

TEST_P(EveryBackend, SinkhornLeavesRowsAndColumnsThatSumToOne) {
  Random random(1);
  for (const int64_t n : {2, 3, 4, 5}) {
    const int64_t hidden = 32, mixes = 2 * n + n * n;
    const std::vector<BF16> streams = random.Values(n * hidden);
    const std::vector<float> fn = random.Floats(mixes * n * hidden, 0.1f);
    const std::vector<float> base(static_cast<size_t>(mixes), 0.0f);
    const float scale[3] = {1, 1, 1};
    std::vector<float> mix(static_cast<size_t>(n), 1.0f), pre(mix), post(mix);
    std::vector<float> comb(static_cast<size_t>(n * n));
    const std::vector<BF16> weight(32, tensor::ToBF16(1));
    std::vector<BF16> normed(32), quantised(32);
    ops().hyper_predict({{&team_},
                         1,
                         n,
                         hidden,
                         streams.data(),
                         fn.data(),
                         base.data(),
                         scale,
                         20,
                         1e-20f,
                         1e-6f,
                         mix.data(),
                         weight.data(),
                         RowFormat::kFp8E8M0,
                         pre.data(),
                         post.data(),
                         comb.data(),
                         normed.data(),
                         quantised.data()});
    for (int64_t k = 0; k < n; ++k) {
      float row = 0, column = 0;
      for (int64_t j = 0; j < n; ++j) {
        row += comb[static_cast<size_t>(k * n + j)];
        column += comb[static_cast<size_t>(j * n + k)];
      }
      EXPECT_NEAR(row, 1.0f, 1e-3f);
      EXPECT_NEAR(column, 1.0f, 1e-5f);
      EXPECT_GT(post[static_cast<size_t>(k)], 0.0f);
      EXPECT_LT(post[static_cast<size_t>(k)], 2.0f);
    }
  }
}

TEST_P(EveryBackend, TheFirstIndexOfTheMixIsTheSource) {
  // Stream 1 of the result takes stream 0 of the past, and nothing else.
  std::vector<BF16> streams = ToHalves({5, 7});
  const BF16 update = tensor::ToBF16(3);
  const float post[2] = {0, 1};
  const float comb[4] = {0, 1, 0, 0};
  ops().hyper_finish({{&team_}, 1, 2, 1, &update, post, comb, streams.data()});
  EXPECT_EQ(ToFloat(streams[0]), 0.0f);
  EXPECT_EQ(ToFloat(streams[1]), 3.0f + 5.0f);
}

// One head of width 32 over `count` equal keys of ones; returns what each channel became.
float AttendOnes(const Ops& ops, const base::ThreadTeam& team, int64_t count, float q, float sink) {
  constexpr int64_t kWidth = 32;
  std::vector<BF16> query(kWidth, tensor::ToBF16(q)), out(kWidth);
  const std::vector<BF16> ones(static_cast<size_t>(kWidth * 8), tensor::ToBF16(1));
  std::vector<uint8_t> chunk(8 * kWidth * 2);
  tensor::EncodeRow(RowFormat::kBF16, ones.data(), kWidth * 8, chunk.data());
  const WindowKeys keys = {nullptr, 8, chunk.data(), 0, 8 - count};
  const int32_t sequence = 0;
  const int64_t end = 7;
  ops.attention({{&team},
                 1,
                 1,
                 kWidth,
                 8,
                 query.data(),
                 {nullptr, nullptr, 0},
                 1.0f,
                 &sink,
                 &sequence,
                 &end,
                 &keys,
                 RowFormat::kBF16,
                 nullptr,
                 nullptr,
                 0,
                 out.data()});
  for (const BF16 value : out) EXPECT_EQ(ToFloat(value), ToFloat(out[0]));
  return ToFloat(out[0]);
}

TEST_P(EveryBackend, TheSinkIsInTheDenominatorAlone) {
  // Equal logits 0: n keys of weight 1 and a sink of weight e^s, which has no value.
  for (const int64_t n : {1, 3, 8}) {
    const auto count = static_cast<float>(n);
    EXPECT_EQ(AttendOnes(ops(), team_, n, 0, 0), tensor::RoundBF16(count / (count + 1)));
    EXPECT_NEAR(AttendOnes(ops(), team_, n, 0, std::log(5.0f)), count / (count + 5), 4e-3);
  }
  EXPECT_EQ(AttendOnes(ops(), team_, 4, 0, -200), 1.0f);
  EXPECT_EQ(AttendOnes(ops(), team_, 4, 3, -10), 1.0f);  // logits of 96 drown the sink
  EXPECT_EQ(AttendOnes(ops(), team_, 4, -3, 50), 0.0f);  // and the sink drowns logits of -96
}

TEST_P(EveryBackend, AnEmptyWindowGivesZero) { EXPECT_EQ(AttendOnes(ops(), team_, 0, 1, 0), 0.0f); }

// One expert of width 1 with weights g, u, d (exact in bf16), input 1; the shared expert is zero.
float RunExpert(const Ops& ops, const base::ThreadTeam& team, float gate, float up, float down,
                float weight) {
  const BF16 zero = {}, g = tensor::ToBF16(gate), u = tensor::ToBF16(up), d = tensor::ToBF16(down);
  const auto matrix = [](const BF16* w) { return Matrix{WeightFormat::kBF16, w, nullptr, 1, 1}; };
  const FeedForward expert = {matrix(&g), matrix(&u), matrix(&d)};
  const FeedForward shared = {matrix(&zero), matrix(&zero), matrix(&zero)};
  const BF16 x = tensor::ToBF16(1);
  const int32_t chosen = 0;
  BF16 y;
  ops.experts({{&team},
               1,
               1,
               1,
               1,
               &x,
               &chosen,
               &weight,
               {&expert, 1},
               shared,
               10.0f,
               RowFormat::kBF16,
               &y});
  return ToFloat(y);
}

TEST_P(EveryBackend, SwiGluClampsBeforeItWeighs) {
  const auto silu = [](float g) { return g / (1 + std::exp(-g)); };
  EXPECT_NEAR(RunExpert(ops(), team_, 2, 3, 1, 0.5f), silu(2) * 3 * 0.5f, 0.02);
  EXPECT_NEAR(RunExpert(ops(), team_, 50, 3, 1, 1), silu(10) * 3, 0.1);  // gate from above
  EXPECT_NEAR(RunExpert(ops(), team_, -50, 3, 1, 1), 0, 1e-6);           // but not from below
  EXPECT_NEAR(RunExpert(ops(), team_, 2, 50, 1, 0.1f), silu(2) * 10 * 0.1f, 0.02);
  EXPECT_NEAR(RunExpert(ops(), team_, 2, -50, 1, 0.1f), -silu(2) * 10 * 0.1f, 0.02);
}

// --- The vector mathematics of the cpu backend, which is the same source for every target. ---

namespace vector_math = cpu::testing;

template <typename Vector, typename Exact>
double LargestRelativeError(float from, float to, const Vector& vector, const Exact& exact) {
  double worst = 0;
  for (int i = 0; i <= 200000; ++i) {
    const float x = from + (to - from) * static_cast<float>(i) / 200000.0f;
    const double want = exact(static_cast<double>(x));
    worst = std::max(worst, std::fabs(vector(x) - want) / std::fabs(want));
  }
  return worst;
}

float VectorSoftplus(float x) { return vector_math::Softplus(vector_math::Set(x)).part[0][0]; }
float VectorExp(float x) { return vector_math::Exp1(x); }
float VectorSigmoid(float x) { return vector_math::Sigmoid1(x); }

TEST(VectorMath, ExpIsWithinItsDocumentedError) {
  const auto exact = [](double x) { return std::exp(x); };
  EXPECT_LT(LargestRelativeError(-87.3f, 88.7f, VectorExp, exact), 3e-7);
  EXPECT_LT(LargestRelativeError(-1.0f, 1.0f, VectorExp, exact), 2e-7);
}

TEST(VectorMath, ExpAtTheEdges) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(vector_math::Exp1(0.0f), 1.0f);
  EXPECT_EQ(vector_math::Exp1(-0.0f), 1.0f);
  EXPECT_EQ(vector_math::Exp1(-infinity), 0.0f);
  EXPECT_EQ(vector_math::Exp1(-1e30f), 0.0f);
  EXPECT_EQ(vector_math::Exp1(infinity), infinity);
  EXPECT_EQ(vector_math::Exp1(89.0f), infinity);
  EXPECT_TRUE(std::isnan(vector_math::Exp1(std::nanf(""))));
}

TEST(VectorMath, SigmoidAndSoftplusAreWithinTheirErrors) {
  EXPECT_LT(LargestRelativeError(-80.0f, 80.0f, VectorSigmoid,
                                 [](double x) { return 1 / (1 + std::exp(-x)); }),
            4e-7);
  EXPECT_LT(LargestRelativeError(-80.0f, 80.0f, VectorSoftplus,
                                 [](double x) { return std::log1p(std::exp(x)); }),
            6e-7);
}

}  // namespace
}  // namespace thalweg::kernels::testing
