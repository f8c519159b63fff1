// Property: with tools, a text holds calls of these tools alone, in the form of the protocol, with
// arguments that their schemas allow; as many as tool_choice asks for.
#include "grammar/tool_calls.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/test_acceptor.h"

namespace thalweg::grammar {
namespace {

using Choice = ToolCallOptions::Choice;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "weather", "description": "d", "parameters": {
    "type": "object", "$defs": {"unit": {"enum": ["C", "F", 0]}},
    "properties": {"city": {"type": "string", "minLength": 2},
                   "days": {"type": "integer", "minimum": 1, "maximum": 9},
                   "unit": {"$ref": "#/$defs/unit"},
                   "tags": {"type": "array", "items": {"type": "string"}},
                   "note": {"type": ["string", "null"]}},
    "required": ["city"]}}},
  {"name": "now"},
  {"name": "later", "parameters": {"properties": {"s": {"type": "string", "pattern": "^a+$"},
                                                  "t": {}}}}])";

base::Json Tools(std::string_view text) { return base::ParseJson(text, "tools").value(); }

TestAcceptor Acceptor(const ToolCallOptions& options, std::string_view tools = kTools) {
  auto rules = ToolCallRules(Tools(tools), options, {});
  EXPECT_TRUE(rules.ok()) << rules.status().ToString();
  TestAcceptor acceptor(std::move(*rules));
  EXPECT_TRUE(acceptor.error().ok()) << acceptor.error().ToString();
  return acceptor;
}

std::string Parameter(const char* name, const char* is_string, const char* value) {
  return std::string("<｜DSML｜ parameter name=\"") + name + "\" string=\"" + is_string + "\">" +
         value + "</｜DSML｜ parameter>";
}

std::string Call(const char* name, const std::vector<std::string>& parameters) {
  std::string text = std::string("<｜DSML｜ invoke name=\"") + name + "\">\n";
  for (size_t i = 0; i < parameters.size(); ++i) text += (i > 0 ? "\n" : "") + parameters[i];
  return text + "\n</｜DSML｜ invoke>";
}

std::string Inside(const std::vector<std::string>& calls) {
  std::string text;
  for (const std::string& call : calls) text += call + "\n";
  return text + "</｜DSML｜ calls>";
}

std::string Block(const std::vector<std::string>& calls) {
  return "<｜DSML｜ calls>\n" + Inside(calls);
}

const std::string kCity = Parameter("city", "true", "Oslo");
const std::string kNow = Call("now", {});

TEST(ToolCalls, AutoIsTextAndPerhapsOneBlock) {
  TestAcceptor acceptor = Acceptor({});
  for (const std::string& text :
       {std::string(), std::string("hello <｜ DSML"), Block({kNow}),
        "text\n\n" + Block({kNow, kNow}), "a" + Block({Call("weather", {kCity})})}) {
    EXPECT_TRUE(acceptor.Has(text)) << text;
  }
  for (const std::string& text :
       {Block({}), Block({kNow}) + "x", std::string("<｜DSML｜"), std::string("<｜DSML｜ call>"),
        Block({Call("nope", {})}), Block({kNow}) + Block({kNow}), Block({Call("weather", {})})}) {
    EXPECT_FALSE(acceptor.Has(text)) << text;
  }
}

TEST(ToolCalls, RequiredAndNamedHoldABlock) {
  TestAcceptor required = Acceptor({.choice = Choice::kRequired});
  EXPECT_TRUE(required.Has("\n\n" + Block({kNow, Call("later", {})})));
  EXPECT_FALSE(required.Has(""));
  EXPECT_FALSE(required.Has("x" + Block({kNow})));
  TestAcceptor open = Acceptor({.choice = Choice::kRequired, .block_open = true});
  EXPECT_TRUE(open.Has(Inside({kNow})));
  EXPECT_FALSE(open.Has(Block({kNow})));
  TestAcceptor named = Acceptor({.choice = Choice::kNamed, .name = "later", .parallel = false});
  EXPECT_TRUE(named.Has(Block({Call("later", {})})));
  EXPECT_FALSE(named.Has(Block({kNow})));
  EXPECT_FALSE(named.Has(Block({Call("later", {}), Call("later", {})})));
}

bool Allows(TestAcceptor* acceptor, const char* name, const std::vector<std::string>& parameters) {
  return acceptor->Has(Inside({Call(name, parameters)}));
}

