// Property: text is free until a trigger, follows the grammar of a tag from there to its end, and
// is free again; in each of the notations that are taken, with triggers of text and of tokens. What
// is not understood is an error that names its path.
#include "grammar/structure.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/constraint.h"
#include "grammar/test_acceptor.h"

namespace thalweg::grammar {
namespace {

Result<Rules> Compile(std::string_view structure) {
  Constraint constraint;
  constraint.kind = ConstraintKind::kStructural;
  constraint.content = structure;
  return CompileConstraint(constraint, &TestTokenizer(), {});
}

void Expect(std::string_view structure, const std::vector<const char*>& in,
            const std::vector<const char*>& out) {
  auto rules = Compile(structure);
  ASSERT_TRUE(rules.ok()) << structure << "\n" << rules.status().ToString();
  TestAcceptor acceptor(std::move(*rules));
  ASSERT_TRUE(acceptor.error().ok()) << acceptor.error().ToString();
  for (const char* text : in) EXPECT_TRUE(acceptor.Has(text)) << structure << "\n" << text;
  for (const char* text : out) EXPECT_FALSE(acceptor.Has(text)) << structure << "\n" << text;
}

constexpr const char* kSchema = R"({"type": "integer"})";

TEST(Structure, TextIsFreeButForWhatFollowsATrigger) {
  Expect(R"({"structures": [{"begin": "<f=a>", "schema": {"type": "integer"}, "end": "</f>"},
                            {"begin": "<f=b>", "schema": {"type": "boolean"}, "end": "</f>"}],
             "triggers": ["<f="]})",
         {"", "free < text <f", "<f=a>12</f>", "x<f=b>true</f>y<f=a>-1</f>", "<<f=a>1</f><f"},
         {"<f=", "<f=c>1</f>", "<f=a>true</f>", "x<f=a>1</f"});
}

TEST(Structure, TheFormatOfXgrammarIsTaken) {
  const std::string tags = std::string(R"("tags": [
      {"begin": "<t>", "content": {"type": "json_schema", "json_schema": )") +
                           kSchema + R"(}, "end": "</t>"},
      {"type": "tag", "begin": "<u>", "content": {"type": "any_text"}, "end": ["</u>", "!"]}])";
  const std::string head = R"({"type": "structural_tag", "format": {"type": "triggered_tags",
      "triggers": ["<t>", "<u>"], )";
  Expect(head + tags + "}}", {"", "a<t>1</t>b<u>x</u>c", "<u>a!<t>1</t>"}, {"<t>x</t>", "<u>a</u"});
  Expect(head + tags + R"(, "at_least_one": true}})", {"a<t>1</t>b"}, {"", "ab"});
  Expect(head + tags + R"(, "stop_after_first": true}})", {"", "a<t>1</t>"}, {"a<t>1</t>b"});
  Expect(head + tags + R"(, "at_least_one": true, "stop_after_first": true}})", {"a<u>b!"},
         {"", "a", "<t>1</t><t>1</t>"});
  Expect(head + tags + R"(, "excludes": ["no"]}})", {"n<t>1</t>o"}, {"no", "<t>1</t>no"});
}

TEST(Structure, AnOpenEndOfFreeTextIsItsFirstOne) {
  Expect(R"({"type": "tag", "begin": "[", "content": {"type": "any_text"}, "end": "aab"})",
         {"[aab", "[aaab", "[xaab"}, {"[", "[aa", "[aabaab", "[aabx"});
}

TEST(Structure, ATriggerIsSeenWhereItFirstEnds) {
  Expect(R"({"triggers": [{"begin": "aa", "content": {"type": "regex", "pattern": "b"},
                           "end": "c"}]})",
         {"", "a", "xaabc", "xaabca", "ca"}, {"aa", "aaabc", "xaabcaa"});
}

TEST(Structure, SpecialTokensAreTriggers) {
  const char* const structure = R"({"triggers": [
      {"begin": "<｜call｜>", "content": {"type": "json_object"}, "end": "<｜call｜>"}],
      "at_least_one": true})";
  Expect(structure, {"a<｜call｜>{\"x\": 1}<｜call｜>b"},
         {"a", "a<｜call｜>{}", "<｜call｜>1<｜call｜>", "<｜call｜>{}<｜call｜><｜call｜>"});
  // Spelled by other tokens it is only text.
  auto rules = Compile(structure);
  const auto vocabulary = Vocabulary::Of(TestTokenizer(), {TestTokenizer().vocab_size(), {}});
  Matcher matcher(Grammar::Create(std::move(*rules), vocabulary).value());
  for (const int32_t token : TestTokenizer().Encode("<｜call｜>", text::Specials::kAsText)) {
    ASSERT_TRUE(matcher.Accept(token).value());
  }
  EXPECT_FALSE(matcher.can_end());
}

