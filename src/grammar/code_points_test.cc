// Property: a range of characters is exactly the byte strings that a decoder reads as one character
// of the range; in a JSON string, exactly the spellings that a JSON parser reads as it.
#include "grammar/code_points.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "grammar/test_draws.h"
#include "text/utf8.h"

namespace thalweg::grammar {
namespace {

constexpr CharacterEncoding kEncodings[] = {CharacterEncoding::kUtf8,
                                            CharacterEncoding::kJsonString};

std::string Utf8(uint32_t code_point) {
  std::string text;
  text::AppendUtf8(code_point, text);
  return text;
}

// The text of a JSON string between its quotes, or nothing where a parser refuses it.
std::optional<std::string> Unescaped(const std::string& inside) {
  const auto json = base::ParseJson("\"" + inside + "\"", "test");
  if (!json.ok() || !(*json).is_string()) return std::nullopt;
  return (*json).get<std::string>();
}

// The code point that `bytes` spell in the encoding, if they spell exactly one.
std::optional<uint32_t> Decoded(const std::string& bytes, CharacterEncoding encoding) {
  std::string text = bytes;
  if (encoding == CharacterEncoding::kJsonString) {
    const auto inside = Unescaped(bytes);
    if (!inside) return std::nullopt;
    text = *inside;
  }
  if (text.empty() || !text::IsValidUtf8(text)) return std::nullopt;
  const auto [code_point, length] = text::DecodeWellFormed(text);
  return length == text.size() ? std::optional(code_point) : std::nullopt;
}

std::vector<std::string> SpellingsOf(uint32_t code_point) {
  std::vector<std::string> all = {Utf8(code_point), "\\" + Utf8(code_point)};
  const auto unit = [](uint32_t value, const char* format) {
    char text[16];
    std::snprintf(text, sizeof(text), format, value);
    return std::string(text);
  };
  for (const char* format : {"\\u%04x", "\\u%04X"}) {
    if (code_point < 0x10000) all.push_back(unit(code_point, format));
    const uint32_t above = code_point - 0x10000;
    all.push_back(unit(0xD800 + (above >> 10 & 0x3FF), format) +
                  unit(0xDC00 + (above & 0x3FF), format));
    all.push_back(unit(0xD800 + (code_point & 0x3FF), format));
  }
  for (const char letter : {'b', 'f', 'n', 'r', 't', '"', '\\', '/'}) {
    all.push_back(std::string("\\") + letter);
  }
  return all;
}

uint32_t SomeCodePoint(Draws* draws) {
  constexpr uint32_t kBelow[] = {0x80, 0x800, 0x10000, 0x110000};
  const uint32_t code_point = draws->Below(kBelow[draws->Below(4)]);
  return code_point >= 0xD800 && code_point < 0xE000 ? 0xD7FF : code_point;
}

TEST(CodePoints, ARangeIsWhatADecoderReadsAsOneOfIt) {
  for (const CharacterEncoding encoding : kEncodings) {
    RegexArena arena;
    Draws draws(1);
    int matches = 0;
    for (int round = 0; round < 300; ++round) {
      const uint32_t a = SomeCodePoint(&draws);
      const uint32_t b = draws.Below(4) == 0 ? a : SomeCodePoint(&draws);
      const uint32_t first = std::min(a, b);
      const uint32_t last = std::max(a, b);
      const RegexId id = CodePoints(first, last, encoding, &arena);
      for (int i = 0; i < 40; ++i) {
        const uint32_t near =
            draws.Below(2) == 0 ? first - 2 + draws.Below(5) : last - 2 + draws.Below(5);
        const bool surrogate = near >= 0xD800 && near < 0xE000;
        if (near > 0x10FFFF || surrogate) continue;
        for (const std::string& text : SpellingsOf(draws.Below(3) == 0 ? near : first)) {
          const auto code_point = Decoded(text, encoding);
          const bool want = code_point && *code_point >= first && *code_point <= last;
          ASSERT_EQ(arena.Matches(id, text), want) << first << ".." << last << ": " << text;
          matches += want ? 1 : 0;
        }
      }
    }
    EXPECT_GT(matches, 1000);
  }
}

TEST(CodePoints, AnyCharacterIsEveryByteStringThatDecodesToOne) {
  RegexArena arena;
  const RegexId any = AnyCharacter(CharacterEncoding::kUtf8, &arena);
  const RegexId json = AnyCharacter(CharacterEncoding::kJsonString, &arena);
  for (uint32_t first = 0; first < 256; ++first) {
    for (uint32_t second = 0; second < 256; ++second) {
      const std::string two = {static_cast<char>(first), static_cast<char>(second)};
      for (const std::string& text : {two.substr(0, 1), two, two + "\x80", two + "\xBF\x80"}) {
        ASSERT_EQ(arena.Matches(any, text), Decoded(text, CharacterEncoding::kUtf8).has_value());
        ASSERT_EQ(arena.Matches(json, text),
                  Decoded(text, CharacterEncoding::kJsonString).has_value());
      }
    }
  }
}

TEST(CodePoints, ALoneSurrogateIsNoCharacterOfAJsonString) {
  RegexArena arena;
  const RegexId text = AnyText(CharacterEncoding::kJsonString, &arena);
  EXPECT_TRUE(arena.Matches(text, "\\ud83d\\uDE00"));
  EXPECT_FALSE(arena.Matches(text, "\\ud83d"));
  EXPECT_FALSE(arena.Matches(text, "\\ude00"));
  EXPECT_FALSE(arena.Matches(text, "\\ud83d\\ud83d\\ude00"));
  EXPECT_FALSE(arena.Matches(text, "\\ud83dx"));
  EXPECT_FALSE(arena.Matches(text, "\n"));
  EXPECT_FALSE(arena.Matches(text, "\\x"));
}

TEST(CodePoints, APairOfSurrogatesIsOneCharacter) {
  RegexArena arena;
  const RegexId one = AnyCharacter(CharacterEncoding::kJsonString, &arena);
  const RegexId two = arena.Repeat(one, 2, 2);
  EXPECT_TRUE(arena.Matches(one, "\\ud83d\\ude00"));
  EXPECT_FALSE(arena.Matches(two, "\\ud83d\\ude00"));
  EXPECT_TRUE(arena.Matches(two, "\\ud83d\\ude00\xF0\x9F\x98\x80"));
}

TEST(CodePoints, EncodedTextIsReadBackAsTheText) {
  RegexArena arena;
  const std::string text = "a\"b/\n\xC3\xA9\xF0\x9F\x98\x80";
  const RegexId id = EncodedText(text, CharacterEncoding::kJsonString, &arena);
  for (const char* spelling :
       {"a\\\"b/\\n\xC3\xA9\xF0\x9F\x98\x80", "\\u0061\\u0022b\\/\\u000A\\u00e9\\uD83D\\ude00"}) {
    EXPECT_EQ(Unescaped(spelling), text);
    EXPECT_TRUE(arena.Matches(id, spelling));
  }
  EXPECT_FALSE(arena.Matches(id, text));
  EXPECT_TRUE(arena.Matches(EncodedText(text, CharacterEncoding::kUtf8, &arena), text));
}

TEST(CodePoints, ASetIsItsRanges) {
  RegexArena arena;
  icu::UnicodeSet set;
  set.add('a', 'c').add(0xE9).add(0xD800, 0xDFFF).add(0x1F600);
  const RegexId id = CharacterOf(set, CharacterEncoding::kUtf8, &arena);
  for (const uint32_t in : {uint32_t{'a'}, 0xE9u, 0x1F600u}) {
    EXPECT_TRUE(arena.Matches(id, Utf8(in)));
  }
  for (const uint32_t out : {uint32_t{'d'}, 0xEAu, 0x1F601u}) {
    EXPECT_FALSE(arena.Matches(id, Utf8(out)));
  }
  EXPECT_FALSE(arena.Matches(id, "\xED\xA0\x80"));
}

}  // namespace
}  // namespace thalweg::grammar
