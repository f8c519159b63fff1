// Encoding by search and by heap give what the definition gives, for merges that compete, repeat or
// come out of order; and a piece of a million bytes takes no more than its share of time.
#include <gtest/gtest.h>

#include "text/bpe_merges.h"
#include "text/bpe_model.h"
#include "text/byte_trie.h"
#include "text/naive_bpe.h"
#include "text/test_tokenizer.h"

namespace thalweg::text {
namespace {

BpeFile FileOf(const std::vector<std::pair<std::string, std::string>>& merges) {
  const base::Json json = ByteLevelJson(merges, {});
  return ReadBpe(JsonField(json["model"], "model")).value();
}

std::vector<int32_t> Bytes(const std::string& text) { return {text.begin(), text.end()}; }

std::string RandomText(Dice& dice, uint32_t letters) {
  std::string text;
  for (uint32_t n = dice.Below(40); n > 0; --n) {
    text += static_cast<char>('a' + dice.Below(letters));
  }
  return text;
}

void ExpectLikeDefinition(const BpeFile& file, const std::string& text) {
  const BpeModel model = BpeModel::Build(file, {}, /*byte_level=*/true).value();
  const MergeTable merges(file.merges);
  std::vector<int32_t> expected = Bytes(text);
  NaiveBpe(merges, expected);
  std::vector<int32_t> by_heap = Bytes(text);
  ApplyMerges(merges, by_heap);
  EXPECT_EQ(by_heap, expected) << text;
  std::vector<int32_t> encoded;
  model.Encode(text, encoded);
  EXPECT_EQ(encoded, expected) << text;
}

TEST(Bpe, SearchAndHeapEqualTheDefinition) {
  int searching = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const BpeFile file = FileOf(RandomMerges(seed, 3 + static_cast<int>(seed % 40), seed % 4 == 3));
    searching += BpeModel::Build(file, {}, true)->searches() ? 1 : 0;
    Dice dice(seed + 1000);
    for (int i = 0; i < 30; ++i) ExpectLikeDefinition(file, RandomText(dice, 2 + i % 3));
  }
  EXPECT_GT(searching, 150);  // or the test would not be about the search
  EXPECT_LT(searching, 300);  // nor about its absence
}

TEST(Bpe, EqualRanksJoinFromTheLeft) {
  const BpeFile file = FileOf({{"a", "a"}, {"aa", "a"}});
  for (const char* text : {"aaa", "aaaa", "aaaaa", "aaaaaa", "aaaaaaa"}) {
    ExpectLikeDefinition(file, text);
  }
}

TEST(Bpe, OutOfOrderMergesAreNotSearched) {
  const BpeFile file = FileOf({{"ab", "c"}, {"a", "b"}, {"b", "c"}});
  EXPECT_FALSE(BpeModel::Build(file, {}, true)->searches());
  for (const char* text : {"abc", "aabcc", "abcabc", "bcabc"}) ExpectLikeDefinition(file, text);
}

// Quadratic time would take minutes here; the limit only has to tell the two apart.
void ExpectLinear(const BpeModel& model, const std::string& text) {
  const double start = CpuSeconds();
  std::vector<int32_t> ids;
  model.Encode(text, ids);
  EXPECT_LT(CpuSeconds() - start, 10.0);
  EXPECT_LE(ids.size(), text.size());
}

TEST(Bpe, AMillionBytesInOnePiece) {
  const std::vector<std::pair<std::string, std::string>> doubling = {
      {"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}, {"aaaa", "a"}, {"aa", "a"}, {"b", "aaa"}};
  const BpeModel search = BpeModel::Build(FileOf(doubling), {}, true).value();
  EXPECT_TRUE(search.searches());
  auto shuffled = doubling;
  std::swap(shuffled[0], shuffled[2]);
  const BpeModel heap = BpeModel::Build(FileOf(shuffled), {}, true).value();
  EXPECT_FALSE(heap.searches());
  const std::string run(1'000'003, 'a');
  std::string mixed;
  Dice dice(5);
  while (mixed.size() < 1'000'000) mixed += RandomText(dice, 2);
  for (const BpeModel* model : {&search, &heap}) {
    ExpectLinear(*model, run);
    ExpectLinear(*model, mixed);
  }
}

TEST(Bpe, UnknownCharactersAreFallbackBytesUnknownTokensOrNothing) {
  BpeFile file;
  file.tokens = {"a", "b", "ab", "<unk>", "<0xC3>", "<0xA9>"};
  for (size_t id = 0; id < file.tokens.size(); ++id) {
    file.ids[file.tokens[id]] = static_cast<int32_t>(id);
  }
  file.merges = {{0, 1, 2}};
  const auto encode = [&](std::string_view text) {
    std::vector<int32_t> ids;
    BpeModel::Build(file, {}, /*byte_level=*/false)->Encode(text, ids);
    return ids;
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(encode("abéxyb"), (Ids{2, 1}));
  file.unk = 3;
  EXPECT_EQ(encode("abéxyb"), (Ids{2, 3, 3, 3, 1}));
  file.fuse_unk = true;
  EXPECT_EQ(encode("abéxyb"), (Ids{2, 3, 1}));
  file.byte_fallback = true;
  EXPECT_EQ(encode("abéxyb"), (Ids{2, 4, 5, 3, 1}));
}

TEST(Bpe, IgnoreMergesTakesWholePieces) {
  BpeFile file = FileOf({{"a", "b"}, {"c", "d"}});
  file.tokens.push_back("abcd");
  file.ids["abcd"] = static_cast<int32_t>(file.tokens.size()) - 1;
  file.ignore_merges = true;
  std::vector<int32_t> ids;
  BpeModel::Build(file, {}, true)->Encode("abcd", ids);
  EXPECT_EQ(ids, std::vector<int32_t>{258});
  ids.clear();
  const AddedToken added{.id = 258, .content = "abcd"};
  BpeModel::Build(file, std::span(&added, 1), true)->Encode("abcd", ids);
  EXPECT_EQ(ids, (std::vector<int32_t>{256, 257}));  // text does not become an added token
}

TEST(ByteTrie, FindsTheLongestPrefix) {
  Dice dice(9);
  std::vector<std::string> keys;
  for (int i = 0; i < 3000; ++i) {
    std::string key(1 + dice.Below(5), ' ');
    for (char& c : key) c = static_cast<char>(dice.Below(i % 3 == 0 ? 256 : 4));
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  std::vector<std::pair<std::string_view, int32_t>> pairs;
  for (size_t i = 0; i < keys.size(); ++i) pairs.emplace_back(keys[i], static_cast<int32_t>(i));
  const ByteTrie trie(pairs);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(trie.Find(keys[i]), static_cast<int>(i));
  for (int i = 0; i < 2000; ++i) {
    std::string text(dice.Below(8), ' ');
    for (char& c : text) c = static_cast<char>(dice.Below(i % 2 == 0 ? 256 : 4));
    size_t longest = 0;
    for (const std::string& key : keys) {
      if (text.starts_with(key)) longest = std::max(longest, key.size());
    }
    EXPECT_EQ(trie.LongestPrefix(text).length, longest);
  }
}

}  // namespace
}  // namespace thalweg::text
