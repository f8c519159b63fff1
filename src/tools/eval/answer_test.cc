// An answer is right exactly when it equals an expected one under the item's own rule.
#include "tools/eval/answer.h"

#include <gtest/gtest.h>

namespace thalweg::tools::eval {
namespace {

std::string Shown(std::string_view text, const AnswerRule& rule) {
  const auto comparable = Comparable(text, rule);
  return comparable.ok() ? *comparable : "error: " + comparable.status().message();
}

TEST(EvalAnswer, LastNumbersByTheirValue) {
  const AnswerRule rule{.extract = Extract::kNumber};
  const std::pair<const char*, const char*> cases[] = {
      {"The answer is 1346.", "1346"},
      {"1 + 9 = 10", "10"},
      {"1,346.50 dollars", "1346.5"},
      {"12,345,678", "12345678"},
      {"items 3, 4,5", "5"},
      {"1,2345", "2345"},
      {"-7", "-7"},
      {"x = -0.0", "0"},
      {"10-7", "7"},
      {"(-7)", "-7"},
      {"007", "7"},
      {".5", "5"},
      {"0.500", "0.5"},
      {"version 1.2.3", "2.3"},
      {"none", "error: no number in it"},
      {"", "error: no number in it"},
  };
  for (const auto& [text, number] : cases) EXPECT_EQ(Shown(text, rule), number) << text;
}

TEST(EvalAnswer, NormalisationDoesWhatItsNamesSay) {
  AnswerRule rule;
  EXPECT_EQ(Shown("  The  Cat,\n sat. ", rule), "The Cat, sat.");
  ASSERT_TRUE(SetNormalisation({}, &rule).ok());
  EXPECT_EQ(Shown(" The  Cat ", rule), " The  Cat ");
  ASSERT_TRUE(SetNormalisation({"case", "punctuation", "articles", "space"}, &rule).ok());
  EXPECT_EQ(Shown(" The  Cat, an A-b ", rule), "cat ab");
  EXPECT_EQ(Shown("\xc3\x84 The", rule), "\xc3\x84") << "only ASCII letters change";
  const Status status = SetNormalisation({"caes"}, &rule);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("caes"), std::string::npos);
}

TEST(EvalAnswer, LinesAndJson) {
  EXPECT_EQ(Shown("\n\n a b \nc", {.extract = Extract::kLine}), "a b");
  const AnswerRule json{.extract = Extract::kJson};
  EXPECT_EQ(Shown(R"({"b": 1.0, "a": [2, "x"]})", json), Shown(R"({"a":[2.0,"x"],"b":1})", json));
  EXPECT_NE(Shown(R"({"a": 1})", json), Shown(R"({"a": "1"})", json));
  EXPECT_NE(Shown(R"([1, 2])", json), Shown(R"([2, 1])", json));
  EXPECT_FALSE(IsRight("{", {"{}"}, json));
}

TEST(EvalAnswer, AnyOfTheExpectedAndEveryMatch) {
  EXPECT_TRUE(IsRight("b", {"a", " b "}, {}));
  EXPECT_FALSE(IsRight("b c", {"a", "b"}, {}));
  EXPECT_TRUE(IsRight("b c", {"b"}, {.match = Match::kPrefix}));
  EXPECT_FALSE(IsRight("a b", {"b"}, {.match = Match::kPrefix}));
  EXPECT_TRUE(IsRight("a b c", {"b"}, {.match = Match::kContains}));
  EXPECT_FALSE(IsRight("none", {"1"}, {.extract = Extract::kNumber}));
}

}  // namespace
}  // namespace thalweg::tools::eval
