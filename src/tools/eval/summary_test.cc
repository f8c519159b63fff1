// Figures and their intervals are those of the published formulas.
#include "tools/eval/summary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace thalweg::tools::eval {
namespace {

Score Likely(const std::string& group, int64_t tokens, double nll) {
  return {
      .kind = Kind::kPerplexity, .group = group, .tokens = tokens, .bytes = 4 * tokens, .nll = nll};
}

const EvalFigure& Find(const EvalSummary& summary, const std::string& group,
                       const std::string& metric) {
  for (const EvalFigure& f : summary.figures) {
    if (f.group == group && f.metric == metric) return f;
  }
  ADD_FAILURE() << group << " " << metric;
  return summary.figures.front();
}

TEST(EvalSummary, WilsonIntervals) {
  // Values of the formula by hand (z = 1.96): 8 of 10, none of 20, all of 5.
  EXPECT_NEAR(WilsonInterval(8, 10).low, 0.4902, 1e-4);
  EXPECT_NEAR(WilsonInterval(8, 10).high, 0.9433, 1e-4);
  EXPECT_EQ(WilsonInterval(0, 20).low, 0);
  EXPECT_NEAR(WilsonInterval(0, 20).high, 0.1611, 1e-4);
  EXPECT_NEAR(WilsonInterval(5, 5).low, 0.5655, 1e-4);
  EXPECT_EQ(WilsonInterval(5, 5).high, 1);
  EXPECT_EQ(WilsonInterval(0, 0).high, 1);
}

TEST(EvalSummary, PerplexityIsOfAllTokensAndItsErrorOfDocuments) {
  const std::vector<Score> scores = {Likely("a", 10, 10), Likely("a", 30, 60), Likely("b", 10, 5)};
  const EvalSummary summary = Summarise(scores);
  const EvalFigure& all = Find(summary, "", "perplexity");
  EXPECT_EQ(all.tokens, 50);
  EXPECT_NEAR(all.value, std::exp(1.5), 1e-12);
  // Residuals -5, 15, -10: sqrt(350 * 3 / 2) / 50.
  const double error = std::sqrt(350.0 * 1.5) / 50;
  EXPECT_NEAR(all.standard_error, std::exp(1.5) * error, 1e-12);
  EXPECT_NEAR(all.interval.low, std::exp(1.5 - 1.959964 * error), 1e-5);
  EXPECT_NEAR(Find(summary, "a", "perplexity").value, std::exp(1.75), 1e-12);
  EXPECT_NEAR(Find(summary, "", "bits_per_byte").value, 75.0 / 200 / std::log(2), 1e-12);
}

TEST(EvalSummary, SharesByGroupAndErrorsAlone) {
  std::vector<Score> scores;
  for (int i = 0; i < 10; ++i) {
    scores.push_back(
        {.kind = Kind::kExact, .group = i < 4 ? "a" : "b", .marks = {{"exact_match", i % 2 == 0}}});
  }
  scores.push_back({.kind = Kind::kExact, .group = "a", .error = true});
  const EvalSummary summary = Summarise(scores);
  EXPECT_EQ(summary.items, 11);
  EXPECT_EQ(summary.errors, 1);
  const EvalFigure& all = Find(summary, "", "exact_match");
  EXPECT_EQ(all.items, 10);
  EXPECT_EQ(all.value, 0.5);
  EXPECT_NEAR(all.standard_error, std::sqrt(0.025), 1e-12);
  EXPECT_EQ(Find(summary, "a", "exact_match").items, 4);
  EXPECT_EQ(ToJson(summary)["figures"].size(), 3u);
  EXPECT_NE(ToTable(summary).find("exact_match"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::tools::eval