TEST(Structure, FormatsCombine) {
  Expect(R"({"type": "sequence", "elements": [
             {"type": "const_string", "value": "<a>"},
             {"type": "or", "elements": [
               {"type": "regex", "pattern": "[0-9]+"},
               {"type": "grammar", "grammar": "root ::= \"x\" root | \"y\""}]},
             {"type": "optional", "content": {"type": "const_string", "value": "?"}},
             {"type": "star", "content": {"type": "const_string", "value": "s"}},
             {"type": "plus", "content": {"type": "ebnf", "content": "start: \"p\""}},
             {"type": "token", "token": "<｜call｜>"}]})",
         {"<a>12p<｜call｜>", "<a>xxy?sspp<｜call｜>"},
         {"<a>p<｜call｜>", "<a>1p", "<a>1s<｜call｜>"});
  Expect(R"x({"type": "tags_with_separator", "separator": ", ", "tags": [
             {"begin": "(", "content": {"type": "regex", "pattern": "a*"}, "end": ")"}]})x",
         {"", "(a)", "(), (aa)"}, {"(),()", "(), "});
}

TEST(Structure, ToolCallsAreAFormat) {
  const char* const structure = R"({"type": "tool_calls", "tools": [
      {"type": "function", "function": {"name": "f"}}, {"name": "g"}],
      "tool_choice": {"type": "function", "function": {"name": "f"}}})";
  const std::string call =
      "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n\n</｜DSML｜ invoke>\n"
      "</｜DSML｜ calls>";
  std::string other = call;
  other[other.find("\"f\"") + 1] = 'g';
  Expect(structure, {call.c_str()}, {"", "text", other.c_str()});
  EXPECT_FALSE(Compile(R"({"type": "tool_calls", "tools": [], "tool_choice": "some"})").ok());
}

TEST(Structure, ErrorsNameThePath) {
  const std::pair<const char*, const char*> all[] = {
      {"[]", "structure"},
      {R"({"type": "nope"})", "no type \"nope\""},
      {R"({"type": "regex", "pattern": "a", "flags": "i"})", "\"flags\" is not understood"},
      {R"({"type": "sequence", "elements": [{"type": "regex"}]})", "structure.elements[0]"},
      {R"({"type": "or", "elements": []})", "\"elements\""},
      {R"({"type": "regex", "pattern": "("})", "byte 0"},
      {R"({"triggers": [{"begin": "", "content": {"type": "any_text"}, "end": "x"}]})", "trigger"},
      {R"({"triggers": [{"begin": "a", "end": "x"}]})", "\"content\" is missing"},
      {R"({"type": "triggered_tags", "triggers": ["b"],
           "tags": [{"begin": "a", "content": {"type": "any_text"}, "end": ""}]})",
       "starts with none of the triggers"},
      {R"({"structures": [{"begin": "a", "end": "b"}], "triggers": ["a"]})",
       "\"schema\" is missing"},
      {R"({"type": "token", "token": "<nope>"})", "no token <nope>"},
      {R"({"triggers": [], "at_least_one": 1})", "\"at_least_one\""},
      {R"({"type": "json_schema", "json_schema": {"type": "nope"}})", "type"},
  };
  for (const auto& [structure, what] : all) {
    const Status status = Compile(structure).status();
    EXPECT_FALSE(status.ok()) << structure;
    EXPECT_NE(status.message().find(what), std::string::npos) << structure << status.ToString();
  }
}

TEST(Structure, HostileStructuresEndSoon) {
  std::string deep;
  std::string close;
  for (int i = 0; i < 120; ++i) {
    deep += R"({"type": "sequence", "elements": [)";
    close += "]}";
  }
  EXPECT_FALSE(Compile(deep + R"({"type": "any_text"})" + close + "x").ok());
  std::string many = R"({"triggers": [)";
  for (int i = 0; i < 300; ++i) {
    many += std::string(i > 0 ? "," : "") + R"({"begin": "<tool)" + std::to_string(i) +
            R"(>", "content": {"type": "json_object"}, "end": "</tool>"})";
  }
  EXPECT_TRUE(Compile(many + "]}").ok());
}

}  // namespace
}  // namespace thalweg::grammar
