// Forced text is verified where it pays: costs are learned from steps, whatever holds some of them
// up, and what is not known is tried.
#include "exec/forced_drafts.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace thalweg::exec {
namespace {

TEST(LearnedCosts, FindTheLineThatStepsFollow) {
  LearnedCosts costs;
  EXPECT_EQ(costs.Slope(), 0);
  for (uint32_t i = 0; i < 400; ++i) {
    const auto noise = base::Philox4x32({i, 0, 0, 0}, base::PhiloxKeyOf(3));
    const auto rows = static_cast<int64_t>(1 + noise[0] % 8);
    const double held_up = noise[1] % 50 == 0 ? 10 : 0;
    costs.Ran(rows, 0.002 + 0.001 * static_cast<double>(rows) + held_up);
  }
  EXPECT_NEAR(costs.Slope(), 0.001, 0.0004);
  EXPECT_LT(costs.TableFor(4, 4).StepSeconds(1, 4), 0.02);
}

TEST(LearnedCosts, KnowNothingOfRowsThatNeverVaried) {
  LearnedCosts costs;
  for (int i = 0; i < 100; ++i) costs.Ran(8, 0.010);
  EXPECT_EQ(costs.Slope(), 0);
  EXPECT_NEAR(costs.TableFor(8, 8).StepSeconds(1, 16), 0.010, 1e-6);
}

// No step is cheaper than none, and no row dearer than a step.
TEST(LearnedCosts, StayWithinWhatCanBe) {
  LearnedCosts falling, steep;
  for (int i = 0; i < 50; ++i) {
    falling.Ran(1 + i % 4, 0.010 - 0.002 * (i % 4));
    steep.Ran(4 + i % 2, i % 2 == 0 ? 0.001 : 0.010);
  }
  EXPECT_EQ(falling.Slope(), 0);
  EXPECT_LE(steep.Slope(), 0.010 / 4);
}

// A sequence under a constraint that forces this.
class Sequence final : public TokenMasks {
 public:
  explicit Sequence(std::vector<ForcedDraft> drafts) : drafts_(std::move(drafts)) {}
  Status Begin(std::span<const int32_t> /*output*/) override { return {}; }
  std::vector<ForcedDraft> Forced(int64_t most) override {
    const auto count = std::min(drafts_.size(), static_cast<size_t>(most));
    return {drafts_.begin(), drafts_.begin() + static_cast<std::ptrdiff_t>(count)};
  }
  Result<NextTokens> Wait() override { return NextTokens{}; }
  Result<std::vector<NextTokens>> WaitAlong(std::span<const int32_t> /*drafts*/) override {
    return std::vector<NextTokens>(1);
  }
  void Accept(std::span<const int32_t> /*tokens*/) override {}

 private:
  std::vector<ForcedDraft> drafts_;
};

// Lengths for two sequences, one of which drafts likely tokens and the other unlikely ones.
std::vector<int64_t> LengthsAt(ForcedDrafts::Options options) {
  Sequence likely({{1, 0.99}, {2, 0.98}, {3, 0.97}}), unlikely({{1, 0.3}, {2, 0.1}});
  const base::ThreadTeam team(1, base::Pinning::kOff);
  ForcedDrafts drafts(std::move(options));
  const std::vector<ForcedDrafts::Asked> asked = {{&likely, 3}, {nullptr, 0}, {&unlikely, 2}};
  drafts.Plan(team, asked, {.sequences = 3});
  EXPECT_EQ(drafts.drafts(0).size(), 3u);
  EXPECT_TRUE(drafts.drafts(1).empty());
  return {drafts.length(0), drafts.length(1), drafts.length(2)};
}

spec::CostProfile Line(double first, double each) {
  return {.steps = {{1, 1, first + each}, {1, 64, first + 64 * each}}, .drafts = {{1, 1e-6}}};
}

TEST(ForcedDrafts, AreVerifiedWhereTheyPay) {
  using Lengths = std::vector<int64_t>;
  EXPECT_EQ(LengthsAt({.always = true}), (Lengths{3, 0, 2}));
  EXPECT_EQ(LengthsAt({}), (Lengths{3, 0, 2}));  // nothing is known: rows are free
  EXPECT_EQ(LengthsAt({.costs = Line(1, 0.001)}), (Lengths{3, 0, 2}));
  EXPECT_EQ(LengthsAt({.costs = Line(1, 0.2)}), (Lengths{3, 0, 0}));
  EXPECT_EQ(LengthsAt({.costs = Line(0, 1)}), (Lengths{0, 0, 0}));  // a row is all there is to pay
}

}  // namespace
}  // namespace thalweg::exec
