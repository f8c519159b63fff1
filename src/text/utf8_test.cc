// Ill-formed UTF-8 becomes U+FFFD per maximal subpart, as Unicode's table 3-8 and ICU have it, and
// a stream of bytes cut anywhere gives the text of the whole.
#include "text/utf8.h"

#include <gtest/gtest.h>
#include <unicode/unistr.h>

#include "text/stream_decoder.h"
#include "text/test_tokenizer.h"

namespace thalweg::text {
namespace {

// ICU replaces by maximal subparts too.
std::string RepairByIcu(const std::string& bytes) {
  std::string out;
  icu::UnicodeString::fromUTF8(bytes).toUTF8String(out);
  return out;
}

std::string RandomBytes(Dice& dice) {
  constexpr std::string_view kEdges =
      "\x41\x7f\x80\xbf\xc0\xc1\xc2\xdf\xe0\x9f\xa0\xe1\xec\xed\xee\xef\xf0\x8f\x90\xf1\xf3\xf4\xf5"
      "\xff";
  std::string bytes;
  for (uint32_t n = dice.Below(12); n > 0; --n) bytes += kEdges[dice.Below(kEdges.size())];
  return bytes;
}

TEST(Utf8, Table38) {
  EXPECT_EQ(RepairUtf8("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  EXPECT_EQ(RepairUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(RepairUtf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(RepairUtf8("\xE4\xBD"), "\uFFFD");
}

TEST(Utf8, RepairsLikeIcu) {
  Dice dice(1);
  for (int i = 0; i < 50000; ++i) {
    const std::string bytes = RandomBytes(dice);
    EXPECT_EQ(RepairUtf8(bytes), RepairByIcu(bytes));
    EXPECT_EQ(IsValidUtf8(bytes), RepairUtf8(bytes) == bytes);
  }
}

TEST(Utf8, EveryCharacterComesBack) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    AppendUtf8(c, bytes);
    const Utf8Step step = DecodeUtf8(bytes);
    ASSERT_EQ(step.kind, Utf8Kind::kValid);
    ASSERT_EQ(step.code_point, c);
    ASSERT_EQ(step.length, bytes.size());
    ASSERT_EQ(DecodeWellFormed(bytes), (std::pair<uint32_t, uint32_t>(c, step.length)));
  }
}

TEST(Utf8, AnyChunkingGivesTheWhole) {
  Dice dice(2);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = RandomBytes(dice) + "é中😀" + RandomBytes(dice);
    std::string held;
    std::string streamed;
    for (size_t pos = 0; pos < bytes.size();) {
      const size_t length = std::min<size_t>(1 + dice.Below(4), bytes.size() - pos);
      const std::string piece = TakeCertainUtf8(held, std::string_view(bytes).substr(pos, length));
      EXPECT_TRUE(IsValidUtf8(piece));
      EXPECT_LE(held.size(), 3u);
      streamed += piece;
      pos += length;
    }
    EXPECT_EQ(streamed + RepairUtf8(held), RepairUtf8(bytes));
  }
}

TEST(Utf8, CertainTextIsNotHeldBack) {
  std::string held;
  EXPECT_EQ(TakeCertainUtf8(held, "ab\xE4"), "ab");
  EXPECT_EQ(TakeCertainUtf8(held, "\xBD"), "");
  EXPECT_EQ(TakeCertainUtf8(held, "\xA0z"), "你z");
  EXPECT_EQ(TakeCertainUtf8(held, "\xE4"), "");
  EXPECT_EQ(TakeCertainUtf8(held, "\xE4"), "\uFFFD");  // the first can no longer be completed
  EXPECT_EQ(TakeCertainUtf8(held, "x"), "\uFFFDx");
}

TEST(Utf8, ExcerptsDivideNoCharacter) {
  EXPECT_EQ(Excerpt("short"), "short");
  EXPECT_EQ(Excerpt(std::string(100, 'a')), std::string(100, 'a'));
  EXPECT_EQ(Excerpt(std::string(101, 'a')), std::string(100, 'a') + "...");
  for (size_t lead = 96; lead <= 100; ++lead) {
    const std::string excerpt = Excerpt(std::string(lead, 'a') + "😀😀");
    EXPECT_TRUE(IsValidUtf8(excerpt)) << lead;
    EXPECT_EQ(excerpt.find(kReplacement), std::string::npos) << lead;
  }
  EXPECT_EQ(Excerpt("a\xff"), "a" + std::string(kReplacement));
}

}  // namespace
}  // namespace thalweg::text
