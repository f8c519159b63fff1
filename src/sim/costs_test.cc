// Costs between measured points lie on straight lines, never fall where sizes grow, and files that
// are wrong are refused with the path of what is wrong.
#include "sim/costs.h"

#include <gtest/gtest.h>

namespace thalweg::sim {
namespace {

constexpr const char* kGood = R"({"format": "thalweg costs", "version": 1, "source": "by hand",
  "decode": {"layers": 2, "ops": [{"op": "attention", "points": [[1, 100, 10], [3, 100, 14],
    [1, 200, 20], [3, 200, 28]]}]},
  "experts": {"fixed_us": 1, "points": [[1, 5], [9, 9]]},
  "prefill": {"layers": 2, "fixed_us": 0, "row_us": 1, "position_us": 0.001, "tail_us": 5}})";

TEST(SimCosts, CurvesAreLinesThatNeverFall) {
  const Curve curve({{4, 10}, {1, 4}, {8, 9}, {16, 26}, {16, 28}});
  EXPECT_EQ(curve.At(0.5), 4);
  EXPECT_EQ(curve.At(1), 4);
  EXPECT_EQ(curve.At(2.5), 6.75);
  EXPECT_EQ(curve.At(4), 9.5) << "the mean with the point behind, which is lower";
  EXPECT_EQ(curve.At(8), 9.5);
  EXPECT_EQ(curve.At(12), 18.25);
  EXPECT_EQ(curve.At(24), 27 + 17.5) << "the last line goes on";
  EXPECT_EQ(Curve({{7, 3}}).At(1000), 3);
}

TEST(SimCosts, OpsByRowsAndContext) {
  const auto costs = ParseCosts(kGood, "costs");
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  const OpCost& op = costs->decode.ops.at(0);
  EXPECT_EQ(op.op(), "attention");
  EXPECT_EQ(op.At(2, 100), 12);
  EXPECT_EQ(op.At(2, 150), 18);
  EXPECT_EQ(op.At(5, 300), 54) << "both lines go on";
  EXPECT_EQ(costs->experts.us_of_rows.At(5), 7);
  EXPECT_EQ(costs->prefill.layers, 2);
  EXPECT_FALSE(costs->prefill.experts.has_value());
}

TEST(SimCosts, OnePointTooHighLiftsNoOthers) {
  const Curve curve({{1, 2}, {2, 30}, {3, 6}, {4, 8}, {5, 60}});
  EXPECT_DOUBLE_EQ(curve.At(2), (30.0 + 6 + 8) / 3);
  EXPECT_DOUBLE_EQ(curve.At(4), (30.0 + 6 + 8) / 3) << "until the mean of those behind is reached";
  EXPECT_EQ(curve.At(5), 60);
}

TEST(SimCosts, ExpertsOfPromptsMayBeApart) {
  std::string text = kGood;
  text.replace(text.find("\"tail_us\": 5"), 12,
               R"("tail_us": 5, "experts": {"fixed_us": 3, "points": [[2, 8]]})");
  const auto costs = ParseCosts(text, "costs");
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  ASSERT_TRUE(costs->prefill.experts.has_value());
  EXPECT_EQ(costs->prefill.experts->fixed_us, 3);
  EXPECT_EQ(costs->prefill.experts->us_of_rows.At(2), 8);
  EXPECT_EQ(costs->experts.fixed_us, 1);
}

TEST(SimCosts, SpreadsMayBeLeftOut) {
  EXPECT_EQ(ParseCosts(kGood, "costs")->decode.spread, 0);
  std::string text = kGood;
  text.replace(text.find("\"fixed_us\": 1"), 13, R"("fixed_us": 1, "spread": 0.04)");
  text.replace(text.find("\"layers\": 2, \"ops\""), 11, R"("layers": 2, "spread": 0.02)");
  const auto costs = ParseCosts(text, "costs");
  ASSERT_TRUE(costs.ok()) << costs.status().message();
  EXPECT_EQ(costs->decode.spread, 0.02);
  EXPECT_EQ(costs->experts.spread, 0.04);
}

void ExpectBad(std::string text, const std::string& from, const std::string& to,
               const std::string& part) {
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  const auto costs = ParseCosts(text, "costs.json");
  ASSERT_FALSE(costs.ok()) << to;
  EXPECT_NE(costs.status().message().find(part), std::string::npos) << costs.status().message();
  EXPECT_NE(costs.status().message().find("costs.json"), std::string::npos);
}

TEST(SimCosts, WhatIsWrongIsNamed) {
  ExpectBad(kGood, "thalweg costs", "costs", "costs.format");
  ExpectBad(kGood, "\"version\": 1", "\"version\": 2", "costs.version");
  ExpectBad(kGood, "\"source\": \"by hand\",", "", "costs.source is missing");
  ExpectBad(kGood, "\"source\"", "\"surce\"", "unknown member \"surce\"");
  ExpectBad(kGood, "\"layers\": 2, \"ops\"", "\"layers\": 0, \"ops\"", "decode.layers");
  ExpectBad(kGood, "\"layers\": 2, \"ops\"", "\"layers\": 2, \"spread\": -1, \"ops\"",
            "decode.spread");
  ExpectBad(kGood, "[1, 100, 10]", "[1, 100]", "decode.ops[0].points");
  ExpectBad(kGood, "[1, 100, 10]", "[1, 100, -1]", "decode.ops[0].points");
  ExpectBad(kGood, "[1, 100, 10]", "[1, 100, 1e300]", "decode.ops[0].points");
  ExpectBad(kGood, "[[1, 5], [9, 9]]", "[]", "experts.points");
  ExpectBad(kGood, "\"tail_us\": 5", "\"tail_us\": 5, \"experts\": {}", "prefill.experts.fixed_us");
  ExpectBad(kGood, "\"row_us\": 1,", "\"row_us\": 0,", "prefill.row_us");
  ExpectBad(kGood, "{\"format\"", "[{\"format\"", "costs.json");
}

}  // namespace
}  // namespace thalweg::sim
