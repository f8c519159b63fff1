// What is said of every character of an alphabet at once is true of each of them, and is said where
// it matters: in text, with few exceptions, not where a text may end inside a character.
#include "grammar/earley_terminals.h"

#include <gtest/gtest.h>

#include "grammar/regex_syntax.h"

namespace thalweg::grammar {
namespace {

// A byte that no token contains may be an exception.
std::shared_ptr<const Vocabulary> NoTokens() { return Vocabulary::OfBytes({}, {}); }

class TerminalsTest : public testing::Test {
 protected:
  RegexId Parse(std::string_view pattern, CharacterEncoding encoding) {
    return ParseRegex(pattern, RegexDialect::kWhole, encoding, {}, &arena_).value();
  }
  RegexId Text(std::string_view pattern) { return Parse(pattern, CharacterEncoding::kUtf8); }

  // Follows the characters of the alphabet one by one.
  void ExpectTrue(RegexId expression, int32_t alphabet) {
    const Uniform uniform = *terminals_.UniformOf(expression, alphabet);
    if (!uniform.holds) return;
    const Alphabet& of = vocabulary_->trie().alphabets[static_cast<size_t>(alphabet)];
    for (uint32_t point = 0; point <= 0xFFFF; ++point) {
      if (point >= 0xD800 && point <= 0xDFFF) continue;
      const std::string character = Utf8(point);
      if (of.CharacterBytes(character) == 0) continue;
      if (point < 0x80 && uniform.exceptions.Has(static_cast<uint8_t>(point))) continue;
      ASSERT_EQ(After(expression, character), uniform.next) << "U+" << point;
    }
  }

  static std::string Utf8(uint32_t point) {
    const auto tail = [&](int shift) { return static_cast<char>(0x80 | (point >> shift & 0x3F)); };
    if (point < 0x80) return {static_cast<char>(point)};
    if (point < 0x800) return {static_cast<char>(0xC0 | point >> 6), tail(0)};
    return {static_cast<char>(0xE0 | point >> 12), tail(6), tail(0)};
  }

  RegexId After(RegexId expression, std::string_view bytes) {
    for (const char byte : bytes) {
      expression = terminals_.Of(expression)->Next(static_cast<uint8_t>(byte));
    }
    return expression;
  }

  RegexArena arena_;
  std::shared_ptr<const Vocabulary> vocabulary_ = NoTokens();
  Terminals terminals_{&arena_, vocabulary_->trie()};
};

TEST_F(TerminalsTest, IsTrueOfEveryCharacter) {
  const char* const patterns[] = {".*",      "[^x]*",      "[a-z]*",     "a.*|b", "[^a-z]{2,5}",
                                  "\\S+",    "[A-Za-z ]*", "[\\x20-~]*", "\\w*",  "(ab|.c)*",
                                  "(?s:.)*", "[à-ÿ]*",     "[^中]*",     "a",     "[一-龥]{1,3}"};
  for (const char* pattern : patterns) {
    SCOPED_TRACE(pattern);
    for (int32_t alphabet = 0; alphabet < kAlphabets; ++alphabet) {
      ExpectTrue(Text(pattern), alphabet);
      ExpectTrue(Parse(pattern, CharacterEncoding::kJsonString), alphabet);
    }
  }
}

TEST_F(TerminalsTest, IsSaidOfText) {
  const RegexId text = AnyText(CharacterEncoding::kJsonString, &arena_);
  EXPECT_TRUE(terminals_.UniformOf(text, 0)->holds);
  EXPECT_EQ(terminals_.UniformOf(text, 0)->next, text);
  const Uniform& but_one = *terminals_.UniformOf(Text("[^<]*<"), 0);
  EXPECT_TRUE(but_one.holds);
  EXPECT_TRUE(but_one.exceptions.Has('<'));
  EXPECT_FALSE(but_one.exceptions.Has('a'));
}

TEST_F(TerminalsTest, IsNotSaidWhereATextMayEndInsideACharacter) {
  EXPECT_FALSE(terminals_.UniformOf(kAnything, 0)->holds);
  EXPECT_TRUE(terminals_.UniformOf(kAnything, 2)->holds);  // characters of one byte have no inside
}

TEST_F(TerminalsTest, NextIsNothingWhereNoTextIsLeft) {
  const RegexId never =
      arena_.Concat(arena_.Literal("a"), arena_.Both(arena_.Repeat(arena_.Literal("b"), 1, -1),
                                                     arena_.Repeat(arena_.Literal("bc"), 0, -1)));
  EXPECT_EQ(terminals_.Of(never)->Next('a'), kNothing);
  EXPECT_TRUE(terminals_.Of(never)->live.empty());
}

}  // namespace
}  // namespace thalweg::grammar
