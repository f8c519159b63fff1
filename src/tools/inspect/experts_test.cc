// `inspect experts` shows from a file of counts how uneven ranks are and how even they could be;
// what it writes for plots holds every rank of every layer.
#include "tools/inspect/experts.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/mapped_file.h"

namespace thalweg::tools {
namespace {

class InspectExpertsTest : public testing::Test {
 protected:
  void SetUp() override {
    counts_ = parallel::NoCounts(2, 16);
    counts_.rows = 1000;
    for (size_t e = 0; e < 16; ++e) {
      counts_.layers[0][e] = static_cast<int64_t>(800 / (e + 1));
      counts_.layers[1][e] = 125;
    }
    ASSERT_TRUE(base::WriteFile(path_, parallel::ToJson(counts_)).ok());
  }
  void TearDown() override { std::filesystem::remove(path_); }

  parallel::ExpertCounts counts_;
  std::filesystem::path path_ = testing::TempDir() + "inspect_experts_counts.json";
};

TEST_F(InspectExpertsTest, ShowsBeforeAndAfter) {
  const auto report = InspectExperts({.counts = path_, .ranks = 4, .spare = 1});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_GT(report->before[0], 1.4);
  EXPECT_LT(report->after[0], 1.1);
  EXPECT_GT(report->moves[0], 0);
  EXPECT_DOUBLE_EQ(report->largest_share[0], 0.8);
  EXPECT_TRUE(CheckPlacement(report->placement).ok());
  const std::string table = ExpertTable(*report);
  EXPECT_NE(table.find("16 experts on 4 ranks of 5 slots, 1000 rows counted"), std::string::npos);
  EXPECT_EQ(ExpertJson(*report)["layers"].size(), 2U);
}

TEST_F(InspectExpertsTest, PlotsEveryRankOfEveryLayer) {
  const auto report = InspectExperts({.counts = path_, .ranks = 4});
  const std::string csv = ExpertCsv(*report);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 2 * 4);
  EXPECT_NE(ExpertPlot(*report, "load").find("set output 'load.svg'"), std::string::npos);
}

TEST_F(InspectExpertsTest, BadRequestsAreRefused) {
  EXPECT_EQ(InspectExperts({.counts = path_}).status().message(), "give --ranks, or --placement");
  EXPECT_FALSE(InspectExperts({.counts = path_, .ranks = 17}).ok());
  EXPECT_FALSE(InspectExperts({.counts = path_, .ranks = 4, .nodes = 3}).ok());
  EXPECT_FALSE(InspectExperts({.counts = "/nowhere", .ranks = 4}).ok());
}

}  // namespace
}  // namespace thalweg::tools
