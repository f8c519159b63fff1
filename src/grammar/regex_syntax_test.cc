// Property: a pattern means what RE2 says it means (whole and partial matches), in plain text and
// inside JSON strings; ECMA's differences are those of ECMA 262; what is not regular, malformed or
// too large is an error that names the byte.
#include "grammar/regex_syntax.h"

#include <gtest/gtest.h>
#include <re2/re2.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "grammar/test_draws.h"

namespace thalweg::grammar {
namespace {

constexpr CharacterEncoding kUtf8 = CharacterEncoding::kUtf8;

std::vector<std::string> Texts(const std::vector<std::string>& letters, size_t most) {
  std::vector<std::string> all = {""};
  for (size_t i = 0, length = 0, end = 1; length < most; ++length, end = all.size()) {
    for (; i < end; ++i) {
      for (const std::string& letter : letters) all.push_back(all[i] + letter);
    }
  }
  return all;
}

RE2::Options QuietOptions() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

// Random patterns of the syntax that RE2 and this room share.
class PatternMaker {
 public:
  explicit PatternMaker(uint64_t seed, bool assertions) : draws_(seed), assertions_(assertions) {}

  std::string Choices(int depth) {
    std::string all = Sequence(depth);
    while (draws_.Below(3) == 0) all += "|" + Sequence(depth);
    return all;
  }

 private:
  std::string Sequence(int depth) {
    std::string all;
    for (uint32_t i = draws_.Below(4); i > 0; --i) all += Counted(depth);
    return all;
  }
  std::string Counted(int depth) {
    const char* const assertions[] = {"^", "$", "\\b", "\\B", "\\A", "\\z"};
    if (assertions_ && draws_.Below(5) == 0) return assertions[draws_.Below(6)];
    const char* const counts[] = {"*", "+", "?", "{2}", "{1,2}", "{0,3}?", "{2,}", "*?", "??"};
    const std::string atom = Atom(depth);
    return draws_.Below(3) == 0 ? atom + counts[draws_.Below(9)] : atom;
  }
  std::string Atom(int depth) {
    const char* const atoms[] = {"a",      "b",     "ab",    ".",       "[ab]", "[^a]",
                                 "\\w",    "\\W",   "\\s",   "\\n",     "x",    "[[:alpha:]]",
                                 "[^\\n]", "\\x61", "[a-c]", "\\x{e9}", "\\d",  "\\pL"};
    if (depth == 0 || draws_.Below(3) != 0) return atoms[draws_.Below(18)];
    const char* const opens[] = {"(", "(?:", "(?i:", "(?s:", "(?P<n>", "(?m:"};
    return opens[draws_.Below(assertions_ ? 6 : 5)] + Choices(depth - 1) + ")";
  }

