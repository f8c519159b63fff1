// Counts add up, survive their file, and a window forgets what is older than it.
#include "parallel/statistics.h"

#include <gtest/gtest.h>

#include "parallel/limits.h"

namespace thalweg::parallel {
namespace {

ExpertCounts Counts(int64_t rows, std::vector<std::vector<int64_t>> layers) {
  return {static_cast<int64_t>(layers.front().size()), rows, std::move(layers)};
}

TEST(Statistics, SurviveTheirFile) {
  const ExpertCounts counts = Counts(9, {{1, 2, 15}, {0, 9, 9}});
  const auto again = ParseCounts(ToJson(counts), "c.json");
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(*again, counts);
}

TEST(Statistics, BadFilesAreRefused) {
  const std::string head = R"({"format": "thalweg expert counts", "version": 1, "experts": 2, )";
  EXPECT_EQ(ParseCounts(head + R"("rows": 1, "layers": [[1]]})", "c").status().message(),
            "c: layer 0 has 1 counts for 2 experts");
  EXPECT_EQ(ParseCounts(head + R"("rows": -1, "layers": []})", "c").status().message(),
            "c: rows: must be an integer from 0 to 9007199254740992");
  EXPECT_EQ(ParseCounts(R"({"format": "x"})", "c").status().message(), "c: version is missing");
}

TEST(Statistics, AWindowForgets) {
  LoadWindow window(1, 2, 2);
  window.Add(Counts(1, {{1, 0}}));
  EXPECT_EQ(window.total(), Counts(1, {{1, 0}}));
  window.Add(Counts(2, {{0, 2}}));
  EXPECT_EQ(window.total(), Counts(3, {{1, 2}}));
  window.Add(Counts(5, {{5, 5}}));
  EXPECT_EQ(window.windows(), 2);
  EXPECT_EQ(window.total(), Counts(7, {{5, 7}}));
  EXPECT_EQ(window.newest(), Counts(5, {{5, 5}}));
}

TEST(Statistics, SumsStayInRange) {
  ExpertCounts counts = Counts(kMostLoad, {{kMostLoad}});
  counts.Add(Counts(kMostLoad, {{1}}));
  EXPECT_EQ(counts, Counts(kMostLoad, {{kMostLoad}}));
}

TEST(Statistics, ImbalanceIsByLayer) {
  const Placement placement = InOrder({.experts = 2, .ranks = 2, .slots_per_rank = 1}, 2);
  EXPECT_EQ(ImbalanceByLayer(placement, Counts(4, {{4, 0}, {2, 2}})), (std::vector<double>{2, 1}));
}

}  // namespace
}  // namespace thalweg::parallel