TEST(ToolCalls, ArgumentsFollowTheirSchemas) {
  TestAcceptor acceptor = Acceptor({.choice = Choice::kRequired, .block_open = true});
  const auto weather = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {kCity};
    all.insert(all.end(), more.begin(), more.end());
    return Allows(&acceptor, "weather", all);
  };
  EXPECT_TRUE(weather({}));
  EXPECT_TRUE(
      weather({Parameter("days", "false", "3"), Parameter("unit", "true", "C"),
               Parameter("tags", "false", "[\"a\", \"b\"]"), Parameter("note", "false", "null")}));
  EXPECT_TRUE(weather({Parameter("unit", "false", "0")}));
  EXPECT_TRUE(weather({Parameter("note", "true", "any \"text\"\n<b> </｜ é")}));
  EXPECT_FALSE(weather({Parameter("days", "false", "10")}));
  EXPECT_FALSE(weather({Parameter("days", "true", "3")}));
  EXPECT_FALSE(weather({Parameter("unit", "true", "K")}));
  EXPECT_FALSE(weather({Parameter("tags", "false", "[\"a\",\"b\"]")}));
  EXPECT_FALSE(weather({Parameter("note", "true", "x</｜DSML｜ y")}));
  EXPECT_FALSE(weather({Parameter("other", "true", "x")}));
  EXPECT_FALSE(weather({Parameter("note", "false", "null"), Parameter("days", "false", "3")}));
  EXPECT_FALSE(Allows(&acceptor, "weather", {Parameter("city", "true", "O")}));
  EXPECT_TRUE(Allows(&acceptor, "later", {Parameter("s", "true", "aa")}));
  EXPECT_TRUE(Allows(&acceptor, "later", {Parameter("t", "false", "{\"x\": 1}")}));
  EXPECT_TRUE(Allows(&acceptor, "later", {Parameter("t", "true", "x")}));
  EXPECT_FALSE(Allows(&acceptor, "later", {Parameter("s", "true", "b")}));
  EXPECT_FALSE(acceptor.Has(Inside({"<｜DSML｜ invoke name=\"now\">\n</｜DSML｜ invoke>"})));
}

TEST(ToolCalls, StringKeywordsCombine) {
  constexpr const char* kCombined = R"([{"name": "f", "parameters": {"properties": {
      "a": {"type": "string", "oneOf": [{"pattern": "x"}, {"pattern": "y"}]},
      "b": {"type": "string", "not": {"enum": ["no"]}, "format": "hostname"},
      "c": {"type": "string", "if": {"pattern": "^a"}, "then": {"maxLength": 1}}}}}])";
  TestAcceptor acceptor = Acceptor({.choice = Choice::kRequired, .block_open = true}, kCombined);
  const auto has = [&](const char* name, const char* value) {
    return Allows(&acceptor, "f", {Parameter(name, "true", value)});
  };
  EXPECT_TRUE(has("a", "ax") && has("a", "y") && has("b", "nob") && has("c", "a") &&
              has("c", "bb"));
  EXPECT_FALSE(has("a", "xy") || has("a", "z") || has("b", "no") || has("b", "-") ||
               has("c", "ab"));
}

TEST(ToolCalls, ErrorsNameToolAndParameter) {
  const std::pair<const char*, const char*> all[] = {
      {"{}", "tools"},
      {"[]", "tool_choice"},
      {R"([{"nam": "x"}])", "name"},
      {R"([{"name": "a\"b"}])", "tag"},
      {R"([{"name": "a"}, {"name": "a"}])", "two tools"},
      {R"([{"name": "a", "parameters": {"allOf": []}}])", "tool a: parameters.allOf"},
      {R"([{"name": "a", "parameters": {"additionalProperties": {}}}])", "additionalProperties"},
      {R"([{"name": "a", "parameters": {"properties":
           {"p": {"type": "string", "pattern": "("}}}}])",
       "parameter p: pattern"},
      {R"([{"name": "a", "parameters": {"properties": {"p": {"$ref": "#"}}}}])",
       "parameter p: $ref"},
      {R"([{"name": "a", "parameters": {"$defs": {"x": {"$ref": "#/$defs/x"}},
           "properties": {"p": {"$ref": "#/$defs/x"}}}}])",
       "circle"},
  };
  for (const auto& [tools, what] : all) {
    const Status status = ToolCallRules(Tools(tools), {}, {}).status();
    EXPECT_FALSE(status.ok()) << tools;
    EXPECT_NE(status.message().find(what), std::string::npos) << tools << status.ToString();
  }
}

}  // namespace
}  // namespace thalweg::grammar
