// Every kind of item is read as the documentation has it, and what is wrong with a line is named by
// file and line; nothing of it is ignored.
#include "tools/eval/item.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tools/eval/score.h"

namespace thalweg::tools::eval {
namespace {

void ExpectBad(std::string_view text, std::string_view part) {
  const auto item = ParseItem(text);
  ASSERT_FALSE(item.ok()) << text;
  EXPECT_NE(item.status().message().find(part), std::string::npos)
      << text << ": " << item.status().message();
}

TEST(EvalItem, EveryKind) {
  const auto text = ParseItem(R"({"kind": "perplexity", "text": "abc", "context": [5, 6]})");
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(text->group, "perplexity");
  EXPECT_EQ(std::get<std::vector<int32_t>>(text->context).size(), 2u);

  const auto choice = ParseItem(
      R"({"id": "c", "group": "g", "kind": "choice", "prompt": "x",
          "choices": ["a", "b"], "answer": 1})");
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->group, "g");
  EXPECT_EQ(choice->right_choice, 1u);

  const auto exact = ParseItem(
      R"({"kind": "exact", "prompt": {"messages": [{"role": "user", "content": "1+1"}]},
          "answer": ["2", "two"], "match": "contains", "normalise": ["case"],
          "params": {"seed": 4}})");
  ASSERT_TRUE(exact.ok()) << exact.status().message();
  EXPECT_EQ(exact->answers.size(), 2u);
  EXPECT_EQ(exact->rule.match, Match::kContains);
  EXPECT_FALSE(exact->rule.fold_space);
  EXPECT_EQ(exact->params.temperature, 0);
  EXPECT_EQ(exact->params.seed, 4u);

  const auto schema = ParseItem(
      R"({"kind": "schema", "prompt": [4], "schema": {"type": "object", "properties":
          {"a": {"type": "integer"}}, "required": ["a"]}, "constrained": true,
          "answer": {"a": 1}})");
  ASSERT_TRUE(schema.ok()) << schema.status().message();
  EXPECT_TRUE(schema->constrained);
  EXPECT_TRUE(schema->check->Check(R"({"a": 12})").ok());
  EXPECT_FALSE(schema->check->Check(R"({"a": "12"})").ok());
}

TEST(EvalItem, WhatIsWrongIsNamed) {
  ExpectBad("", "not valid JSON");
  ExpectBad("[]", "an object");
  ExpectBad("{}", "kind is missing");
  ExpectBad(R"({"kind": "essay"})", "perplexity, choice, exact, schema");
  ExpectBad(R"({"kind": "exact", "prompt": "x", "answer": "1", "choices": []})", "\"choices\"");
  ExpectBad(R"({"kind": "perplexity"})", "one of text and ids");
  ExpectBad(R"({"kind": "perplexity", "ids": [-1]})", "ids");
  ExpectBad(R"({"kind": "choice", "prompt": "x", "choices": ["a"], "answer": 0})", "from 2 to");
  ExpectBad(R"({"kind": "choice", "prompt": "x", "choices": ["a", ""], "answer": 0})", "empty");
  ExpectBad(R"({"kind": "choice", "prompt": "x", "choices": ["a", "b"], "answer": 2})", "answer");
  ExpectBad(R"({"kind": "choice", "prompt": "x", "choices": ["a", "b"]})", "answer is missing");
  ExpectBad(R"({"kind": "exact", "answer": "1"})", "prompt is missing");
  ExpectBad(R"({"kind": "exact", "prompt": "x", "answer": " "})", "nothing is left");
  ExpectBad(R"({"kind": "exact", "prompt": "x", "answer": "a", "extract": "number"})", "no number");
  ExpectBad(R"({"kind": "exact", "prompt": "x", "answer": "a", "match": "like"})", "\"like\"");
  ExpectBad(R"({"kind": "exact", "prompt": "x", "answer": "a", "params": {"n": 2}})", "params.n");
  ExpectBad(R"({"kind": "exact", "prompt": "x", "answer": "a", "params": {"tmp": 2}})", "tmp");
  ExpectBad(R"({"kind": "exact", "prompt": "x", "answer": "a", "group": ""})", "group");
  ExpectBad(R"({"kind": "schema", "prompt": "x"})", "schema is missing");
  ExpectBad(R"({"kind": "schema", "prompt": "x", "schema": {"type": "int"}})", "schema");
  ExpectBad(R"({"kind": "schema", "prompt": "x", "schema": {"type": "integer"}, "answer": "a"})",
            "own schema");
  ExpectBad(
      R"({"kind": "schema", "prompt": "x", "schema": {"type": "integer"},
          "params": {"so_args": {"type": "json_object"}}})",
      "constrained");
}

