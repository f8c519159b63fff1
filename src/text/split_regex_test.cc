// The automaton finds the matches that PCRE2, a backtracking engine, finds, on characters assigned
// in the Unicode version of both; patterns it does not understand are refused by name; and no
// pattern makes it slower than linear.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/split_regex.h"

#include <gtest/gtest.h>
#include <pcre2.h>
#include <unicode/uchar.h>

#include <utility>

#include "text/regex_program.h"
#include "text/test_tokenizer.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

using Spans = std::vector<std::pair<size_t, size_t>>;

// PCRE2's \s with UCP has U+180E, which is no white space in Unicode.
constexpr uint32_t kMongolianVowelSeparator = 0x180E;

Spans ByAutomaton(const SplitRegex& regex, std::string_view text) {
  Spans spans;
  SplitScanner scanner(regex, text);
  for (size_t start = 0, end = 0; scanner.Next(start, end);) spans.emplace_back(start, end);
  return spans;
}

class Pcre {
 public:
  explicit Pcre(const std::string& pattern) {
    int error = 0;
    size_t offset = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    EXPECT_NE(code_, nullptr) << pattern;
    match_ = pcre2_match_data_create_from_pattern(code_, nullptr);
  }
  Pcre(const Pcre&) = delete;
  Pcre& operator=(const Pcre&) = delete;
  ~Pcre() {
    pcre2_match_data_free(match_);
    pcre2_code_free(code_);
  }

  // `text` must be UTF-8: checking it again for each match would take quadratic time.
  Spans Find(std::string_view text) {
    Spans spans;
    size_t pos = 0;
    while (pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), pos,
                       PCRE2_NO_UTF_CHECK, match_, nullptr) > 0) {
      const size_t* const ends = pcre2_get_ovector_pointer(match_);
      spans.emplace_back(ends[0], ends[1]);
      pos = ends[1];
    }
    return spans;
  }

 private:
  pcre2_code* code_ = nullptr;
  pcre2_match_data* match_ = nullptr;
};

const std::vector<std::string> kPatterns = {
    R"(\p{N}{1,3})",
    "[一-龥぀-ゟ゠-ヿ]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s+)",
    R"(a|ab|abc)",
    R"((?:ab?)+c|a)",
    R"(a*?b|a{2,4}?|a)",
    R"((?:a|b)*(?:ab){2}|a+(?=b)|b)",
    R"(\d+\.?\d*|[^a-c\s]+|.)",
    R"(x(?:(?:a|aa)b?){1,3}|(?i:AbC))",
};

bool Assigned(uint32_t c) {
  // PCRE2 10.42 has the tables of Unicode 14, which this ICU has too and more.
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] > 0 && age[0] <= 14 && c != kMongolianVowelSeparator &&
         !(c >= 0xD800 && c <= 0xDFFF);
}

std::string RandomText(Dice& dice) {
  static constexpr std::string_view kCommon = "aAbBcC xX's\n\r\t 019.,-([{<'tTrReE";
  std::string text;
  for (uint32_t n = dice.Below(25); n > 0; --n) {
    uint32_t c = static_cast<uint8_t>(kCommon[dice.Below(kCommon.size())]);
    const uint32_t kind = dice.Below(6);
    if (kind == 0) c = dice.Below(0x3100);
    if (kind == 1) c = dice.Below(0x110000);
    if (kind == 2) c = 0x4E00 + dice.Below(0x5300);
    if (Assigned(c)) AppendUtf8(c, text);
  }
  return text;
}

TEST(SplitRegex, FindsWhatPcreFinds) {
  for (const std::string& pattern : kPatterns) {
    const Result<SplitRegex> regex = SplitRegex::Compile(pattern);
    ASSERT_TRUE(regex.ok()) << pattern << ": " << regex.status().ToString();
    Pcre pcre(pattern);
    Dice dice(3);
    for (int i = 0; i < 4000; ++i) {
      const std::string text = RandomText(dice);
      ASSERT_EQ(ByAutomaton(*regex, text), pcre.Find(text)) << pattern << "\n" << text;
    }
  }
}

