// Names change with everything that rows depend on and with nothing else; the index finds what was
// put in and nothing that was taken out.
#include "cache/block_hash.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "base/rng.h"
#include "cache/hash_index.h"

namespace thalweg::cache {
namespace {

std::vector<int32_t> Tokens(int32_t first) {
  std::vector<int32_t> tokens(kBlockTokens);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = first + static_cast<int32_t>(i);
  return tokens;
}

TEST(BlockHash, EverythingCounts) {
  const BlockHash root = RootHash("model", "salt");
  EXPECT_EQ(root, RootHash("model", "salt"));
  EXPECT_FALSE(root == RootHash("model", ""));
  EXPECT_FALSE(root == RootHash("models", "alt")) << "the border between identity and salt";
  const BlockHash block = ChainHash(root, Tokens(5));
  EXPECT_EQ(block, ChainHash(root, Tokens(5)));
  EXPECT_FALSE(block == ChainHash(RootHash("model", "other"), Tokens(5)));
  EXPECT_FALSE(block == ChainHash(root, Tokens(6)));
  EXPECT_FALSE(block == ChainHash(root, Tokens(5), "image"));
  std::vector<int32_t> last = Tokens(5);
  last.back() ^= 1 << 30;
  EXPECT_FALSE(block == ChainHash(root, last));
}

// The name of a known block, so that a change of what is hashed is noticed: names may be stored.
TEST(BlockHash, NamesStayWhatTheyAre) {
  const BlockHash block = ChainHash(RootHash("model", "salt"), Tokens(0));
  EXPECT_EQ(block.high, 0xed3951590a4e1625u);
  EXPECT_EQ(block.low, 0xfa14ccbe6f6d11d4u);
}

TEST(HashIndex, AgreesWithAMap) {
  HashIndex index(4);
  std::map<uint64_t, int32_t> model;
  auto random = [n = uint32_t{0}]() mutable {
    return base::Philox4x32({n++, 0, 0, 0}, base::PhiloxKeyOf(1))[0];
  };
  for (int i = 0; i < 200000; ++i) {
    const uint64_t n = random() % 300;
    // Homes collide on purpose, and wrap around the end of the table.
    const BlockHash key = {n, n % 37 == 0 ? ~uint64_t{0} : n % 16};
    const auto found = model.find(n);
    ASSERT_EQ(index.Find(key), found == model.end() ? HashIndex::kNone : found->second);
    if (found != model.end()) {
      index.Erase(key);
      model.erase(found);
    } else if (model.size() < 150) {
      const auto value = static_cast<int32_t>(random() % 1000);
      index.Insert(key, value);
      model[n] = value;
    }
    ASSERT_EQ(index.size(), static_cast<int64_t>(model.size()));
  }
}

}  // namespace
}  // namespace thalweg::cache
