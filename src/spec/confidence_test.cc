// Confidences become survivals that never rise; calibration finds the temperatures that made the
// data, stage by stage, and lowers the error of a head that is too sure of itself; smoothing takes
// away a constant bias; error, Brier score and AUC are those of their definitions.
#include "spec/confidence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "spec/calibration.h"
#include "spec/smoothing.h"
#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

TEST(Sigmoid, IsTheLogisticFunction) {
  for (const double x : {-800.0, -30.0, -2.5, -1e-9, 0.0, 0.4, 7.0, 50.0, 800.0})
    EXPECT_NEAR(Sigmoid(x), 1 / (1 + std::exp(-x)), 1e-10) << x;
  EXPECT_EQ(Sigmoid(NAN), 0);
  EXPECT_EQ(Sigmoid(INFINITY), 1);
  EXPECT_LT(Sigmoid(-INFINITY), 1e-300);
  for (const double p : {0.001, 0.3, 0.5, 0.99}) EXPECT_NEAR(Sigmoid(Logit(p)), p, 1e-10);
}

TEST(Survivals, AreProductsThatNeverRise) {
  const std::vector<float> raw = {2, -1, NAN, 5};
  const std::vector<double> temperatures = {2, 0.5};
  const std::vector<double> shifts = {0, 1};
  std::vector<double> survival(5, 7);
  Survivals(raw, temperatures, shifts, survival);
  EXPECT_NEAR(survival[0], Sigmoid(1), 1e-15);
  EXPECT_NEAR(survival[1], Sigmoid(1) * Sigmoid(-1), 1e-15);
  EXPECT_EQ(survival[2], 0);  // nonsense is no hope
  EXPECT_EQ(survival[3], 0);
  EXPECT_EQ(survival[4], 0);  // no such draft
}

TEST(Quality, FollowsTheDefinitions) {
  const std::vector<Prediction> sure = {{1, true}, {1, true}, {0, false}};
  EXPECT_EQ(CalibrationError(sure), 0);
  EXPECT_EQ(BrierScore(sure), 0);
  EXPECT_EQ(AreaUnderCurve(sure), 1);
  const std::vector<Prediction> wrong = {{1, false}, {0, true}};
  EXPECT_EQ(CalibrationError(wrong), 1);
  EXPECT_EQ(BrierScore(wrong), 1);
  EXPECT_EQ(AreaUnderCurve(wrong), 0);
  // Two bins of two each: |.9 + .9 - 1| and |.1 + .1 - 1|, over four.
  const std::vector<Prediction> half = {{0.9, true}, {0.9, false}, {0.1, true}, {0.1, false}};
  EXPECT_NEAR(CalibrationError(half), (0.8 + 0.8) / 4, 1e-15);
  EXPECT_EQ(AreaUnderCurve(half), 0.5);
  EXPECT_EQ(AreaUnderCurve({{0.4, true}, {0.4, true}}), 0.5);
  EXPECT_EQ(CalibrationError({}), 0);
  EXPECT_EQ(BrierScore({}), 0);
}

TEST(Quality, AreaIsTheShareOfOrderedPairs) {
  std::vector<Prediction> all;
  for (uint32_t i = 0; i < 80; ++i)
    all.push_back({std::round(8 * TestUniform(1, i)) / 8, TestUniform(1, i, 1) < 0.4});
  double wins = 0, pairs = 0;
  for (const Prediction& a : all) {
    for (const Prediction& b : all) {
      if (!a.happened || b.happened) continue;
      pairs += 1;
      wins += a.probability > b.probability ? 1 : (a.probability == b.probability ? 0.5 : 0);
    }
  }
  EXPECT_NEAR(AreaUnderCurve(all), wins / pairs, 1e-12);
}

