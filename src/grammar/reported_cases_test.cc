// What users of other servers reported of structured output does not happen here: R35 to R43 of
// docs/server.md, each by its number.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/schema.h"
#include "grammar/test_recogniser.h"

namespace thalweg::grammar {
namespace {

using base::Json;

Status CompileRegex(const std::string& regex) {
  const Result<Constraint> constraint =
      ParseConstraint(Json{{"type", "regex"}, {"content", regex}});
  if (!constraint.ok()) return constraint.status();
  return CompileConstraint(*constraint, nullptr, {}).status();
}

bool Accepts(std::string_view schema, std::string_view text, const SchemaOptions& options = {}) {
  Result<Rules> rules = CompileSchema(Json::parse(schema), options, {});
  EXPECT_TRUE(rules.ok()) << rules.status().ToString();
  return rules.ok() && TestRecogniser(&rules.value(), text).Accepts();
}

TEST(ReportedCases, R35ARegexThatIsNoneIsAnError) {
  for (const char* regex : {"[a-", "(", "a{2,1}", "*a", "\\"})
    EXPECT_EQ(CompileRegex(regex).code(), base::Code::kInvalidArgument) << regex;
}

TEST(ReportedCases, R36ASchemaThatIsATextIsAnError) {
  const auto rules =
      CompileSchema(Json::parse(R"({"type": "object", "properties": {"foo": "bar"}})"), {}, {});
  ASSERT_FALSE(rules.ok());
  EXPECT_NE(rules.status().message().find("foo"), std::string::npos) << rules.status().message();
}

TEST(ReportedCases, R37StrangeAndDeepPatternsAreErrors) {
  for (const std::string& regex : {std::string("^+[a-z]$"), std::string("^{2}times$"),
                                   std::string(5000, '('), std::string(100000, '(')}) {
    EXPECT_FALSE(CompileRegex(regex).ok()) << regex.substr(0, 20);
  }
  const std::string deep = std::string(3000, '(') + "a" + std::string(3000, ')');
  const std::string schema = R"({"type": "string", "pattern": ")" + deep + "\"}";
  EXPECT_FALSE(CompileSchema(Json::parse(schema), {}, {}).ok());
}

// Lengths count characters of the text that the JSON means, however it is written.
TEST(ReportedCases, R39LengthsAreThoseOfTheDecodedText) {
  constexpr std::string_view kTwo = R"({"type": "string", "minLength": 2, "maxLength": 2})";
  for (const char* text : {R"("ab")", R"("\"\"")", R"("\n\\")", R"("\u0041b")", "\"日本\"",
                           R"("\uD83D\uDE00a")", "\"😀😀\""})
    EXPECT_TRUE(Accepts(kTwo, text)) << text;
  for (const char* text :
       {R"("a")", R"("abc")", R"("\uD83D\uDE00")", R"("\uD83Da")", R"("\uDE00a")", R"("\"")"})
    EXPECT_FALSE(Accepts(kTwo, text)) << text;
}

TEST(ReportedCases, R40WhatJsonForbidsIsNotAccepted) {
  constexpr std::string_view kText = R"({"type": "string"})";
  for (const char* text : {"\"a\tb\"", "\"a\nb\"", R"("\q")", R"("\u12")", R"("\x41")", "\"a"})
    EXPECT_FALSE(Accepts(kText, text)) << text;
  EXPECT_TRUE(Accepts(kText, R"("\t\n\u0012\/")"));
}

TEST(ReportedCases, R42OtherKeysAreAllowedUnlessStrict) {
  constexpr std::string_view kOpen =
      R"({"type": "object", "properties": {"a": {"type": "integer"}}})";
  EXPECT_TRUE(Accepts(kOpen, R"({"a": 1, "b": [2]})"));
  EXPECT_TRUE(Accepts(kOpen, R"({"b": 2})"));
  EXPECT_FALSE(Accepts(kOpen, R"({"a": 1, "b": 2})", {.strict = true}));
  EXPECT_TRUE(Accepts(kOpen, R"({"a": 1})", {.strict = true}));
}

// A schema of a million things, and one whose alternatives multiply: refused, within the time.
TEST(ReportedCases, R43HugeSchemasEndSoon) {
  Json wide{{"type", "object"}};
  for (int i = 0; i < 20000; ++i)
    wide["properties"]["p" + std::to_string(i)] = Json{{"type", "wizard"}};
  Json many = Json{{"type", "array"}, {"items", Json{{"type", "string"}}}};
  for (int i = 0; i < 12; ++i) many = Json{{"type", "array"}, {"items", many}, {"minItems", 9999}};
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_FALSE(CompileSchema(wide, {}, {}).ok());
  const auto nested = CompileSchema(many, {}, {});
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  if (!nested.ok()) {
    EXPECT_NE(nested.status().code(), base::Code::kInternal);
  }
}

}  // namespace
}  // namespace thalweg::grammar
