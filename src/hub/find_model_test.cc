// A model is found where the documented order says, and when it is not, the error names every
// place.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "hub/cache.h"
#include "hub/hub.h"
#include "hub/test_hub.h"

namespace thalweg::hub {
namespace {

namespace fs = std::filesystem;
using base::Code;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
constexpr const char* kOther = "1123456789abcdef0123456789abcdef01234567";

// Environment variables for the life of an object; the test's own process has no other threads.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& values) {
    for (const char* name : kNames) unsetenv(name);
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : kNames) unsetenv(name);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  static constexpr const char* kNames[] = {
      "DEEPINFER_HF_MODEL_DIR", "HF_HUB_OFFLINE", "HF_HUB_CACHE",  "HF_HOME",         "HF_ENDPOINT",
      "XDG_CACHE_HOME",         "HF_TOKEN",       "HF_TOKEN_PATH", "THALWEG_NANO_DIR"};
};

class FindModelTest : public testing::Test {
 protected:
  FindModelTest() : folder_(TestFolder("find_model")) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "shelf");
    options_.cache = folder_ / "cache";
    options_.model_dir = folder_ / "shelf";
    options_.offline = true;
    options_.endpoint = "http://127.0.0.1:1";
  }
  ~FindModelTest() override { fs::remove_all(folder_); }

  void Checkpoint(const fs::path& at) const {
    WriteText(at / "config.json", "{}");
    WriteText(at / "tokenizer.json", "{}");
    WriteText(at / "model.safetensors", "w");
  }
  fs::path Snapshot(const fs::path& root, const std::string& commit) const {
    const fs::path at = root / "models--org--name/snapshots" / commit;
    Checkpoint(at);
    return at;
  }
  void ExpectFound(const fs::path& place) const {
    const Result<fs::path> found = FindModel("org/name", options_);
    ASSERT_TRUE(found.ok()) << found.status().ToString();
    EXPECT_EQ(*found, place);
  }
  void ExpectError(const std::string& name, Code code, const std::string& words) const {
    const Result<fs::path> found = FindModel(name, options_);
    ASSERT_FALSE(found.ok()) << *found;
    EXPECT_EQ(found.status().code(), code) << found.status().ToString();
    EXPECT_NE(found.status().message().find(words), std::string::npos) << found.status().ToString();
  }

  fs::path folder_;
  HubOptions options_;
};

TEST_F(FindModelTest, AFolderIsItself) {
  Checkpoint(folder_ / "own");
  EXPECT_EQ(*FindModel((folder_ / "own").string(), options_), folder_ / "own");
  ExpectError((folder_ / "nothing").string(), Code::kNotFound, "no config.json");
  options_.revision = "v2";
  ExpectError((folder_ / "own").string(), Code::kInvalidArgument, "--revision");
}

// From the last place to the first: each new one is preferred to those before.
TEST_F(FindModelTest, PlacesInOrder) {
  const fs::path cached = Snapshot(folder_ / "cache", kCommit);
  WriteText(folder_ / "cache/models--org--name/refs/main", std::string(kCommit) + "\n");
  ExpectFound(cached);
  const fs::path shelved = Snapshot(folder_ / "shelf", kOther);
  ExpectFound(shelved);
  Checkpoint(folder_ / "shelf/name");
  ExpectFound(folder_ / "shelf/name");
  Checkpoint(folder_ / "shelf/org/name");
  ExpectFound(folder_ / "shelf/org/name");
  Checkpoint(folder_ / "name");
  options_.model_dir = folder_ / "name/";  // itself the checkpoint, whose folder name fits
  ExpectFound(folder_ / "name");
}

TEST_F(FindModelTest, ACheckpointOfAnotherNameIsNotTaken) {
  Checkpoint(folder_ / "shelf");
  ExpectError("org/name", Code::kNotFound, "shelf/org/name: not there");
  EXPECT_EQ(*FindModel("", options_), folder_ / "shelf");
}

TEST_F(FindModelTest, RevisionsAreBranchesTagsOrCommits) {
  const fs::path one = Snapshot(folder_ / "cache", kCommit);
  const fs::path two = Snapshot(folder_ / "cache", kOther);
  ExpectError("org/name", Code::kNotFound, "this revision is not in it");
  WriteText(folder_ / "cache/models--org--name/refs/main", kCommit);
  WriteText(folder_ / "cache/models--org--name/refs/refs/pr/1", kOther);
  WriteText(folder_ / "cache/models--org--name/refs/evil", "../../../etc");
  ExpectFound(one);
  options_.revision = "refs/pr/1";
  ExpectFound(two);
  options_.revision = kOther;
  ExpectFound(two);
  options_.revision = "evil";
  ExpectError("org/name", Code::kNotFound, "this revision is not in it");
  options_.revision = "../main";
  ExpectError("org/name", Code::kInvalidArgument, "revision");
}

TEST_F(FindModelTest, TheOnlySnapshotNeedsNoReference) {
  ExpectFound(Snapshot(folder_ / "shelf", kCommit));
}

TEST_F(FindModelTest, APlainFolderDoesNotAnswerForARevision) {
  Checkpoint(folder_ / "shelf/org/name");
  options_.revision = "v2";
  ExpectError("org/name", Code::kNotFound, "a folder has no revisions");
}

