// Property: the compressed ids computed from a tokenizer equal the golden maps, the normalisation
// does what spec/model.md 2.3 says step by step, and a map that does not belong to the config is
// refused.
#include "checkpoint/token_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "checkpoint/test_files.h"
#include "text/tokenizer.h"

namespace thalweg::checkpoint {
namespace {

namespace fs = std::filesystem;

std::vector<int32_t> GoldenMap(const std::string& dir) {
  const std::string bytes = ReadSource(dir + "/engram_token_map.bin");
  std::vector<int32_t> ids(bytes.size() / 4);
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

class GoldenMaps : public testing::TestWithParam<const char*> {};

TEST_P(GoldenMaps, AreWhatIsComputed) {
  const std::string dir = GetParam();
  const Config config = Config::Load(SourceFile(dir + "/config.json")).value();
  const auto tokenizer = text::Tokenizer::Load(SourceFile(dir + "/tokenizer.json")).value();
  const TokenMap map = ComputeTokenMap(tokenizer).value();
  EXPECT_EQ(map.ids, GoldenMap(dir));
  EXPECT_EQ(map.distinct, config.engram_compressed_vocab_size);
}

TEST_P(GoldenMaps, AreAcceptedAsFiles) {
  const std::string dir = GetParam();
  const Config config = Config::Load(SourceFile(dir + "/config.json")).value();
  const Result<TokenMap> map = LoadTokenMap(SourceFile(dir), config);
  ASSERT_TRUE(map.ok()) << map.status().ToString();
  EXPECT_EQ(map->ids, GoldenMap(dir));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenMaps,
                         testing::Values("tests/data/tiny-a/model", "tests/data/tiny-b/model",
                                         "models/nano"));

TEST(NormalizeTokenText, StepByStep) {
  const auto normal = [](std::string_view text) { return NormalizeTokenText(text).value(); };
  EXPECT_EQ(normal("ﬁ２"), "fi2");          // NFKC
  EXPECT_EQ(normal("Éé"), "ee");            // NFD, marks dropped, lower case
  EXPECT_EQ(normal("का"), "क");             // spacing marks (Mc) are dropped too
  EXPECT_EQ(normal("a\xE2\x83\x9D"), "a");  // enclosing marks (Me)
  EXPECT_EQ(normal("İ"), "i");              // decomposed before it is lowered
  EXPECT_EQ(normal("ΣΑΣ"), "σασ");          // a final sigma is not special
  EXPECT_EQ(normal("ẞ"), "ß");              // lowered, not folded
  EXPECT_EQ(normal(" \t\r\n"), " ");        // a run that is everything stays one space
  EXPECT_EQ(normal("\n"), " ");
  EXPECT_EQ(normal("  The  end\n"), "the end");
  EXPECT_EQ(normal("\xE3\x80\x80x"), "x");  // NFKC turns the ideographic space into a space
  EXPECT_EQ(normal("\xE2\x80\xA8"), "");    // trimmed, though it is not folded
  EXPECT_EQ(normal("\xE2\x80\xA8 "), "");   // two characters: not the one-space rule
  EXPECT_EQ(normal("\xCC\x81"), "");        // a lone mark: nothing is left
  EXPECT_EQ(normal(""), "");
}

// Puts one environment variable for the life of the object.
class ScopedEnvironment {
 public:
  ScopedEnvironment(const char* name, const fs::path& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;
  ScopedEnvironment& operator=(const ScopedEnvironment&) = delete;
  ~ScopedEnvironment() { unsetenv(name_); }

 private:
  const char* name_;
};

// A model folder without the ready map.
fs::path ModelWithoutMap(const fs::path& folder) {
  fs::create_directories(folder / "model");
  fs::copy(SourceFile("tests/data/tiny-a/model/tokenizer.json"), folder / "model/tokenizer.json");
  return folder / "model";
}

Config TinyA() { return Config::Load(SourceFile("tests/data/tiny-a/model/config.json")).value(); }

TEST(LoadTokenMap, ComputesCachesAndReadsTheCache) {
  const ScratchFolder folder;
  const fs::path model = ModelWithoutMap(folder.path());
  const ScopedEnvironment cache("XDG_CACHE_HOME", folder.path() / "cache");
  EXPECT_EQ(LoadTokenMap(model, TinyA()).value().ids, GoldenMap("tests/data/tiny-a/model"));
  const fs::path cached = fs::directory_iterator(folder.path() / "cache/thalweg")->path();
  EXPECT_EQ(base::ReadFile(cached, 1 << 20).value(),
            ReadSource("tests/data/tiny-a/model/engram_token_map.bin"));
  // Another valid map in its place shows that the cache is what is read ...
  std::string swapped = base::ReadFile(cached, 1 << 20).value();
  std::swap_ranges(swapped.begin(), swapped.begin() + 4, swapped.begin() + 4);
  ASSERT_TRUE(base::WriteFile(cached, swapped).ok());
  EXPECT_EQ(LoadTokenMap(model, TinyA()).value().ids[0], 1);
  // ... and a damaged one is computed again.
  ASSERT_TRUE(base::WriteFile(cached, "damaged").ok());
  EXPECT_EQ(LoadTokenMap(model, TinyA()).value().ids[0], 0);
}

TEST(LoadTokenMap, UnwritableCacheIsNoError) {
  const ScratchFolder folder;
  const fs::path model = ModelWithoutMap(folder.path());
  ASSERT_TRUE(base::WriteFile(folder.path() / "file", "not a folder").ok());
  const ScopedEnvironment cache("XDG_CACHE_HOME", folder.path() / "file");
  EXPECT_TRUE(LoadTokenMap(model, TinyA()).ok());
}

TEST(LoadTokenMap, WrongTokenizerIsRefused) {
  const ScratchFolder folder;
  const fs::path model = ModelWithoutMap(folder.path());
  const ScopedEnvironment cache("XDG_CACHE_HOME", folder.path() / "cache");
  Config config = TinyA();
  config.engram_compressed_vocab_size = 942;
  ExpectError(LoadTokenMap(model, config).status(),
              "folds to 943 compressed tokens, but engram_compressed_vocab_size is 942");
  ExpectError(LoadTokenMap(folder.path(), TinyA()).status(), "tokenizer.json");
}

std::string MapBytes(const std::vector<int32_t>& ids) {
  return std::string(reinterpret_cast<const char*>(ids.data()), ids.size() * 4);
}

TEST(LoadTokenMap, MalformedReadyMaps) {
  const ScratchFolder folder;
  Config config = TinyA();
  config.vocab_size = 4;
  config.engram_compressed_vocab_size = 3;
  const auto error = [&](const std::string& bytes) {
    EXPECT_TRUE(base::WriteFile(folder.path() / "engram_token_map.bin", bytes).ok());
    return LoadTokenMap(folder.path(), config).status();
  };
  ExpectError(error(""), "it has 0 bytes; one int32 per token id");
  ExpectError(error("abc"), "it has 3 bytes");
  ExpectError(error(MapBytes({0, 1, 2, 0, 0})),
              "it has 20 bytes; one int32 per token id is at most");
  ExpectError(error(MapBytes({0, 1, 3, 2})), "entry 2 is 3; compressed ids are 0 to 2");
  ExpectError(error(MapBytes({0, -1, 1, 2})), "entry 1 is -1");
  ExpectError(error(MapBytes({0, 1, 1, 0})), "it uses 2 compressed ids");
  EXPECT_TRUE(error(MapBytes({0, 1, 2, 1})).ok());
}

TEST(LoadTokenMap, IdsBeyondTheTokenizerHashLikePad) {
  const ScratchFolder folder;
  Config config = TinyA();
  config.vocab_size = 5;
  config.engram_compressed_vocab_size = 3;
  ASSERT_TRUE(base::WriteFile(folder.path() / "engram_token_map.bin", MapBytes({0, 1, 2})).ok());
  EXPECT_EQ(LoadTokenMap(folder.path(), config).value().ids, (std::vector<int32_t>{0, 1, 2, 2, 2}));
}

}  // namespace
}  // namespace thalweg::checkpoint
