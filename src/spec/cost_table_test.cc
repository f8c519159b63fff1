// Measured times become a table that never falls, by the smallest change that does that, and leaves
// rising measurements alone; it reads between points, up to graphs and beyond the last row. The
// file of it is for one machine and one set of options, and whatever is wrong with it is an error.
#include "spec/cost_table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>

#include "base/mapped_file.h"
#include "spec/limits.h"
#include "spec/monotone_grid.h"
#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

constexpr double kNone = NAN;

bool IsMonotone(const std::vector<double>& v, size_t height, size_t width) {
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) {
      if (!std::isfinite(v[y * width + x])) return false;
      if (y > 0 && v[(y - 1) * width + x] > v[y * width + x]) return false;
      if (x > 0 && v[y * width + x - 1] > v[y * width + x]) return false;
    }
  }
  return true;
}

TEST(MonotoneGrid, RisesEverywhereWithHolesAnywhere) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const size_t height = 1 + seed % 5, width = 1 + seed / 5 % 6;
    std::vector<double> values(height * width);
    for (size_t i = 0; i < values.size(); ++i) {
      const bool hole = i > 0 && TestUniform(seed, static_cast<uint32_t>(i), 1) < 0.5;
      values[i] = hole ? kNone : 1 + TestUniform(seed, static_cast<uint32_t>(i));
    }
    std::rotate(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(seed % values.size()),
                values.end());
    MakeMonotone(height, width, &values);
    ASSERT_TRUE(IsMonotone(values, height, width)) << seed;
  }
}

// The largest change that is needed is half the largest fall between two measurements in order.
TEST(MonotoneGrid, ChangesNoMoreThanIsNeeded) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const size_t height = 1 + seed % 4, width = 2 + seed % 3;
    std::vector<double> values(height * width);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(i % width + i / width) +
                  3 * TestUniform(seed, static_cast<uint32_t>(i));
    double fall = 0;
    for (size_t a = 0; a < values.size(); ++a) {
      for (size_t b = 0; b < values.size(); ++b) {
        if (a % width <= b % width && a / width <= b / width)
          fall = std::max(fall, values[a] - values[b]);
      }
    }
    std::vector<double> fitted = values;
    MakeMonotone(height, width, &fitted);
    double change = 0;
    for (size_t i = 0; i < values.size(); ++i)
      change = std::max(change, std::abs(fitted[i] - values[i]));
    EXPECT_NEAR(change, fall / 2, 1e-12) << seed;
  }
}

CostProfile Simple() {
  CostProfile p = {.hardware = "two cores", .options = "nano cpu exact"};
  p.steps = {{1, 1, 1.0}, {1, 2, 1.5}, {1, 6, 3.5}, {4, 4, 2.5}, {4, 24, 6.5}};
  p.drafts = {{1, 0.1}, {4, 0.25}};
  return p;
}

TEST(CostTable, GoesThroughItsPointsAndBetweenThem) {
  const CostTable t(Simple());
  for (const CostPoint& p : Simple().steps)
    EXPECT_NEAR(t.StepSeconds(p.sequences, p.rows), p.seconds, 1e-12);
  EXPECT_NEAR(t.StepSeconds(1, 4), 2.5, 1e-12);
  EXPECT_NEAR(t.StepSeconds(2, 2),
              t.StepSeconds(1, 2) + (t.StepSeconds(4, 2) - t.StepSeconds(1, 2)) / 3, 1e-12);
  EXPECT_NEAR(t.DraftSeconds(1), 0.1, 1e-15);
  EXPECT_NEAR(t.DraftSeconds(2), 0.15, 1e-15);
  EXPECT_NEAR(t.DraftSeconds(8), 0.5, 1e-15);
  EXPECT_EQ(t.DraftSeconds(0), 0);
  EXPECT_EQ(t.StepSeconds(0, 1), t.StepSeconds(1, 1));
}

TEST(CostTable, KeepsMeasurementsThatRise) {
  CostProfile p = {.drafts = {{1, 1}}};
  for (CostPoint point : StepsToMeasure(64, 512, 5)) {
    const auto rows = static_cast<double>(point.rows);
    point.seconds = 0.01 * static_cast<double>(point.sequences) + std::floor(std::sqrt(rows)) + 1;
    p.steps.push_back(point);
  }
  const CostTable t(p);
  for (const CostPoint& point : p.steps)
    EXPECT_NEAR(t.StepSeconds(point.sequences, point.rows), point.seconds, 1e-12);
}

