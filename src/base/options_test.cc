// Options resolve in the promised order (flag, environment, file, default) and bad values name
// where they came from.
#include "base/options.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/mapped_file.h"

namespace thalweg::base {
namespace {

const std::vector<OptionRow>& Rows() {
  static const std::vector<OptionRow> rows = {
      {.name = "keep",
       .kind = OptionKind::kInteger,
       .fallback = "7",
       .environment = "THALWEG_TEST_KEEP",
       .least = 1,
       .most = 100},
      {.name = "mode", .fallback = "full", .choices = {"full", "compact"}},
      {.name = "think", .kind = OptionKind::kFlag, .environment = "THALWEG_TEST_THINK"},
      {.name = "heat", .kind = OptionKind::kReal, .most = 2},
  };
  return rows;
}

class OptionsTest : public testing::Test {
 protected:
  void TearDown() override {
    unsetenv("THALWEG_TEST_KEEP");
    unsetenv("THALWEG_TEST_THINK");
    std::filesystem::remove(path_);
  }
  std::string File(std::string_view content) {
    EXPECT_TRUE(base::WriteFile(path_, content).ok());
    return path_.string();
  }
  std::filesystem::path path_ = std::filesystem::temp_directory_path() /
                                ("thalweg_options_test" + std::to_string(::getpid()) + ".json");
};

TEST_F(OptionsTest, FlagThenEnvironmentThenFileThenDefault) {
  const std::string file = File(R"({"keep": 30, "mode": "compact", "heat": 0.5})");
  OptionValues values;
  ASSERT_TRUE(ResolveOptions(Rows(), "", &values).ok());
  EXPECT_EQ(values.Integer("keep"), 7);
  EXPECT_FALSE(values.OptionalReal("heat").has_value());

  values = {};
  ASSERT_TRUE(ResolveOptions(Rows(), file, &values).ok());
  EXPECT_EQ(values.Integer("keep"), 30);
  EXPECT_EQ(values.Text("mode"), "compact");
  EXPECT_EQ(values.Real("heat"), 0.5);

  setenv("THALWEG_TEST_KEEP", "20", 1);
  setenv("THALWEG_TEST_THINK", "1", 1);
  values = {};
  ASSERT_TRUE(ResolveOptions(Rows(), file, &values).ok());
  EXPECT_EQ(values.Integer("keep"), 20);
  EXPECT_TRUE(values.Flag("think"));

  values = {};
  values.Set("keep", "10");
  ASSERT_TRUE(ResolveOptions(Rows(), file, &values).ok());
  EXPECT_EQ(values.Integer("keep"), 10);
}

TEST_F(OptionsTest, BadValuesNameTheirOrigin) {
  const auto message = [](const std::string& file, const char* keep) {
    OptionValues values;
    if (keep != nullptr) values.Set("keep", keep);
    const Status status = ResolveOptions(Rows(), file, &values);
    EXPECT_FALSE(status.ok());
    return status.message();
  };
  EXPECT_NE(message("", "x").find("--keep"), std::string::npos);
  EXPECT_NE(message("", "1000").find("[1, 100]"), std::string::npos);
  EXPECT_NE(message("", "1.5").find("whole number"), std::string::npos);
  EXPECT_NE(message(File(R"({"kept": 1})"), nullptr).find("known: keep"), std::string::npos);
  EXPECT_NE(message(File(R"({"mode": "half"})"), nullptr).find("full, compact"), std::string::npos);
  EXPECT_NE(message(File(R"([])"), nullptr).find("JSON object"), std::string::npos);
  EXPECT_NE(message(File(R"({"keep": [1]})"), nullptr).find("plain value"), std::string::npos);
  EXPECT_NE(message("/nonexistent.json", nullptr).find("cannot open"), std::string::npos);
  setenv("THALWEG_TEST_KEEP", "-3", 1);
  EXPECT_NE(message("", nullptr).find("THALWEG_TEST_KEEP"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::base
