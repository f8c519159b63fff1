// Property: inspect says of the released config what is published of the release, in tables and in
// JSON, and its check passes on whole checkpoints and prints nothing on a broken one.
#include "tools/inspect/inspect.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "base/json.h"
#include "tools/synth.h"

namespace thalweg::tools {
namespace {

namespace fs = std::filesystem;
using base::Json;

fs::path SourceFile(const char* relative) { return fs::path(THALWEG_SOURCE_DIR) / relative; }

struct Outcome {
  Status status;
  std::string text;
};

Outcome RunInspect(const fs::path& path, bool json, bool check) {
  std::ostringstream out;
  const Status status = Inspect({.path = path, .json = json, .check = check, .out = &out});
  return {status, out.str()};
}

TEST(Inspect, TablesOfTheRelease) {
  const Outcome outcome = RunInspect(SourceFile("tests/data/released_config.json"), false, false);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  for (const char* part :
       {"global KV 890 bytes per token, window KV 2.77 MiB per sequence",
        "total                        96085       510286023000     475.24",
        "prefill 7.86 B, decode 16.07 B",
        "21-23    decoder      1  reuse          20        20  window KV\n",
        "24       decoder      1  reindex        20        24  window KV + index queries\n",
        "384006168 rows"}) {
    EXPECT_NE(outcome.text.find(part), std::string::npos) << part << "\n" << outcome.text;
  }
}

TEST(Inspect, JsonOfTheRelease) {
  const Outcome outcome = RunInspect(SourceFile("tests/data/released_config.json"), true, false);
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
  const Json root = Json::parse(outcome.text);
  EXPECT_EQ(root["kv_bytes_per_token"], 890.0);
  EXPECT_EQ(root["inventory"]["tensors"], 96085);
  EXPECT_EQ(root["layers"].size(), 43u);
  EXPECT_EQ(root["layers"][36]["mode"], "reindex");
  EXPECT_TRUE(root["check"].is_null());
}

TEST(Inspect, CheckPassesOnWholeCheckpoints) {
  for (const char* dir : {"tests/data/tiny-a/model", "tests/data/tiny-b/model", "models/nano"}) {
    const Outcome outcome = RunInspect(SourceFile(dir), true, true);
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.ToString();
    const Json root = Json::parse(outcome.text);
    EXPECT_EQ(root["check"]["tensors"], root["inventory"]["tensors"]);
    EXPECT_GT(root["check"]["token_map_distinct"], 0);
  }
}

TEST(Inspect, SyntheticCheckpointPassesUntilItBreaks) {
  const fs::path folder =
      fs::path(testing::TempDir()) / ("thalweg-inspect-test" + std::to_string(::getpid()));
  fs::remove_all(folder);
  std::ostringstream said;
  ASSERT_TRUE(Synth({.config = SourceFile("tests/data/tiny-b/model/config.json"),
                     .out = folder,
                     .seed = 4,
                     .report = &said})
                  .ok());
  EXPECT_NE(said.str().find("1237 tensors"), std::string::npos) << said.str();
  EXPECT_TRUE(RunInspect(folder, false, true).status.ok());
  fs::resize_file(folder / "model-00001-of-00001.safetensors", 1000);
  const Outcome broken = RunInspect(folder, false, true);
  EXPECT_FALSE(broken.status.ok());
  EXPECT_EQ(broken.text, "");
  fs::remove_all(folder);
}

TEST(Inspect, CheckNeedsADirectory) {
  EXPECT_FALSE(RunInspect(SourceFile("tests/data/released_config.json"), false, true).status.ok());
  EXPECT_FALSE(RunInspect("/nonexistent", false, false).status.ok());
}

}  // namespace
}  // namespace thalweg::tools
