// Property: a grammar in either notation accepts the texts that its notation says it does, and what
// is malformed or not understood is an error with line and column. Texts are judged by the
// recogniser of the tests, which works from the rules alone.
#include "grammar/ebnf.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/test_recogniser.h"

namespace thalweg::grammar {
namespace {

struct Example {
  const char* grammar;
  std::vector<const char*> in;
  std::vector<const char*> out;
};

void Expect(const Example& example) {
  auto rules = ParseEbnf(example.grammar, {});
  ASSERT_TRUE(rules.ok()) << example.grammar << "\n" << rules.status().ToString();
  for (const char* text : example.in) {
    EXPECT_TRUE(TestRecogniser(&*rules, text).Accepts()) << example.grammar << "\n" << text;
  }
  for (const char* text : example.out) {
    EXPECT_FALSE(TestRecogniser(&*rules, text).Accepts()) << example.grammar << "\n" << text;
  }
}

TEST(Ebnf, TheNotationOfGbnf) {
  const Example examples[] = {
      {"root ::= \"a\" | \"b\"", {"a", "b"}, {"", "c", "ab"}},
      {"root ::= \"a\"* \"b\"+ 'c'?", {"b", "aabbc"}, {"", "a", "bcc"}},
      {"root ::= [a-c]{2} [^a-c]{1,2} [x]{0,} \"y\"{2,}", {"abdyy", "abddxxyyy"}, {"abdy", "ayy"}},
      {"first ::= \"x\"\nroot ::= first first # a comment\n", {"xx"}, {"x"}},
      {"root ::= (\"a\" |\n  \"b\") \"c\"\n  | \"d\"\nother ::= \"e\"", {"ac", "bc", "d"}, {"e"}},
      {"root ::= \"\\n\\x41\\u00e9\\U0001F600\\\"\\\\\"",
       {"\nA\xC3\xA9\xF0\x9F\x98\x80\"\\"},
       {"n"}},
      {"root ::= #x41 [#x42-#x44] . /* any */ // end\n", {"ABx", "AC\xC3\xA9"}, {"AE", "AA!"}},
      {"root ::= [\\]\\-\\\\\\d]+", {"]-\\7"}, {"a"}},
      {"root ::= [^\\n]* \"\\n\"", {"\n", "ab\n"}, {"", "a\n\n"}},
      {"root ::= \"\" | \"a\" root \"b\"", {"", "ab", "aabb"}, {"a", "aab", "ba"}},
      {"root ::= root \"a\" | \"b\"", {"b", "baa"}, {"", "a", "ab"}},
      {"root ::= x y\nx ::= \"a\" y | \"a\"\ny ::= \"b\" x | \"b\"",
       {"ab", "abab",
        "aba"
        "b"},
       {"a"}},
      {"root ::= [a-z]+ - \"if\"", {"i", "iff", "of"}, {"if", "IF"}},
      {"root ::= (\"a\" root?){2,3} \"!\"", {"aa!", "aaa!", "aaa!a!"}, {"a!", "aaaa"}},
      {"expr ::= term (\"+\" term)*\nterm ::= \"(\" expr \")\" | [0-9]+",
       {"1+(2+3)", "12"},
       {"1+"}},
  };
  for (const Example& example : examples) Expect(example);
}

TEST(Ebnf, TheNotationOfLark) {
  const Example examples[] = {
      {"start: \"a\" | \"b\"", {"a", "b"}, {"", "c"}},
      {"start: A b\nA: \"a\"i\nb: /[bc]+/", {"ab", "Acb"}, {"a", "abd"}},
      {"start: \"a\"~2 \"b\" ~ 1..2 [\"c\"] (\"d\" | \"e\")?", {"aab", "aabbce"}, {"ab", "aabbb"}},
      {"?start: x -> alias\n     | y\n!x: \"x\"\n_y.2: \"q\"\ny: _y // comment\n",
       {"x", "q"},
       {"y"}},
      {"start: \"0\"..\"9\"+ # comment\n", {"0", "42"}, {"", "a"}},
      {"start: /a\\/b/ /x/i /./s", {"a/bX\n", "a/bxy"}, {"a/bx"}},
      {"start: \"(\" start \")\" |", {"", "()", "(())"}, {"(", ")("}},
      {"start: item (\",\" item)*\nitem: NUMBER\n%import common.NUMBER\n%import common.WS\n%ignore "
       "WS",
       {"1", "1 , 2.5e3", " 1,2 "},
       {"", "1 2", "1 . 5"}},
      {"start: W W\nW: /[a-z]+/\n%ignore \" \"\n%ignore /#[^\\n]*/",
       {"a b", "ab",
        " a #x"
        "b",
        "a b#c"},
       {"a"}},
      {"%import common (INT, CNAME)\n%import common.ESCAPED_STRING -> S\nstart: INT CNAME S",
       {"1a_1\"x\\\"y\""},
       {"1a\"x\"y\"", "a1\"\""}},
      {"start: a\na: b?\n?b: \"x\" a", {"", "xx"}, {"y"}},
  };
  for (const Example& example : examples) Expect(example);
}

TEST(Ebnf, WhatDoesNotCallItselfIsOneExpression) {
  auto rules = ParseEbnf("root ::= a b*\na ::= [0-9] | b\nb ::= \"x\" \"y\"", {});
  ASSERT_TRUE(rules.ok());
  EXPECT_EQ(rules->rules().size(), 1u);
  EXPECT_EQ(rules->rules()[0].alternatives[0][0].kind, Symbol::Kind::kRegex);
}

struct Bad {
  const char* grammar;
  const char* where;
  base::Code code = base::Code::kInvalidArgument;
};

TEST(Ebnf, ErrorsNameLineAndColumn) {
  const auto unsupported = base::Code::kUnsupported;
  const Bad all[] = {
      {"", "line 1, column 1"},
      {"root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1"},
      {"root ::= \"a\"\n  other", "line 2, column 3"},
      {"root ::= \"a\n\"", "line 1, column 10"},
      {"root ::= (\"a\"", "line 1, column 10"},
      {"root ::= \"a\")", "line 1, column 13"},
      {"root ::= [a", "line 1, column 10"},
      {"root ::= [b-a]", "line 1, column 11"},
      {"root ::= \"\\q\"", "line 1, column 12"},
      {"root ::= \"a\"{3,2}", "line 1, column 14"},
      {"root ::= \"a\"{9999999}", "line 1, column 14"},
      {"root ::= *", "line 1, column 10"},
      {"root ::= /* \"a\"", "line 1, column 10"},
      {"root ::= \"\\ud800\"", "line 1, column 13"},
      {"root ::= <think>", "line 1, column 10", unsupported},
      {"root ::= (=\"a\")", "line 1, column 10", unsupported},
      {"root ::= x - \"a\"\nx ::= \"a\" x | \"b\"", "line 1, column 10", unsupported},
      {"start: a{b}\n", "line 1, column 8", unsupported},
      {"a{x}: x\n", "line 1"},
      {"start: A\nA: a\na: \"x\"", "line 2, column 4"},
      {"start: A\nA: \"x\" A", "line 2, column 1"},
      {"start: A\nA.2: \"x\"", "line 2, column 1", unsupported},
      {"start: /a(/", "line 1, column 8"},
      {"start: /a(?!b)/", "line 1, column 8", unsupported},
      {"start: /a/x", "line 1, column 11", unsupported},
      {"start: \"a\"\n%declare B", "line 2, column 1", unsupported},
      {"start: \"a\"\n%import python.B", "line 2, column 1", unsupported},
      {"start: \"a\"\n%import common.B", "line 2, column 1"},
      {"start: \"b\"..\"a\"", "line 1, column 8"},
      {"start: \"a\"\n%ignore b\nb: \"x\"", "line 2"},
  };
  for (const Bad& bad : all) {
    const Status status = ParseEbnf(bad.grammar, {}).status();
    EXPECT_EQ(status.code(), bad.code) << bad.grammar << "\n" << status.ToString();
    EXPECT_NE(status.message().find(bad.where), std::string::npos) << bad.grammar << "\n"
                                                                   << status.ToString();
  }
}

std::string Times(std::string_view part, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += part;
  return all;
}

TEST(Ebnf, HostileGrammarsEndSoon) {
  EXPECT_FALSE(ParseEbnf("root ::= " + Times("(", 100000), {}).ok());
  EXPECT_FALSE(ParseEbnf("root ::= \"a\"" + Times("*", 100000), {}).ok());
  EXPECT_FALSE(ParseEbnf(Times("a", 2000000), {}).ok());
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 60; ++i) {
    const std::string next = " r" + std::to_string(i + 1);
    doubling += "r" + std::to_string(i) + " ::=" + next + next + "\n";
  }
  const Status status = ParseEbnf(doubling + "r60 ::= \"ab\"", {}).status();
  EXPECT_EQ(status.code(), base::Code::kOutOfRange) << status.ToString();
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 20000; ++i) {
    chain += "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + "\n";
  }
  EXPECT_TRUE(ParseEbnf(chain + "r20000 ::= \"x\"", {}).ok());
  EXPECT_TRUE(ParseEbnf(chain + "r20000 ::= \"x\" r0 | \"y\"", {}).ok());
  EXPECT_TRUE(ParseEbnf("root ::= \"x\" (\"a\" root){99999} | \"b\"", {}).ok());
}

}  // namespace
}  // namespace thalweg::grammar