TEST(CostTable, NeverFalls) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    CostProfile p;
    for (const CostPoint& point : StepsToMeasure(12, 60, 5)) {
      p.steps.push_back(point);
      p.steps.back().seconds = 0.01 * static_cast<double>(point.rows) +
                               TestUniform(seed, static_cast<uint32_t>(p.steps.size()));
    }
    p.drafts = {{1, 0.4}, {2, 0.1}, {12, 0.3}};
    const CostTable t(p);
    for (int64_t s = 1; s <= 16; ++s) {
      EXPECT_LE(t.DraftSeconds(s), t.DraftSeconds(s + 1));
      for (int64_t r = s; r <= 90; ++r) {
        ASSERT_LE(t.StepSeconds(s, r), t.StepSeconds(s, r + 1)) << seed << " " << s << " " << r;
        ASSERT_LE(t.StepSeconds(s, r), t.StepSeconds(s + 1, r)) << seed << " " << s << " " << r;
      }
    }
  }
}

TEST(CostTable, ReadsTheNextGraphAndGoesOnBeyondTheLastPoint) {
  CostProfile p = Simple();
  p.graph_rows = {2, 6};
  const CostTable t(p);
  EXPECT_EQ(t.StepSeconds(1, 1), t.StepSeconds(1, 2));
  EXPECT_EQ(t.StepSeconds(1, 3), t.StepSeconds(1, 6));
  EXPECT_LT(t.StepSeconds(1, 7), t.StepSeconds(1, 20));
  const double slope = t.StepSeconds(4, 25) - t.StepSeconds(4, 24);
  EXPECT_GT(slope, 0);
  EXPECT_NEAR(t.StepSeconds(4, 44), 6.5 + 20 * slope, 1e-9);
}

TEST(StepsToMeasure, AreStepsThatCanBe) {
  for (const int64_t sequences : {1, 2, 3, 8, 64, 100}) {
    for (const int64_t rows : {1, 7, 64, 512}) {
      const auto points = StepsToMeasure(sequences, rows, 5);
      ASSERT_FALSE(points.empty());
      int64_t most = 0;
      CostProfile p = {.drafts = {{1, 1}}};
      for (const CostPoint& point : points) {
        EXPECT_LE(point.rows, rows);
        EXPECT_LE(point.sequences, sequences);
        most = std::max(most, point.sequences);
        p.steps.push_back(point);
        p.steps.back().seconds = 1;
      }
      EXPECT_EQ(most, std::min(sequences, rows));
      EXPECT_TRUE(CheckProfile(p).ok()) << CheckProfile(p).ToString();
    }
  }
}

TEST(MeasureCosts, TakesMediansAndPassesErrorsOn) {
  int64_t asked = 0;
  CostTimer timer;
  // One of five is an outlier.
  timer.step = [&](const CostPoint& p) -> Result<double> {
    return ++asked % 5 == 2 ? 100.0
                            : static_cast<double>(p.rows) + 0.5 * static_cast<double>(p.sequences);
  };
  timer.draft = [&](int64_t n) -> Result<double> { return 0.125 * static_cast<double>(n); };
  const auto profile = MeasureCosts(8, 64, 5, timer);
  ASSERT_TRUE(profile.ok()) << profile.status().ToString();
  EXPECT_EQ(asked, 5 * static_cast<int64_t>(profile->steps.size()));
  const CostTable table(*profile);
  EXPECT_NEAR(table.StepSeconds(4, 24), 26, 1e-12);
  EXPECT_NEAR(table.DraftSeconds(8), 1, 1e-12);
  timer.draft = [](int64_t) -> Result<double> { return base::ResourceExhausted("no blocks"); };
  EXPECT_EQ(MeasureCosts(8, 64, 5, timer).status().code(), base::Code::kResourceExhausted);
  timer.draft = [](int64_t) -> Result<double> { return -1.0; };
  EXPECT_EQ(MeasureCosts(8, 64, 5, timer).status().code(), base::Code::kInternal);
}

class CostFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("thalweg_cost_file" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(std::string_view text) const {
    const CostProfile p = Simple();
    ASSERT_TRUE(base::WriteFile(folder_ / CostFileName(p.hardware, p.options), text).ok());
  }
  base::Code CodeOfRead() const {
    const CostProfile p = Simple();
    return ReadCostProfile(folder_, p.hardware, p.options).status().code();
  }
  std::filesystem::path folder_;
};

TEST_F(CostFile, ComesBackForItsOwnKeyAlone) {
  const CostProfile p = Simple();
  EXPECT_EQ(CodeOfRead(), base::Code::kNotFound);
  ASSERT_TRUE(WriteCostProfile(folder_, p).ok());
  const auto back = ReadCostProfile(folder_, p.hardware, p.options);
  ASSERT_TRUE(back.ok()) << back.status().ToString();
  EXPECT_EQ(ToJson(*back), ToJson(p));
  EXPECT_EQ(ReadCostProfile(folder_, p.hardware, "fast").status().code(), base::Code::kNotFound);
  CostProfile other = p;
  other.hardware = "four cores";
  Write(ToJson(other));  // under the wrong name
  EXPECT_EQ(CodeOfRead(), base::Code::kFailedPrecondition);
  EXPECT_NE(CostFileName("ab", "c"), CostFileName("a", "bc"));
}

TEST_F(CostFile, DamagedOnesAreRefused) {
  const std::string good = ToJson(Simple());
  for (size_t cut = 0; cut + 1 < good.size(); cut += 7) {
    Write(good.substr(0, cut));
    ASSERT_EQ(CodeOfRead(), base::Code::kInvalidArgument) << cut;
  }
  Write(std::string(kMaxTableBytes + 1, ' '));
  EXPECT_NE(CodeOfRead(), base::Code::kOk);
}

TEST(CostProfileText, EveryFieldIsChecked) {
  CostProfile p = Simple();
  p.graph_rows = {2, 6};
  const std::string good = ToJson(p);
  ASSERT_TRUE(ParseCostProfile(good, "t").ok());
  const std::vector<std::pair<std::string, std::string>> edits = {
      {"thalweg step costs", "else"},
      {"\"version\": 1", "\"version\": 0"},
      {"\"two cores\"", "null"},
      {"\"options\"", "\"option\""},
      {"\"sequences\": 4", "\"sequences\": 0"},
      {"\"sequences\": 4", "\"sequences\": 5"},  // more sequences than rows
      {"\"rows\": 2,", "\"rows\": 1,"},          // twice
      {"\"rows\": 24", "\"rows\": 99999999999"},
      {"\"rows\": 24", "\"rows\": 1e3"},
      {"3.5", "0"},
      {"3.5", "-3.5"},
      {"3.5", "1e999"},
      {"3.5", "true"},
      {"3.5", "3.5, \"note\": 1"},
      {"6\n", "2\n"},  // graphs do not rise
      {"\"graph_rows\": [", "\"graph_rows\": [[],"},
      {"\"drafts\": [", "\"drafts\": [], \"drafts\": ["},
      {"0.25", "\"0.25\""}};
  for (const auto& [from, to] : edits) {
    std::string bad = good;
    ASSERT_NE(bad.find(from), std::string::npos) << from;
    bad.replace(bad.find(from), from.size(), to);
    EXPECT_EQ(ParseCostProfile(bad, "t").status().code(), base::Code::kInvalidArgument)
        << from << " -> " << to;
  }
}

TEST(CostProfileText, TooMuchIsRefused) {
  CostProfile p = Simple();
  p.steps.clear();
  EXPECT_FALSE(CheckProfile(p).ok());
  for (int64_t r = 1; r <= static_cast<int64_t>(kMaxAxis) + 1; ++r) p.steps.push_back({1, r, 1});
  EXPECT_FALSE(CheckProfile(p).ok());
  p = Simple();
  p.drafts.clear();
  EXPECT_FALSE(CheckProfile(p).ok());
  p = Simple();
  p.drafts.push_back(p.drafts[0]);
  EXPECT_FALSE(CheckProfile(p).ok());
}

}  // namespace
}  // namespace thalweg::spec
