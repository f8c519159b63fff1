// Property: so_args become the constraint that they name, with every field understood or refused,
// and every kind compiles to the language of its content within the limits.
#include "grammar/constraint.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar/test_acceptor.h"

namespace thalweg::grammar {
namespace {

base::Json Parsed(std::string_view text) { return base::ParseJson(text, "test").value(); }

TEST(Constraint, FieldsAreRead) {
  const auto schema = ParseConstraint(Parsed(
      R"({"type": "json_schema", "content": {"b": 1, "a": 2}, "whitespace": "python",
          "any_order": true, "strict": true})"));
  ASSERT_TRUE(schema.ok()) << schema.status().ToString();
  EXPECT_EQ(schema->kind, ConstraintKind::kJsonSchema);
  EXPECT_EQ(schema->content, R"({"b":1,"a":2})");
  EXPECT_EQ(schema->schema.whitespace, SchemaOptions::Whitespace::kPython);
  EXPECT_TRUE(schema->schema.any_order && schema->schema.strict);
  const auto text = ParseConstraint(Parsed(R"({"type": "json_schema", "content": "{}"})"));
  EXPECT_EQ(text.value().content, "{}");
  EXPECT_EQ(ParseConstraint(Parsed(R"({"type": "regex", "content": "a"})")).value().kind,
            ConstraintKind::kRegex);
  for (const char* bare : {R"({"type": "json_object"})",
                           R"({"type": "json_object", "content": "", "whitespace": "compact"})",
                           R"({"type": "json_object", "content": {}})"}) {
    EXPECT_EQ(ParseConstraint(Parsed(bare)).value().kind, ConstraintKind::kJsonObject);
  }
}

TEST(Constraint, ErrorsNameTheField) {
  const std::pair<const char*, const char*> all[] = {
      {"[]", "so_args"},
      {"{}", "so_args.type"},
      {R"({"type": "yaml", "content": ""})", "so_args.type"},
      {R"({"type": "regex"})", "so_args.content"},
      {R"({"type": "regex", "content": {}})", "so_args.content"},
      {R"({"type": "json_schema", "content": 1})", "so_args.content"},
      {R"({"type": "json_object", "content": {"a": 1}})", "so_args.content"},
      {R"({"type": "regex", "content": "a", "whitespace": "lots"})", "so_args.whitespace"},
      {R"({"type": "regex", "content": "a", "strict": 1})", "so_args.strict"},
      {R"({"type": "regex", "content": "a", "mode": 1})", "so_args.mode"}};
  for (const auto& [so_args, field] : all) {
    const Status status = ParseConstraint(Parsed(so_args)).status();
    EXPECT_EQ(status.code(), base::Code::kInvalidArgument) << so_args;
    EXPECT_NE(status.message().find(field), std::string::npos) << status.ToString();
  }
}

Result<Rules> Compile(ConstraintKind kind, std::string content, const Limits& limits = {}) {
  Constraint constraint;
  constraint.kind = kind;
  constraint.content = std::move(content);
  return CompileConstraint(constraint, nullptr, limits);
}

TEST(Constraint, EveryKindCompiles) {
  struct Example {
    ConstraintKind kind;
    const char* content;
    const char* in;
    const char* out;
  };
  const Example all[] = {
      {ConstraintKind::kRegex, "^a+$|b", "aa", "ab"},
      {ConstraintKind::kEbnf, "root ::= \"(\" root \")\" | \"x\"", "((x))", "((x)"},
      {ConstraintKind::kJsonSchema, R"({"type": "array", "items": {"type": "null"}})", "[null]",
       "[1]"},
      {ConstraintKind::kJsonObject, "", "{\"a\": [1]}", "[1]"},
      {ConstraintKind::kStructural, R"({"type": "const_string", "value": "hi"})", "hi", "ho"}};
  for (const Example& example : all) {
    auto rules = Compile(example.kind, example.content);
    ASSERT_TRUE(rules.ok()) << rules.status().ToString();
    TestAcceptor acceptor(std::move(*rules));
    ASSERT_TRUE(acceptor.error().ok()) << acceptor.error().ToString();
    EXPECT_TRUE(acceptor.Has(example.in)) << example.in;
    EXPECT_FALSE(acceptor.Has(example.out)) << example.out;
  }
}

TEST(Constraint, LimitsHoldForEveryKind) {
  Limits limits;
  limits.source_bytes = 20;
  const std::string large(100, ' ');
  for (const auto kind : {ConstraintKind::kRegex, ConstraintKind::kEbnf,
                          ConstraintKind::kJsonSchema, ConstraintKind::kStructural}) {
    EXPECT_EQ(Compile(kind, large, limits).status().code(), base::Code::kOutOfRange);
  }
  Limits small;
  small.expressions = 100;
  EXPECT_EQ(Compile(ConstraintKind::kRegex, "\\p{L}", small).status().code(),
            base::Code::kOutOfRange);
  EXPECT_FALSE(Compile(ConstraintKind::kJsonSchema, "{").ok());
}

TEST(Constraint, AnEmptyLanguageIsAnErrorOfTheGrammar) {
  TestAcceptor acceptor(Compile(ConstraintKind::kRegex, "a\\bb").value());
  EXPECT_FALSE(acceptor.error().ok());
}

}  // namespace
}  // namespace thalweg::grammar