TEST(SplitRegex, EveryCharacterIsClassedLikePcre) {
  for (const char* pattern : {R"(\s)", R"(\p{L})", R"([\p{P}\p{S}])", R"(\p{N})", R"(\p{M})",
                              R"([^\r\n\p{L}\p{P}\p{S}])", R"(\d)", R"((?i:[k-s]))"}) {
    const SplitRegex regex = SplitRegex::Compile(pattern).value();
    Pcre pcre(pattern);
    std::string text;
    for (uint32_t c = 0; c < 0x110000; ++c) {
      if (Assigned(c)) AppendUtf8(c, text);
    }
    EXPECT_EQ(ByAutomaton(regex, text), pcre.Find(text)) << pattern;
  }
}

TEST(SplitRegex, WhiteSpaceIsUnicodes) {
  const SplitRegex regex = SplitRegex::Compile(R"(\s+)").value();
  EXPECT_EQ(ByAutomaton(regex, "\u0085\u00A0\u2028\u3000"), (Spans{{0, 10}}));
  EXPECT_TRUE(ByAutomaton(regex, "\uFEFF\u180E\u200B").empty());
}

TEST(SplitRegex, RefusesWhatItDoesNotUnderstand) {
  for (const char* pattern : {"a++",
                              "a?+",
                              "^a",
                              "a$",
                              R"(\bword)",
                              R"((?<=a)b)",
                              R"((a)\1)",
                              R"((?!ab)c)",
                              "[a-",
                              "[[:alpha:]]",
                              "[a&&b]",
                              "[]",
                              "(a",
                              "a)",
                              "a{3,1}",
                              "a{1001}",
                              "a*",
                              "",
                              "a|",
                              "(a*)+b",
                              R"(\p{Nonsense})",
                              R"(\h)",
                              R"(\x41)",
                              "*a",
                              R"(\)",
                              "((((((((((((((((((((((((((((((((((((((("
                              "(((((((((((((((((((((((a",
                              "(?:(?:a{1000}){1000}){1000}"}) {
    EXPECT_FALSE(SplitRegex::Compile(pattern).ok()) << pattern;
  }
}

TEST(SplitRegex, EscapedLiteralsMatchThemselves) {
  const std::string literal = R"(a.b*c[d]e\f{2}|^$-&(g)+?)";
  const SplitRegex regex = SplitRegex::Compile(EscapeRegex(literal)).value();
  EXPECT_EQ(ByAutomaton(regex, "x" + literal + "y"), (Spans{{1, 1 + literal.size()}}));
}

// Each of these makes a scanner without memory look at the whole rest from every position.
TEST(SplitRegex, HostilePatternsStayLinear) {
  const std::string text = std::string(500'000, 'a') + "c";
  for (const char* pattern : {"a*b|a", "(?:a|aa)+b", "a+b", "(?:a|aa){1,30}b|aa"}) {
    const SplitRegex regex = SplitRegex::Compile(pattern).value();
    const double start = CpuSeconds();
    ByAutomaton(regex, text);
    EXPECT_LT(CpuSeconds() - start, 10.0) << pattern;
  }
}

TEST(SplitRegex, RememberingChangesNoMatch) {
  const SplitRegex regex = SplitRegex::Compile("a*b|a|ca*d|c").value();
  Pcre pcre("a*b|a|ca*d|c");
  std::string text;
  Dice dice(4);
  while (text.size() < 20'000) {
    text += std::string(dice.Below(3000), 'a') + "bcdx"[dice.Below(4)] + "c";
  }
  EXPECT_EQ(ByAutomaton(regex, text), pcre.Find(text));
}

}  // namespace
}  // namespace thalweg::text
