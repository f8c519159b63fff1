// A calibration is found for the model that it was made for, and for no other: named files that do
// not fit are errors, kept ones that are damaged are left alone.
#include "engine/draft_calibration.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/mapped_file.h"
#include "engine/drafts.h"
#include "spec/limits.h"

namespace thalweg::engine {
namespace {

checkpoint::Checkpoint Nano(bool draft = true) {
  checkpoint::LoadFilter filter;
  filter.draft = draft;
  auto opened = checkpoint::Checkpoint::Open(THALWEG_SOURCE_DIR "/models/nano", filter);
  TW_CHECK(opened.ok());
  return std::move(*opened);
}

// A cache folder of this test alone, while it lives.
class OwnCache {
 public:
  OwnCache()
      : folder_(std::filesystem::temp_directory_path() /
                ("thalweg_calibration_" + std::to_string(getpid()))) {
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  ~OwnCache() {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
};

TEST(DraftCalibration, IsKeptForItsModelAlone) {
  const OwnCache cache;
  const checkpoint::Checkpoint nano = Nano();
  EXPECT_TRUE(FindTemperatures("", nano)->empty());
  const auto identity = DraftIdentity(nano);
  ASSERT_TRUE(identity.ok());
  const std::filesystem::path path = CalibrationFile(CostFolder(), *identity);
  spec::Calibration table{.model = *identity,
                          .blocks = 7,
                          .temperatures = {1, 1.5, 2, 2.5, 3},
                          .error_before = std::vector<double>(5, 0.1),
                          .error_after = std::vector<double>(5, 0.01)};
  ASSERT_TRUE(WriteCalibration(path, table).ok());
  EXPECT_EQ(*FindTemperatures("", nano), table.temperatures);
  EXPECT_EQ(*FindTemperatures(path.string(), nano), table.temperatures);

  table.temperatures.pop_back();
  table.error_before.pop_back();
  table.error_after.pop_back();
  ASSERT_TRUE(WriteCalibration(path, table).ok());
  EXPECT_TRUE(FindTemperatures("", nano)->empty());
  EXPECT_EQ(FindTemperatures(path.string(), nano).status().code(), base::Code::kFailedPrecondition);
  table.model = "another";
  ASSERT_TRUE(WriteCalibration(path, table).ok());
  EXPECT_EQ(FindTemperatures(path.string(), nano).status().code(), base::Code::kFailedPrecondition);
  ASSERT_TRUE(base::WriteFile(path, "{").ok());
  EXPECT_TRUE(FindTemperatures("", nano)->empty());
  EXPECT_EQ(FindTemperatures(path.string(), nano).status().code(), base::Code::kInvalidArgument);
  EXPECT_FALSE(FindTemperatures(path.string() + ".none", nano).ok());
}

TEST(DraftCalibration, NeedsADraftModule) {
  EXPECT_EQ(DraftIdentity(Nano(false)).status().code(), base::Code::kUnsupported);
}

}  // namespace
}  // namespace thalweg::engine