TEST_F(FindModelTest, AnIncompleteSnapshotIsPassedOver) {
  const fs::path at = Snapshot(folder_ / "cache", kCommit);
  WriteText(at / "model.safetensors.index.json",
            R"({"weight_map": {"a": "model.safetensors", "b": "second.safetensors"}})");
  ExpectError("org/name", Code::kNotFound, "1 of 2 shards are missing, second.safetensors");
  WriteText(at / "second.safetensors", "w");
  ExpectFound(at);
  WriteText(at / "model.safetensors.index.json", R"({"weight_map": {"a": "../../../x"}})");
  ExpectError("org/name", Code::kNotFound, "1 of 1 shards are missing");
  WriteText(at / "model.safetensors.index.json", "[");
  ExpectError("org/name", Code::kNotFound, "index.json");
}

TEST_F(FindModelTest, TheErrorNamesEveryPlace) {
  const Status status = FindModel("org/name", options_).status();
  for (const char* place : {"shelf/org/name", "shelf/name", "shelf/models--org--name",
                            "cache/models--org--name", "offline"})
    EXPECT_NE(status.message().find(place), std::string::npos) << place << "\n" << status.message();
  options_.offline = false;
  options_.retry.attempts = 0;
  ExpectError("org/name", Code::kIo, "127.0.0.1:1");
}

TEST_F(FindModelTest, WithoutANameTheShelfMustBeAModel) {
  ExpectError("", Code::kNotFound, "name one of the models in it");
  options_.model_dir = folder_ / "nowhere";
  ExpectError("", Code::kNotFound, "is not there");
}

TEST_F(FindModelTest, TheEmbeddedModelCanBeNamedByFolder) {
  options_.model_dir.clear();
  options_.nano_dir = folder_ / "nano";
  ExpectError("", Code::kNotFound, "THALWEG_NANO_DIR");
  Checkpoint(folder_ / "nano");
  EXPECT_EQ(*FindModel("", options_), folder_ / "nano");
}

TEST(FindModelOnline, DownloadsOnceThenUsesTheCache) {
  const TestHub hub;
  const Result<fs::path> first = FindModel("test/model", hub.Options());
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  EXPECT_FALSE(WhyIncomplete(*first).has_value());
  const size_t requests = hub.Requests().size();
  EXPECT_EQ(*FindModel("test/model", hub.Options()), *first);
  EXPECT_EQ(hub.Requests().size(), requests);
}

TEST(FindModelOnline, ASnapshotWithoutAShardIsCompleted) {
  const TestHub hub;
  const fs::path snapshot = FindModel("test/model", hub.Options()).value();
  const fs::path blob = fs::canonical(snapshot / kShard2);
  fs::remove(blob);
  EXPECT_TRUE(WhyIncomplete(snapshot).has_value());
  EXPECT_EQ(*FindModel("test/model", hub.Options()), snapshot);
  EXPECT_FALSE(WhyIncomplete(snapshot).has_value());
  EXPECT_EQ(hub.RequestsFor(kShard1).size(), 1u);
}

TEST(Environment, WhereTheCacheIs) {
  const auto cache = [](const std::vector<std::pair<std::string, std::string>>& values) {
    const Environment environment(values);
    return HubOptions::FromEnvironment().value().cache;
  };
  EXPECT_EQ(cache({{"HF_HUB_CACHE", "/c"}, {"HF_HOME", "/h"}}), "/c");
  EXPECT_EQ(cache({{"HF_HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}}), "/h/hub");
  EXPECT_EQ(cache({{"XDG_CACHE_HOME", "/x"}}), "/x/huggingface/hub");
  EXPECT_TRUE(cache({}).string().ends_with(".cache/huggingface/hub"));
  EXPECT_EQ(cache({{"HF_HUB_CACHE", "~/c"}}),
            cache({}).parent_path().parent_path().parent_path() / "c");
}

TEST(Environment, TokensSwitchesAndAddresses) {
  const fs::path home = TestFolder("hf_home");
  WriteText(home / "token", " hf_file \n");
  {
    const Environment environment({{"HF_HOME", home.string()}, {"HF_ENDPOINT", "http://m.local/"}});
    const HubOptions options = HubOptions::FromEnvironment().value();
    EXPECT_EQ(options.token, "hf_file");
    EXPECT_EQ(options.endpoint, "http://m.local");
    EXPECT_FALSE(options.offline);
  }
  {
    const Environment environment(
        {{"HF_HOME", home.string()}, {"HF_TOKEN", "hf_own"}, {"HF_HUB_OFFLINE", "Yes"}});
    const HubOptions options = HubOptions::FromEnvironment().value();
    EXPECT_EQ(options.token, "hf_own");
    EXPECT_EQ(options.endpoint, "https://huggingface.co");
    EXPECT_TRUE(options.offline);
  }
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"HF_TOKEN", "a\r\nX-Evil: 1"},
                                                        {"HF_ENDPOINT", "file:///etc"},
                                                        {"HF_ENDPOINT", "http://a b"}}) {
    const Environment environment({{name, value}});
    EXPECT_EQ(HubOptions::FromEnvironment().status().code(), Code::kInvalidArgument) << value;
  }
  fs::remove_all(home);
}

}  // namespace
}  // namespace thalweg::hub