  Draws draws_;
  bool assertions_;
};

struct Verdicts {
  int patterns = 0;
  int refused = 0;
  int matches = 0;
};

void CompareWithRe2(const std::string& pattern, const std::vector<std::string>& texts,
                    Verdicts* verdicts) {
  const RE2 re2(pattern, QuietOptions());
  if (!re2.ok()) return;  // the same group name twice
  RegexArena arena;
  const auto whole = ParseRegex(pattern, RegexDialect::kWhole, kUtf8, {}, &arena);
  ++verdicts->patterns;
  if (!whole.ok()) {
    ASSERT_EQ(whole.status().code(), base::Code::kUnsupported) << whole.status().ToString();
    ++verdicts->refused;
    return;
  }
  for (const std::string& text : texts) {
    const bool want = RE2::FullMatch(text, re2);
    ASSERT_EQ(arena.Matches(*whole, text), want) << pattern << " on " << base::Json(text).dump();
    verdicts->matches += want ? 1 : 0;
  }
}

TEST(RegexSyntax, WholeMatchesAreThoseOfRe2) {
  const auto texts = Texts({"a", "b", "\n", "\xC3\xA9"}, 4);
  Verdicts verdicts;
  for (uint64_t seed = 0; seed < 800; ++seed) {
    CompareWithRe2(PatternMaker(seed, false).Choices(2), texts, &verdicts);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(verdicts.patterns, 600);
  EXPECT_EQ(verdicts.refused, 0);
  EXPECT_GT(verdicts.matches, 10000);
}

TEST(RegexSyntax, AnchorsAndWordBordersAreThoseOfRe2) {
  const auto texts = Texts({"a", "B", " ", "\n"}, 4);
  Verdicts verdicts;
  for (uint64_t seed = 0; seed < 800; ++seed) {
    CompareWithRe2(PatternMaker(seed, true).Choices(2), texts, &verdicts);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_GT(verdicts.patterns, 600);
  EXPECT_LT(verdicts.refused, verdicts.patterns / 4);
  EXPECT_GT(verdicts.matches, 2500);
}

TEST(RegexSyntax, SearchIsAMatchSomewhere) {
  const auto texts = Texts({"a", "b", " "}, 4);
  int matches = 0;
  for (const char* pattern : {"a", "^a", "a$", "^a$", "^$", "a|^b", "\\bab\\b", "(^| )a( |$)",
                              "^(a|b)*$", "b{2}", "^a{1,2}b", "\\Bb", "", "[^a]$", "(?i)AB"}) {
    RegexArena arena;
    const auto id = ParseRegex(pattern, RegexDialect::kSearch, kUtf8, {}, &arena);
    ASSERT_TRUE(id.ok()) << pattern << id.status().ToString();
    const RE2 re2(pattern, QuietOptions());
    for (const std::string& text : texts) {
      const bool want = RE2::PartialMatch(text, re2);
      ASSERT_EQ(arena.Matches(*id, text), want) << pattern << " in '" << text << "'";
      matches += want ? 1 : 0;
    }
  }
  EXPECT_GT(matches, 300);
}

bool Finds(const char* pattern, std::string_view text) {
  RegexArena arena;
  const auto id = ParseRegex(pattern, RegexDialect::kSearch, kUtf8, {}, &arena);
  EXPECT_TRUE(id.ok()) << pattern << ": " << id.status().ToString();
  return id.ok() && arena.Matches(*id, text);
}

TEST(RegexSyntax, LookAheadIsExact) {
  EXPECT_TRUE(Finds("^(?!foo)\\w+$", "fo"));
  EXPECT_FALSE(Finds("^(?!foo)\\w+$", "food"));
  EXPECT_TRUE(Finds("^(?!foo$)\\w+$", "food"));
  EXPECT_FALSE(Finds("^(?!foo$)\\w+$", "foo"));
  EXPECT_TRUE(Finds("^(?=.*\\d)(?=.*[a-z]).{4,}$", "abc1"));
  EXPECT_FALSE(Finds("^(?=.*\\d)(?=.*[a-z]).{4,}$", "abcd"));
  EXPECT_TRUE(Finds("a(?!b)", "aba"));
  EXPECT_FALSE(Finds("a(?!b)", "abab"));
  EXPECT_TRUE(Finds("^((?!--)[a-z-]){3}$", "a-b"));
  EXPECT_FALSE(Finds("^((?!--)[a-z-]){3}$", "a--"));
}

TEST(RegexSyntax, EcmaEscapesAreThoseOfEcma262) {
  EXPECT_TRUE(Finds("^\\cC$", "\x03"));
  EXPECT_TRUE(Finds("^\\u00e9$", "\xC3\xA9"));
  EXPECT_TRUE(Finds("^\\ud83d\\uDE00$", "\xF0\x9F\x98\x80"));
  EXPECT_TRUE(Finds("^\\u{1F600}$", "\xF0\x9F\x98\x80"));
  EXPECT_TRUE(Finds("^[^]$", "\n"));
  EXPECT_FALSE(Finds("[]", "a"));
  EXPECT_FALSE(Finds("^.$", "\xE2\x80\xA8"));
  EXPECT_TRUE(Finds("^\\s$", "\xC2\xA0"));
  EXPECT_FALSE(Finds("^\\d$", "\xD9\xA3"));
  EXPECT_FALSE(Finds("^\\w$", "\xC3\xA9"));
  EXPECT_TRUE(Finds("^[\\b]$", "\b"));
  EXPECT_TRUE(Finds("^\\p{Letter}+$", "a\xC3\xA9"));
  EXPECT_TRUE(Finds("^\\p{Script=Greek}$", "\xCE\xB1"));
  EXPECT_TRUE(Finds("^\\/\\-\\0$", std::string_view("/-\0", 3)));
  EXPECT_TRUE(Finds("^a{,2}$", "a{,2}"));
  EXPECT_FALSE(Finds("^a$", "a\n"));
}

TEST(RegexSyntax, AJsonStringIsMatchedByItsCharacters) {
  RegexArena arena;
  const auto json = ParseRegex("^.{2}\"\\b\\w$", RegexDialect::kSearch,
                               CharacterEncoding::kJsonString, {}, &arena);
  ASSERT_TRUE(json.ok());
  EXPECT_TRUE(arena.Matches(*json, "\\ud83d\\ude00\xC3\xA9\\\"a"));
  EXPECT_TRUE(arena.Matches(*json, "aa\\u0022\\u0061"));
  EXPECT_FALSE(arena.Matches(*json, "aa\"a"));
  EXPECT_FALSE(arena.Matches(*json, "a\\n\\\"a"));
  EXPECT_FALSE(arena.Matches(*json, "aa\\\" "));
}

Status ErrorOf(std::string_view pattern, RegexDialect dialect = RegexDialect::kWhole) {
  RegexArena arena;
  return ParseRegex(pattern, dialect, kUtf8, {}, &arena).status();
}

TEST(RegexSyntax, ErrorsNameTheByte) {
  const std::pair<const char*, const char*> cases[] = {
      {"ab(c", "byte 2"},      {"ab)", "byte 2"},       {"a[bc", "byte 2"},
      {"*a", "byte 0"},        {"a**", "byte 2"},       {"a{3,2}", "byte 1"},
      {"[z-a]", "byte 2"},     {"\\y", "byte 1"},       {"a\\", "byte 2"},
      {"\\p{Nope}", "byte 8"}, {"\\x{110000}", "byte"}, {"(?q)", "byte 2"},
      {"(?P<a", "byte 4"},     {"[[:no:]]", "byte 3"},  {"ab\xFF", "byte 2"},
      {"a{100001}", "byte 2"}};
  for (const auto& [pattern, where] : cases) {
    const Status status = ErrorOf(pattern);
    EXPECT_FALSE(status.ok()) << pattern;
    EXPECT_NE(status.message().find(where), std::string::npos) << pattern << status.message();
  }
}

TEST(RegexSyntax, WhatIsNotRegularIsRefused) {
  for (const char* pattern : {"(a)\\1", "(?<=a)b", "(?<!a)b", "a++", "(\\ba)*", "(?=a)*"}) {
    EXPECT_EQ(ErrorOf(pattern).code(), base::Code::kUnsupported) << pattern;
  }
  EXPECT_EQ(ErrorOf("(?<n>a)\\k<n>", RegexDialect::kSearch).code(), base::Code::kUnsupported);
}

std::string Times(std::string_view part, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += part;
  return all;
}

TEST(RegexSyntax, HostilePatternsEndSoon) {
  EXPECT_FALSE(ErrorOf(Times("(", 100000) + Times(")", 100000)).ok());
  EXPECT_FALSE(ErrorOf(Times("(?=", 5000)).ok());
  EXPECT_FALSE(ErrorOf(Times("a", 2000000)).ok());
  EXPECT_TRUE(ErrorOf(Times("(", 100) + "a" + Times("{100000})", 100)).ok());
  EXPECT_TRUE(ErrorOf(Times("(a|b)?", 5000)).ok());
  EXPECT_FALSE(ErrorOf(Times("(", 100) + "^a" + Times("){16}", 100)).ok());
  EXPECT_TRUE(ErrorOf(Times("ax|[ab]c|a?b|", 20000)).ok());
  EXPECT_TRUE(ErrorOf("[" + Times("\\p{L}\\w", 1000) + "]").ok());
  EXPECT_TRUE(ErrorOf(Times("\\p{L}.\\D", 20000)).ok());
}

}  // namespace
}  // namespace thalweg::grammar