// Blocks whose drafts are accepted with sigmoid(raw / truth[k]).
std::vector<VerifiedBlock> BlocksOf(const std::vector<double>& truth, size_t count, uint64_t seed,
                                    int64_t verified) {
  std::vector<VerifiedBlock> blocks(count);
  for (size_t i = 0; i < count; ++i) {
    VerifiedBlock& b = blocks[i];
    b.verified = verified;
    bool alive = true;
    for (size_t k = 0; k < truth.size(); ++k) {
      const auto at = static_cast<uint32_t>(i * 16 + k);
      b.raw.push_back(static_cast<float>(8 * TestUniform(seed, at) - 2.5));
      alive = alive && TestUniform(seed, at, 1) < Sigmoid(b.raw[k] / truth[k]);
      b.accepted += alive && static_cast<int64_t>(k) < verified ? 1 : 0;
    }
  }
  return blocks;
}

TEST(Calibration, FindsTheTemperaturesOfTheData) {
  const std::vector<double> truth = {2, 1, 4, 1.5};
  const Calibration c = FitCalibration(BlocksOf(truth, 40000, 3, 4), 4, "m");
  ASSERT_EQ(c.temperatures.size(), 4u);
  for (size_t k = 0; k < truth.size(); ++k) {
    EXPECT_NEAR(std::log2(c.temperatures[k]), std::log2(truth[k]), 0.3) << k;
    EXPECT_LT(c.error_after[k], 0.015) << k;
  }
  EXPECT_GT(c.error_before[0], 0.05);
  EXPECT_GT(c.error_before[2], 3 * c.error_after[2]);
  EXPECT_EQ(c.blocks, 40000);
}

TEST(Calibration, HoldsForBlocksThatItHasNotSeen) {
  const std::vector<double> truth = {3, 2};
  const Calibration c = FitCalibration(BlocksOf(truth, 20000, 5, 2), 2, "m");
  const std::vector<VerifiedBlock> held_out = BlocksOf(truth, 20000, 6, 2);
  for (size_t k = 0; k < 2; ++k) {
    const auto before = SurvivalPredictions(held_out, k, {});
    const auto after = SurvivalPredictions(held_out, k, c.temperatures);
    EXPECT_LT(CalibrationError(after), 0.015);
    EXPECT_LT(CalibrationError(after), CalibrationError(before) / 2);
    EXPECT_LT(BrierScore(after), BrierScore(before));
    // Of one slot alone the order stays.
    if (k == 0) {
      EXPECT_EQ(AreaUnderCurve(after), AreaUnderCurve(before));
    }
  }
}

TEST(Calibration, SlotsThatWereNotVerifiedSayNothing) {
  std::vector<VerifiedBlock> blocks = BlocksOf({2, 2, 2}, 5000, 7, 1);
  const Calibration c = FitCalibration(blocks, 3, "m");
  EXPECT_NE(c.temperatures[0], 1);
  EXPECT_EQ(c.temperatures[1], 1);
  EXPECT_EQ(c.temperatures[2], 1);
  EXPECT_TRUE(SurvivalPredictions(blocks, 1, {}).empty());
  EXPECT_EQ(FitCalibration({}, 2, "m").temperatures, (std::vector<double>{1, 1}));
  blocks.resize(static_cast<size_t>(kLeastFitBlocks) - 1);
  EXPECT_EQ(FitCalibration(blocks, 1, "m").temperatures[0], 1);
}

TEST(Smoothing, TakesAwayAConstantBias) {
  ConfidenceShift shift(2);
  for (const double s : shift.shifts()) EXPECT_EQ(s, 0);
  // Predicted .9 and .6; what happens is .7 and .8.
  double accepted_late = 0, predicted_late = 0;
  for (uint32_t i = 0; i < 8000; ++i) {
    const bool first = TestUniform(8, i) < 0.7;
    const bool second = first && TestUniform(8, i, 1) < 0.8;
    const std::vector<double> predicted = {0.9, 0.6};
    if (i >= 4000) {
      accepted_late += first ? 1 : 0;
      predicted_late += Sigmoid(Logit(0.9) + shift.shifts()[0]);
    }
    shift.Observe(predicted, 2, first ? (second ? 2 : 1) : 0);
  }
  EXPECT_NEAR(predicted_late / 4000, accepted_late / 4000, 0.02);
  EXPECT_NEAR(Sigmoid(Logit(0.6) + shift.shifts()[1]), 0.8, 0.04);
}

