// Property: the rules of a schema have the text of every value that is valid (as far as
// docs/grammar_schema.md promises) and of no other, keyword by keyword; what cannot be enforced is
// an error that names keyword and place.
#include "grammar/schema.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/test_recogniser.h"

namespace thalweg::grammar {
namespace {

using Whitespace = SchemaOptions::Whitespace;

base::Json Parsed(std::string_view text) { return base::Json::parse(text); }

std::string ErrorOf(std::string_view schema, const SchemaOptions& options = {}) {
  const Result<Rules> rules = CompileSchema(Parsed(schema), options, {});
  return rules.ok() ? "" : rules.status().ToString();
}

struct Case {
  std::string_view schema;
  std::vector<std::string_view> accepted;
  std::vector<std::string_view> refused;
  SchemaOptions options = {};
};

void Check(const Case& one) {
  SCOPED_TRACE(one.schema);
  Result<Rules> rules = CompileSchema(Parsed(one.schema), one.options, {});
  ASSERT_TRUE(rules.ok()) << rules.status().ToString();
  for (const std::string_view text : one.accepted) {
    EXPECT_TRUE(TestRecogniser(&rules.value(), text).Accepts()) << text;
  }
  for (const std::string_view text : one.refused) {
    EXPECT_FALSE(TestRecogniser(&rules.value(), text).Accepts()) << text;
  }
}

TEST(Schema, AnyValue) {
  for (const std::string_view schema : {"{}", "true", R"({"title": "x", "unknown": 1})"}) {
    Check({schema,
           {"null", "true", "-1.5e3", R"("a\n\u00e9")", "[]", "[1, [2]]", R"({"a":{"b": []}})"},
           {"", "nul", "01", "+1", "'a'", "[1,]", R"({"a"})", "[1 2]", "{1: 2}", "1 2"}});
  }
  Check({"false", {}, {"null", "0", "{}", "[]", "\"\""}});
}

TEST(Schema, Types) {
  Check({R"({"type": "integer"})", {"0", "-12", "1.0", "3.00"}, {"1.5", "\"1\"", "1.", "true"}});
  Check({R"({"type": "number"})", {"0", "-12.25", "1e5"}, {".5", "1.", "NaN", "-"}});
  Check({R"({"type": ["null", "boolean"]})", {"null", "true", "false"}, {"0", "\"\"", "{}"}});
  Check({R"({"type": "string"})",
         {"\"\"", "\"\xC3\xA9\""},
         {"\"", "\"\t\"", "\"\\q\"", "\"\\u12\""}});
}

TEST(Schema, StringsAreTextNotBytes) {
  // One character, however it is written; lone surrogates are none.
  Check({R"({"type": "string", "minLength": 1, "maxLength": 1})",
         {"\"a\"", R"("\n")", R"("\u0061")", R"("\ud83d\ude00")", "\"\xF0\x9F\x98\x80\""},
         {"\"\"", "\"ab\"", R"("\ud83d")", R"("\u0061b")"}});
  Check({R"({"type": "string", "minLength": 3, "maxLength": 2})", {}, {"\"aa\"", "\"aaa\""}});
}

TEST(Schema, Patterns) {
  Check(
      {R"({"type": "string", "pattern": "^a+$"})", {"\"a\"", R"("\u0061a")"}, {"\"\"", "\"ab\""}});
  Check({R"({"type": "string", "pattern": "b"})", {"\"abc\"", "\"b\""}, {"\"ac\""}});
  Check({R"({"type": "string", "pattern": "^\"$"})", {R"("\"")", R"("\u0022")"}, {R"("""))"}});
  Check({R"({"type": "string", "pattern": "^a", "maxLength": 2, "format": "hostname"})",
         {"\"ab\"", "\"a\""},
         {"\"abc\"", "\"b\"", "\"a-\""}});
}

TEST(Schema, Numbers) {
  Check({R"({"type": "integer", "minimum": 3, "maximum": 12})",
         {"3", "12", "7.0"},
         {"2", "13", "3.5"}});
  Check({R"({"exclusiveMinimum": 0, "maximum": 1})",
         {"0.001", "1", "\"text\""},
         {"0", "-1", "1.01"}});
  Check({R"({"type": "number", "multipleOf": 0.25})", {"0.5", "-1.75", "2"}, {"0.3", "0.125"}});
  // Draft 4 spells exclusive bounds as flags.
  Check({R"({"type": "number", "minimum": 1, "exclusiveMinimum": true})", {"1.5"}, {"1", "0"}});
  Check({R"({"type": "integer", "format": "int32"})", {"2147483647"}, {"2147483648"}});
}

TEST(Schema, ConstantsInEverySpelling) {
  Check({R"({"const": 1})", {"1", "1.0", "1.00"}, {"1.01", "\"1\"", "true"}});
  Check({R"({"const": "a"})", {"\"a\"", R"("\u0061")"}, {"\"b\"", "\"\""}});
  Check({R"({"enum": [null, "x", 2.5, false, {"a": [1]}, []]})",
         {"null", "\"x\"", "2.5", "2.50", "false", R"({"a": [1.0]})", "[]"},
         {"true", "{}", R"({"a": [1], "b": 2})", R"({"a": []})", "[1]", "2"}});
  Check({R"({"const": {"b": 1, "a": 2}})", {R"({"b":1,"a":2})"}, {"{}", R"({"b": 1})"}});
  Check({R"({"type": "integer", "enum": [1, 1.5, "a"]})", {"1"}, {"1.5", "\"a\""}});
}

TEST(Schema, ObjectsInTheOrderOfTheSchema) {
  const std::string_view schema =
      R"({"type": "object", "required": ["b"], "additionalProperties": false,
    "properties": {"a": {"type": "integer"}, "b": {"type": "null"}, "c": {}}})";
  Check({schema,
         {R"({"b": null})", R"({"a": 1, "b": null})", R"({"a":1,"b":null,"c":[]})",
          R"({"b":null,"c":{}})", "{ \"b\"\n:\tnull }"},
         {"{}", R"({"a": 1})", R"({"b": null, "a": 1})", R"({"b": 1})", R"({"b": null,})",
          R"({"b": null, "d": 1})", R"({"b": null, "b": null})", R"({, "b": null})"}});
}

TEST(Schema, OtherKeysComeAfterTheDeclaredOnes) {
  Check({R"({"properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "null"}})",
         {"{}", R"({"a": 1})", R"({"x": null})", R"({"a": 1, "x": null, "y": null})", "3"},
         {R"({"a": null})", R"({"x": 1})", R"({"x": null, "a": 1})", R"({"\u0061": null})"}});
  Check(
      {R"({"type": "object", "patternProperties": {"^n": {"type": "integer"}, "s$": {"minimum": 5}},
             "additionalProperties": false})",
       {"{}", R"({"n": 1})", R"({"ns": 5})", R"({"s": "t", "n": 0})"},
       {R"({"ns": 4})", R"({"n": "t"})", R"({"x": 1})", R"({"ns": "t"})"}});
  Check(
      {R"({"type": "object", "propertyNames": {"maxLength": 2}, "properties": {"abc": {},
           "de": {}}})",
       {R"({"de": 1, "x": 2})", "{}"},
       {R"({"abc": 1})", R"({"xyz": 1})"}});
}

TEST(Schema, CountsOfKeys) {
  Check({R"({"type": "object", "minProperties": 1, "maxProperties": 2})",
         {R"({"a": 1})", R"({"a": 1, "b": 2})"},
         {"{}", R"({"a": 1, "b": 2, "c": 3})"}});
  Check({R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}},
             "additionalProperties": false, "minProperties": 2})",
         {R"({"a": 1, "c": 2})", R"({"a": 1, "b": 2, "c": 3})"},
         {"{}", R"({"b": 1})"}});
  Check({R"({"type": "object", "properties": {"a": {}, "b": {}}, "maxProperties": 1})",
         {"{}", R"({"a": 1})", R"({"b": 1})", R"({"x": 1})"},
         {R"({"a": 1, "b": 1})", R"({"a": 1, "x": 1})"}});
  // Two keys that are the same are one.
  EXPECT_NE(ErrorOf(R"({"type": "object", "minProperties": 2})").find("minProperties"),
            std::string::npos);
}

TEST(Schema, Dependencies) {
  for (const std::string_view keyword : {"dependentRequired", "dependencies"}) {
    const std::string schema = R"({"type": "object", "properties": {"a": {}, "b": {}}, ")" +
                               std::string(keyword) + R"(": {"a": ["b"]}})";
    Check({schema, {"{}", R"({"b": 1})", R"({"a": 1, "b": 1})"}, {R"({"a": 1})"}});
  }
  Check({R"({"properties": {"a": {}, "n": {}},
             "dependentSchemas": {"a": {"properties": {"n": {"type": "integer"}}}}})",
         {R"({"n": "x"})", R"({"a": 1, "n": 2})", R"({"a": 1})"},
         {R"({"a": 1, "n": "x"})"}});
}

TEST(Schema, Arrays) {
  Check({R"({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3})",
         {"[1]", "[1, 2,3]"},
         {"[]", "[1,2,3,4]", "[\"a\"]", "[1,,2]"}});
  Check(
      {R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "null"}],
           "items": false})",
       {"[]", "[1]", "[1, null]"},
       {"[null]", "[1, 2]", "[1, null, 2]"}});
  Check(
      {R"({"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "null"},
           "minItems": 2})",
       {"[1, null]", "[1, null, null]"},
       {"[1]", "[1, 2]"}});
  Check({R"({"type": "array", "items": {"type": "object"}, "minItems": 2, "maxItems": 200})",
         {"[{}, {}]", "[{},{},{}]"},
         {"[]", "[{}]", "[1, 2]"}});
}

TEST(Schema, Contains) {
  Check({R"({"type": "array", "contains": {"type": "integer"}})",
         {"[1]", "[\"a\", 1, null]"},
         {"[]", "[\"a\"]"}});
  Check(
      {R"({"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 3,
           "maxItems": 4})",
       {"[1, 1]", "[1, 2, 1]", "[1, 1, 1, 2]"},
       {"[1]", "[1, 1, 1, 1]", "[1, 1, 2, 2, 2]", "[2, 2]"}});
  Check({R"({"type": "array", "contains": {"type": "object", "required": ["a"]}, "minItems": 2})",
         {R"([{"a": 1}, 2])", R"([{}, {"a": 1}])"},
         {R"([{"a": 1}])", "[{}, {}]"}});
}

TEST(Schema, UniqueItems) {
  Check({R"({"type": "array", "items": {"enum": ["a", "b", 1]}, "uniqueItems": true})",
         {"[]", "[\"a\", 1]", "[1, \"b\", \"a\"]"},
         {"[1, 1.0]", R"(["a", "\u0061"])", "[2]"}});
  Check({R"({"type": "array", "items": {"type": "boolean"}, "uniqueItems": true, "minItems": 2})",
         {"[true, false]"},
         {"[true]", "[true, true]"}});
  Check({R"({"type": "array", "uniqueItems": true, "maxItems": 1})", {"[]", "[{}]"}, {"[1, 2]"}});
  EXPECT_NE(ErrorOf(R"({"properties": {"a/b": {"type": "array", "uniqueItems": true}}})")
                .find("schema at /properties/a~1b: uniqueItems"),
            std::string::npos);
}

TEST(Schema, AllOf) {
  Check({R"({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                       {"properties": {"a": {"minimum": 5}, "b": {}},
           "additionalProperties": false}],
             "type": "object"})",
         {R"({"a": 5})", R"({"a": 6, "b": 1})"},
         {R"({"a": 4})", "{}", R"({"a": 5, "c": 1})"}});
  Check(
      {R"({"allOf": [{"type": ["string", "null"]}, {"type": ["string", "integer"]},
           {"minLength": 1}]})",
       {"\"a\""},
       {"\"\"", "null", "1"}});
}

TEST(Schema, AnyOfAndOneOf) {
  Check(
      {R"({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer"}],
           "not": {"const": 3}})",
       {"\"a\"", "4"},
       {"\"ab\"", "3", "3.0", "null"}});
  Check({R"({"oneOf": [{"type": "integer"}, {"minimum": 2}]})", {"1", "2.5"}, {"3", "1.5", "2.0"}});
  Check(
      {R"({"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]},
           {"required": ["b"]}]})",
       {R"({"a": 1})", R"({"b": 1})"},
       {"{}", R"({"a": 1, "b": 1})"}});
  Check({R"({"type": "object", "required": ["k"], "oneOf": [
              {"properties": {"k": {"const": "x"}, "v": {"type": "integer"}},
           "additionalProperties": false},
              {"properties": {"k": {"const": "y"}, "w": {"type": "null"}},
           "additionalProperties": false}]})",
         {R"({"k": "x", "v": 1})", R"({"k": "y"})", R"({"k": "y", "w": null})"},
         {R"({"k": "x", "w": null})", R"({"k": "z"})", "{}"}});
}

TEST(Schema, Not) {
  Check({R"({"not": {"type": "string"}})", {"1", "{}", "null"}, {"\"a\""}});
  Check({R"({"type": "string", "not": {"pattern": "a"}})", {"\"b\""}, {"\"xa\"", R"("\u0061")"}});
  Check({R"({"type": "array", "not": {"items": {"type": "integer"}}})",
         {"[1, null]"},
         {"[]", "[1]"}});
  Check({R"({"not": {"enum": [{"a": 1}, [2], "t"]}})",
         {R"({"a": 2})", "{}", R"({"a": 1, "b": 1})", "[]", "[2, 2]", "[3]", "\"u\""},
         {R"({"a": 1})", "[2.0]", "\"t\""}});
  Check({R"({"type": "object", "not": {"properties": {"a": {}}, "additionalProperties": false}})",
         {R"({"b": 1})", R"({"a": 1, "b": 1})"},
         {"{}", R"({"a": 1})"}});
  EXPECT_NE(ErrorOf(R"({"not": {"additionalProperties": {"type": "string"}}})")
                .find("additionalProperties: cannot be negated"),
            std::string::npos);
}

TEST(Schema, Conditions) {
  Check(
      {R"({"type": "object", "properties": {"k": {"enum": ["a", "b"]}, "n": {}}, "required": ["k"],
             "if": {"properties": {"k": {"const": "a"}}},
             "then": {"required": ["n"]}, "else": {"properties": {"n": {"type": "null"}}}})",
       {R"({"k": "a", "n": 1})", R"({"k": "b"})", R"({"k": "b", "n": null})"},
       {R"({"k": "a"})", R"({"k": "b", "n": 1})"}});
}

TEST(Schema, References) {
  const std::string_view tree = R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object",
    "properties": {"v": {"type": "integer"}, "c": {"type": "array",
           "items": {"$ref": "#/$defs/tree"}}},
    "required": ["v"], "additionalProperties": false}}})";
  Check({tree,
         {R"({"v": 1})", R"({"v": 1, "c": [{"v": 2, "c": []}, {"v": 3}]})"},
         {R"({"v": 1, "c": [{}]})", R"({"c": []})"}});
  Check({R"({"$id": "http://x.test/a/root.json", "items": {"$ref": "b.json#n"},
             "$defs": {"b": {"$id": "b.json", "$defs": {"q": {"$anchor": "n", "type": "null"}}}}})",
         {"[null]", "[]"},
         {"[1]"}});
  // Until draft 7 what stands beside $ref says nothing.
  Check(
      {R"({"$schema": "http://json-schema.org/draft-07/schema#",
           "definitions": {"a": {"type": "integer"}},
             "items": {"$ref": "#/definitions/a", "minimum": 5}})",
       {"[1]"},
       {"[\"a\"]"}});
}

TEST(Schema, WhitespacePolicies) {
  const std::string_view schema =
      R"({"properties": {"a": {}}, "required": ["a"], "type": "object"})";
  Check({schema,
         {R"({"a":[1,2]})"},
         {R"({"a": [1,2]})", R"({"a":[1, 2]})"},
         {.whitespace = Whitespace::kCompact}});
  Check({schema,
         {R"({"a": [1, 2]})"},
         {R"({"a":[1, 2]})", R"({ "a": 1})"},
         {.whitespace = Whitespace::kPython}});
  const std::string wide = "{" + std::string(41, ' ') + R"("a":1})";
  Check({schema, {"{\n  \"a\" : 1\r\n}"}, {wide, "{\f\"a\":1}"}});
}

TEST(Schema, AnyOrder) {
  const std::string_view schema = R"({"type": "object", "properties": {"a": {}, "b": {}, "c": {}},
    "required": ["a", "c"], "additionalProperties": {"type": "null"}})";
  Check({schema,
         {R"({"c": 1, "a": 2})", R"({"a": 1, "x": null, "c": 2, "b": 3})"},
         {R"({"a": 1, "b": 2})", R"({"a": 1, "c": 2, "a": 3})"},
         {.any_order = true}});
}

TEST(Schema, StrictClosesObjects) {
  const std::string_view schema = R"({"type": "object", "properties": {"a": {"type": "object",
    "additionalProperties": true}, "b": {}}})";
  Check({schema, {R"({"a": {"x": 1}})", R"({"b": {"x": 1}})"}, {R"({"x": 1})"}, {.strict = true}});
}

TEST(Schema, WrongSchemasAreErrorsWithAPath) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {R"({"properties": {"foo": "bar"}})", "schema at /properties/foo: a schema must be"},
      {R"({"type": "any"})", "schema at the root: type: \"any\" is no type"},
      {R"({"items": {"minLength": -1}})", "schema at /items: minLength: must be an integer"},
      {R"({"required": "a"})", "required: must be an array of strings"},
      {R"({"enum": 3})", "enum: must be an array"},
      {R"({"anyOf": []})", "anyOf: must not be empty"},
      {R"({"allOf": [{}, 3]})", "schema at /allOf/1: a schema must be"},
      {R"({"pattern": "("})", "pattern"},
      {R"({"minimum": "3"})", "minimum: must be a number"},
      {R"({"minItems": 1000000000})", "minItems: 1000000000 is more than the limit"},
      {R"({"$ref": "#/nowhere"})", "$ref: \"#/nowhere\" does not exist"},
      {R"({"$ref": "http://x.test/s"})", "is not in this document"},
      {R"({"$ref": "#"})", "leads back to itself"},
      {R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]},
           "b": {"$ref": "#/$defs/a"}}})",
       "leads back to itself"},
      {R"({"format": "color"})", "format"},
      {R"({"anyOf": [{}], "unevaluatedProperties": false})",
       "unevaluatedProperties: is not supported"},
      {"3", "a schema must be an object"},
  };
  for (const auto& [schema, message] : cases) {
    const std::string error = ErrorOf(schema);
    EXPECT_NE(error.find(message), std::string::npos) << schema << ": " << error;
  }
}

TEST(Schema, WhatNothingReachesIsNotLookedAt) {
  EXPECT_EQ(ErrorOf(R"({"$defs": {"a": {"type": "any"}}, "type": "null"})"), "");
  EXPECT_EQ(ErrorOf(R"({"format": "color"})", {.open_formats = true}), "");
}

std::string Nested(int levels) {
  std::string schema = "{}";
  for (int i = 1; i < levels; ++i) schema = R"({"properties": {"a": )" + schema + "}}";
  return schema;
}

TEST(Schema, NestingIsLimited) {
  EXPECT_EQ(ErrorOf(Nested(127)), "");
  EXPECT_NE(ErrorOf(Nested(200)).find("128"), std::string::npos);
}

// Products that would be exponential: an error, or done, but soon.
TEST(Schema, HostileSchemasEndSoon) {
  std::string all = R"({"type": "object", "allOf": [)", any = R"({"anyOf": [)";
  for (int i = 0; i < 40; ++i) {
    const std::string name = std::to_string(i);
    all += std::string(i == 0 ? "" : ",") + R"({"anyOf": [{"required": ["a)" + name +
           R"("]}, {"required": ["b)" + name + R"("]}]})";
    any += std::string(i == 0 ? "" : ",") + R"({"oneOf": [{"required": ["a)" + name +
           R"("]}, {"minProperties": 1}]})";
  }
  std::string dependent = R"({"dependentRequired": {"x": ["y"])";
  for (int i = 0; i < 60; ++i) {
    dependent += ",\"k" + std::to_string(i) + R"(": ["l"])";
  }
  const std::string schemas[] = {
      all + "]}",
      any + "]}",
      dependent + "}}",
      R"({"type": "string", "minLength": 99999, "maxLength": 99999999999, "pattern": "a.*b.*c"})",
      R"({"type": "array", "minItems": 90000, "maxItems": 99999999, "items": {"type": "object"}})",
      R"({"type": "array", "contains": {"type": "object"}, "minContains": 90000})",
      R"({"not": {"not": {"not": {"oneOf": [{"type": "object"}, {"required": ["a"]},
           {"minProperties": 3}]}}}})"};
  for (const std::string& schema : schemas) {
    const auto start = std::chrono::steady_clock::now();
    const std::string error = ErrorOf(schema);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    EXPECT_LT(taken.count(), 5) << schema.substr(0, 100) << ": " << error;
  }
}

}  // namespace
}  // namespace thalweg::grammar
