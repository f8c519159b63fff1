// How a text is cut into chunks changes no bit: the logits of every row and the caches that are
// left are those of one whole chunk, for single tokens, chunks of the size of a verification, and
// odd pieces that cross pair borders.
#include <gtest/gtest.h>

#include "tests/model/world.h"

namespace thalweg::tests {
namespace {

constexpr uint32_t kPurpose = 11;

enum class Style { kSingle, kVerify, kMixed };

int64_t DrawPiece(Style style, int64_t length, Draws* draws) {
  if (style == Style::kSingle) return 1;
  if (style == Style::kVerify) return draws->Between(2, 6);
  return draws->Chance(50) ? 2 * draws->Between(0, 6) + 1 : draws->Between(1, length);
}

// Feeds a first part in one piece (none for mixed pieces), then pieces of a style; all logits.
std::vector<float> FeedCut(Runner* runner, int64_t length, Style style, Draws* draws) {
  std::vector<float> all;
  const auto feed = [&](int64_t count) {
    const std::vector<float> logits = runner->Feed(count);
    all.insert(all.end(), logits.begin(), logits.end());
  };
  if (style == Style::kSingle && length > 14) feed(length - draws->Between(8, 14));
  if (style == Style::kVerify && length > 30) feed(length - draws->Between(20, 30));
  while (runner->length() < length) {
    feed(std::min(DrawPiece(style, length, draws), length - runner->length()));
  }
  return all;
}

void CheckStyles(const World& world) {
  Draws draws(world.seed(), kPurpose);
  const auto model = world.Load();
  const int64_t length = world.prompt().size();
  Runner whole(model.get(), world.prompt());
  const std::vector<float> expected = whole.Feed(length);
  const Snapshot kept = whole.Take(world.rollback());
  for (const Style style : {Style::kSingle, Style::kVerify, Style::kMixed}) {
    SCOPED_TRACE(static_cast<int>(style));
    Runner cut(model.get(), world.prompt());
    const std::vector<float> logits = FeedCut(&cut, length, style, &draws);
    EXPECT_TRUE(SameBits(expected, logits, world.config().vocab_size));
    EXPECT_EQ(Difference(kept, cut.Take(world.rollback())), "");
  }
}

class Chunking : public ::testing::TestWithParam<int> {};

TEST_P(Chunking, ChangesNoBitOfLogitsAndCaches) { ForEachWorld(GetParam(), CheckStyles); }

INSTANTIATE_TEST_SUITE_P(Shard, Chunking, ::testing::Range(0, kShards));

// The comparison itself must be able to fail: another token in the prompt changes both.
TEST(ChunkingControl, AnotherTokenIsSeen) {
  const World world(TheSweep().first_seed);
  const auto model = world.Load();
  Draws draws(1, kPurpose);
  Text text = RandomText(world.config(), 12, &draws);
  Runner a(model.get(), text);
  const std::vector<float> expected = a.Feed(12);
  Text other = text;
  other.ids[3] = (other.ids[3] + 1) % 20;
  Runner b(model.get(), other);
  const std::vector<float> logits = b.Feed(12);
  EXPECT_FALSE(SameBits(expected, logits, world.config().vocab_size));
  EXPECT_NE(Difference(a.Take(world.rollback()), b.Take(world.rollback())), "");
}

}  // namespace
}  // namespace thalweg::tests