TEST(Smoothing, LearnsNothingFromSlotsThatWereNotReached) {
  ConfidenceShift shift(3);
  const std::vector<double> predicted = {0.5, 0.5, 0.5};
  for (int i = 0; i < 100; ++i) shift.Observe(predicted, 3, 0);
  EXPECT_LT(shift.shifts()[0], -0.5);
  EXPECT_EQ(shift.shifts()[1], 0);
  for (int i = 0; i < 100; ++i) shift.Observe(predicted, 1, 1);
  EXPECT_EQ(shift.shifts()[1], 0);
  for (int i = 0; i < 100000; ++i) shift.Observe(std::vector<double>{1e-9, 0, 0}, 1, 1);
  EXPECT_EQ(shift.shifts()[0], kMostShift);
}

TEST(CalibrationTable, ComesBackAsItWas) {
  const Calibration c = FitCalibration(BlocksOf({2, 3}, 500, 9, 2), 2, "nano \"quoted\"");
  const auto back = ParseCalibration(ToJson(c), "table");
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(back->model, c.model);
  EXPECT_EQ(back->blocks, c.blocks);
  EXPECT_EQ(back->temperatures, c.temperatures);
  EXPECT_EQ(back->error_before, c.error_before);
  EXPECT_EQ(back->error_after, c.error_after);
  EXPECT_TRUE(CheckCalibrationOf(*back, c.model, 2).ok());
  EXPECT_EQ(CheckCalibrationOf(*back, "other", 2).code(), base::Code::kFailedPrecondition);
  EXPECT_EQ(CheckCalibrationOf(*back, c.model, 3).code(), base::Code::kFailedPrecondition);
}

TEST(CalibrationTable, EveryFieldIsChecked) {
  const std::string good = ToJson({.model = "m",
                                   .blocks = 3,
                                   .temperatures = {1.5},
                                   .error_before = {0.25},
                                   .error_after = {0.125}});
  ASSERT_TRUE(ParseCalibration(good, "t").ok());
  const std::vector<std::pair<std::string, std::string>> edits = {
      {"thalweg draft calibration", "something"},
      {"\"version\": 1", "\"version\": 2"},
      {"\"version\": 1", "\"version\": 1.0"},
      {"\"m\"", "7"},
      {"\"m\"", '"' + std::string(5000, 'm') + '"'},
      {"\"blocks\": 3", "\"blocks\": -1"},
      {"\"blocks\": 3", "\"blocks\": 18446744073709551615"},
      {"\"blocks\": 3", "\"block\": 3"},
      {"\"blocks\": 3", "\"blocks\": 3, \"more\": 1"},
      {"1.5", "0.0"},
      {"1.5", "-1"},
      {"1.5", "1e300"},
      {"1.5", "null"},
      {"1.5", "\"1.5\""},
      {"1.5", "1.5, 1"},
      {"0.25", "1.5"},
      {"0.125", "[]"},
      {"{", "["},
      {"}", ""}};
  for (const auto& [from, to] : edits) {
    std::string bad = good;
    bad.replace(bad.find(from), from.size(), to);
    const auto parsed = ParseCalibration(bad, "t");
    ASSERT_FALSE(parsed.ok()) << from << " -> " << to;
    EXPECT_EQ(parsed.status().code(), base::Code::kInvalidArgument);
    EXPECT_NE(parsed.status().message().find('t'), std::string::npos);
  }
  EXPECT_FALSE(ParseCalibration("[1]", "t").ok());
}

}  // namespace
}  // namespace thalweg::spec
