// nano's sets have the figures that are written down; a run that is stopped and started again gives
// the scores of one that was not; results of another model, options or set are refused.
#include "tools/eval/run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "tools/eval/grade.h"
#include "tools/eval/score.h"
#include "tools/eval/summary.h"

namespace thalweg::tools::eval {
namespace {

namespace fs = std::filesystem;

class EvalRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const LLMOptions options{.model = THALWEG_SOURCE_DIR "/models/nano"};
    llm_ = std::make_unique<LLM>(LLM::Load(options).value());
  }
  static void TearDownTestSuite() { llm_.reset(); }

  EvalRun()
      : folder_(fs::path(testing::TempDir()) / ("thalweg_eval_run" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~EvalRun() override { fs::remove_all(folder_); }

  std::string Out() const { return (folder_ / "out").string(); }
  std::vector<Item> Put(const std::string& text) const {
    std::ofstream(folder_ / "set") << text;
    return ReadSet((folder_ / "set").string()).value();
  }
  static std::vector<Item> Shipped(const std::string& name) {
    return ReadSet(THALWEG_SOURCE_DIR "/tests/data/eval/" + name + ".jsonl").value();
  }

  Result<EvalReport> Go(
      const std::vector<Item>& items, const StopRequests& stop = [] { return 0; },
      const EvalOptions& options = {}, const std::string& run = "r") const {
    TW_ASSIGN(batch::ResultFile file, batch::ResultFile::Open(Out(), run));
    return RunEval(*llm_, items, &file, options, stop, {});
  }

  EvalSummary SummaryOf(const std::vector<Item>& items) const {
    const auto report = Go(items);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return Summarise(ReadScores(Out()).value());
  }

  std::vector<std::string> SortedLines() const {
    std::vector<std::string> lines;
    std::ifstream file(Out());
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
  }

  fs::path folder_;
  static std::unique_ptr<LLM> llm_;
};
std::unique_ptr<LLM> EvalRun::llm_;

double Value(const EvalSummary& summary, const std::string& group, const std::string& metric) {
  for (const EvalFigure& f : summary.figures) {
    if (f.group == group && f.metric == metric) return f.value;
  }
  ADD_FAILURE() << "no figure " << metric << " of group \"" << group << "\"";
  return -1;
}

TEST_F(EvalRun, PerplexityOfNano) {
  const EvalSummary summary = SummaryOf(Shipped("perplexity"));
  EXPECT_EQ(summary.errors, 0);
  EXPECT_NEAR(Value(summary, "", "perplexity"), 2.9514, 0.002);
  EXPECT_NEAR(Value(summary, "dict", "perplexity"), 2.3904, 0.002);
}

TEST_F(EvalRun, ChoicesOfNano) {
  const EvalSummary summary = SummaryOf(Shipped("choice"));
  EXPECT_EQ(summary.errors, 0);
  EXPECT_DOUBLE_EQ(Value(summary, "", "accuracy") * 48, 45);
  EXPECT_DOUBLE_EQ(Value(summary, "", "accuracy_per_token") * 48, 45);
  EXPECT_DOUBLE_EQ(Value(summary, "", "accuracy_per_byte") * 48, 45);
}

TEST_F(EvalRun, AnswersOfNano) {
  const EvalSummary summary = SummaryOf(Shipped("exact"));
  EXPECT_EQ(summary.errors, 0);
  EXPECT_DOUBLE_EQ(Value(summary, "", "exact_match") * 77, 59);
  EXPECT_DOUBLE_EQ(Value(summary, "facts", "exact_match") * 24, 24);
}

TEST_F(EvalRun, SchemasOfNano) {
  const EvalSummary summary = SummaryOf(Shipped("schema"));
  EXPECT_EQ(summary.errors, 0);
  EXPECT_DOUBLE_EQ(Value(summary, "constrained", "valid"), 1);
  EXPECT_DOUBLE_EQ(Value(summary, "free", "valid") * 12, 12);
  EXPECT_DOUBLE_EQ(Value(summary, "constrained", "exact_match") * 12, 12);
}

TEST_F(EvalRun, StoppedAndStartedAgainItIsTheSame) {
  const std::vector<Item> items = Shipped("exact");
  ASSERT_TRUE(Go(items).ok());
  const std::vector<std::string> whole = SortedLines();
  EXPECT_EQ(whole.size(), items.size());
  fs::remove(Out());
  int asked = 0;
  for (int i = 0; i < 3; ++i) {
    const auto stop = [&, until = asked + 40] { return ++asked < until ? 0 : 2; };
    const auto report = Go(items, stop, {.max_in_flight = 5});
    ASSERT_TRUE(report.ok());
    EXPECT_TRUE(report->stopped);
  }
  EXPECT_LT(SortedLines().size(), items.size());
  ASSERT_TRUE(Go(items, [] { return 0; }, {.max_in_flight = 3}).ok());
  EXPECT_EQ(SortedLines(), whole);
}

TEST_F(EvalRun, WhatTheEngineRefusesIsTheErrorOfItsItem) {
  const auto items =
      Put(R"({"kind": "perplexity", "ids": [5, 7, 99999999]})"
          "\n"
          R"({"kind": "perplexity", "ids": [5]})"
          "\n"
          R"({"kind": "perplexity", "ids": [0, 434, 302]})"
          "\n"
          R"({"kind": "exact", "prompt": "a", "answer": "b", "params": {"top_p": 7}})");
  const EvalSummary summary = SummaryOf(items);
  EXPECT_EQ(summary.items, 4);
  EXPECT_EQ(summary.errors, 3);
  EXPECT_EQ(summary.figures.front().tokens, 2);
}

TEST_F(EvalRun, ContextIsNotScored) {
  const auto items = Put(R"({"kind": "perplexity", "ids": [0, 434, 302, 264, 979]})"
                         "\n"
                         R"({"kind": "perplexity", "context": [0, 434, 302], "ids": [264, 979]})"
                         "\n"
                         R"({"kind": "perplexity", "ids": [0, 434, 302]})");
  ASSERT_TRUE(Go(items).ok());
  const std::vector<Score> scores = ReadScores(Out()).value();
  ASSERT_EQ(scores.size(), 3u);
  EXPECT_EQ(scores[1].tokens, 2);
  EXPECT_NEAR(scores[0].nll, scores[1].nll + scores[2].nll, 1e-6);
}

TEST_F(EvalRun, OtherRunsAndOtherSetsAreRefused) {
  const std::string one = R"({"kind": "perplexity", "ids": [0, 434]})";
  const std::string two = R"({"kind": "perplexity", "ids": [0, 302]})";
  ASSERT_TRUE(Go(Put(one + "\n" + two)).ok());
  const auto other_run = Go(
      Put(one), [] { return 0; }, {}, "other");
  ASSERT_FALSE(other_run.ok());
  EXPECT_NE(other_run.status().message().find("another model"), std::string::npos);
  const auto changed = Go(Put(two + "\n" + two));
  ASSERT_FALSE(changed.ok());
  EXPECT_NE(changed.status().message().find("line 1 of the set"), std::string::npos);
  const auto shorter = Go(Put(one));
  ASSERT_FALSE(shorter.ok());
  EXPECT_NE(shorter.status().message().find("no items of this set"), std::string::npos);
  EXPECT_EQ(SortedLines().size(), 2u) << "nothing was written";
}

TEST_F(EvalRun, AFrontOfTheSet) {
  const std::vector<Item> items = Shipped("perplexity");
  ASSERT_TRUE(Go(items, [] { return 0; }, {.limit = 3}).ok());
  EXPECT_EQ(SortedLines().size(), 3u);
  ASSERT_TRUE(Go(items, [] { return 0; }, {.limit = 5}).ok());
  EXPECT_EQ(SortedLines().size(), 5u);
}

TEST(EvalContent, BehindTheReasoning) {
  CompletionOutput output{.text = "I count.</think>Two<｜end▁of▁sentence｜>"};
  output.reasoning_tokens = 3;
  EXPECT_EQ(ContentOf(output), "Two");
  output.text = "I count";
  EXPECT_EQ(ContentOf(output), "") << "it never came to an answer";
  output = {.text = "the tag </think> is text"};
  EXPECT_EQ(ContentOf(output), output.text);
}

}  // namespace
}  // namespace thalweg::tools::eval