class EvalSet : public testing::Test {
 protected:
  EvalSet()
      : path_(std::filesystem::path(testing::TempDir()) /
              ("thalweg_eval_set" + std::to_string(::getpid()))) {}
  ~EvalSet() override { std::filesystem::remove(path_); }
  void Put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }

  std::filesystem::path path_;
};

constexpr const char* kGood = R"({"id": "a", "kind": "exact", "prompt": "x", "answer": "1"})";

TEST_F(EvalSet, LinesAreCountedAsEditorsDo) {
  Put(std::string("\n") + kGood + "\n  \n" + R"({"kind": "perplexity", "text": "ab"})");
  const auto items = ReadSet(path_.string());
  ASSERT_TRUE(items.ok()) << items.status().message();
  ASSERT_EQ(items->size(), 2u);
  EXPECT_EQ(items->at(0).line, 2);
  EXPECT_EQ(items->at(1).line, 4);
  EXPECT_NE(items->at(0).hash, items->at(1).hash);
}

TEST_F(EvalSet, BadLinesAreNamedTogether) {
  Put(std::string(kGood) + "\n{\n" + kGood + "\n{}\n");
  const auto items = ReadSet(path_.string());
  ASSERT_FALSE(items.ok());
  const std::string message = items.status().message();
  EXPECT_NE(message.find(path_.string() + ":2: the line is not valid JSON"), std::string::npos)
      << message;
  EXPECT_NE(message.find(path_.string() + ":3: id \"a\" stands on line 1, too"), std::string::npos)
      << message;
  EXPECT_NE(message.find(path_.string() + ":4: kind is missing"), std::string::npos) << message;
}

TEST_F(EvalSet, AnEmptySetAndAHundredBadLines) {
  Put("\n\n");
  EXPECT_FALSE(ReadSet(path_.string()).ok());
  Put(std::string(200, '\n') + [] {
    std::string bad;
    for (int i = 0; i < 100; ++i) bad += "{\n";
    return bad;
  }());
  const auto items = ReadSet(path_.string());
  ASSERT_FALSE(items.ok());
  EXPECT_NE(items.status().message().find("and 90 lines more"), std::string::npos);
}

TEST(EvalScore, LinesAreReadBackAsTheyWere) {
  Item item = ParseItem(kGood).value();
  item.line = 7;
  const Score score{.kind = Kind::kExact,
                    .group = item.group,
                    .marks = {{"exact_match", true}, {"valid", false}},
                    .details = {{"text", "\x80 bad"}}};
  const auto back = ParseScoreLine(ScoreLine(item, "run", score));
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->marks, score.marks);
  const auto error = ParseScoreLine(ScoreErrorLine(item, "run", {.message = "m"}));
  ASSERT_TRUE(error.ok());
  EXPECT_TRUE(error->error);
  Item text = ParseItem(R"({"kind": "perplexity", "text": "ab"})").value();
  const Score sum{
      .kind = Kind::kPerplexity, .group = "g", .tokens = 3, .bytes = 9, .nll = 0.1 + 0.2};
  EXPECT_EQ(ParseScoreLine(ScoreLine(text, "run", sum))->nll, 0.1 + 0.2) << "to the last bit";
}

}  // namespace
}  // namespace thalweg::tools::eval
