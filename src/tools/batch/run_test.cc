// Each line gets exactly one result, whatever stops the run in between; bad lines are errors of
// their own; a changed input is noticed.
#include "tools/batch/run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <string>

#include "base/mapped_file.h"
#include "tools/batch/line_reader.h"

namespace thalweg::tools::batch {
namespace {

namespace fs = std::filesystem;

class BatchRun : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    LLMOptions options{.model = THALWEG_SOURCE_DIR "/models/nano"};
    llm_ = std::make_unique<LLM>(LLM::Load(options).value());
  }
  static void TearDownTestSuite() { llm_.reset(); }

  BatchRun()
      : folder_(fs::path(testing::TempDir()) / ("thalweg_batch_run" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~BatchRun() override { fs::remove_all(folder_); }

  void PutInput(const std::string& text) const { std::ofstream(folder_ / "in") << text; }
  static std::string Prompts(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += R"({"custom_id": "id)" + std::to_string(i) + R"(", "body": {"prompt": "The number )" +
              std::to_string(i) + R"( is", "max_tokens": 4}})" + "\n";
    }
    return text;
  }

  Result<BatchReport> Go(
      const StopRequests& stop = [] { return 0; },
      BatchOptions options = {.max_in_flight = 7}) const {
    TW_ASSIGN(ResultFile file, ResultFile::Open(folder_ / "out", "r"));
    return RunBatch(*llm_, folder_ / "in", &file, options, stop, {});
  }

  // Results by line number; fails when a line has two.
  std::map<int64_t, std::string> Results() const {
    LineReader reader = LineReader::Open(folder_ / "out", 1 << 20).value();
    std::map<int64_t, std::string> results;
    while (auto line = reader.Next().value()) {
      const base::Json json = base::ParseJson(line->text, "").value();
      EXPECT_TRUE(results.emplace(json["line"].get<int64_t>(), line->text).second) << line->text;
    }
    return results;
  }
  void Clear() const { fs::remove(folder_ / "out"); }

  static std::unique_ptr<LLM> llm_;
  fs::path folder_;
};

std::unique_ptr<LLM> BatchRun::llm_;

TEST_F(BatchRun, EveryLineHasOneResult) {
  PutInput(Prompts(40));
  const auto report = Go();
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->lines, 40);
  EXPECT_EQ(report->written, 40);
  EXPECT_EQ(report->errors, 0);
  const auto results = Results();
  ASSERT_EQ(results.size(), 40u);
  const base::Json first = base::ParseJson(results.at(1), "").value();
  EXPECT_EQ(first["custom_id"], "id0");
  EXPECT_EQ(first["finish_reason"], "length");
  EXPECT_EQ(first["usage"]["completion_tokens"], 4);
  EXPECT_FALSE(first["text"].get<std::string>().empty());
  const auto again = Go();
  EXPECT_EQ(again->old, 40);
  EXPECT_EQ(again->written, 0);
  EXPECT_EQ(Results(), results);
}

TEST_F(BatchRun, StopsAndRestartsChangeNothing) {
  PutInput(Prompts(60));
  ASSERT_TRUE(Go().ok());
  const auto undisturbed = Results();
  int64_t abandoned = 0;
  // What is under way when a stop comes depends on the machine.
  for (int round = 0; round < 30 && abandoned == 0; ++round) {
    Clear();
    for (int run = 0; run < 20; ++run) {
      int polls = 0;
      const auto report = Go([&] { return ++polls > 3 + 2 * run ? 1 + run % 2 : 0; },
                             {.max_in_flight = 5, .grace_seconds = run % 3 == 0 ? 0.0 : 5.0});
      ASSERT_TRUE(report.ok()) << report.status().message();
      abandoned += report->abandoned;
    }
  }
  EXPECT_GT(abandoned, 0);
  const auto last = Go();
  ASSERT_TRUE(last.ok());
  EXPECT_FALSE(last->stopped);
  EXPECT_EQ(Results(), undisturbed);
}

TEST_F(BatchRun, BadLinesAreErrorsOfTheirOwn) {
  PutInput(
      "{\"id\": \"a\", \"prompt\": \"x\", \"max_tokens\": 1}\n\nnonsense\n"
      "{\"id\": \"a\", \"prompt\": \"y\"}\n{\"id\": \"b\", \"prompt\": \"y\", \"temperature\": "
      "-1}\n"
      "{\"id\": \"c\", \"prompt\": \"" +
      std::string(300, 'z') + "\"}\n{\"id\": \"d\", \"prompt_token_ids\": [99999999]}\n" +
      "{\"id\": \"e\", \"prompt\": \"x\", \"max_tokens\": 1}");
  const auto report = Go([] { return 0; }, {.max_line_bytes = 200});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->lines, 7);
  EXPECT_EQ(report->errors, 5);
  const auto results = Results();
  ASSERT_EQ(results.size(), 7u);
  const auto expect = [&](int64_t line, const std::string& code, const std::string& part) {
    const base::Json error = base::ParseJson(results.at(line), "").value()["error"];
    EXPECT_EQ(error["code"], code) << results.at(line);
    EXPECT_NE(error["message"].get<std::string>().find(part), std::string::npos) << error;
  };
  expect(3, "invalid_argument", "not valid JSON");
  expect(4, "invalid_argument", "stands on an earlier line");
  expect(5, "invalid_argument", "temperature");
  expect(6, "out_of_range", "200 bytes");
  EXPECT_EQ(results.at(7).find("\"text\""), std::string::npos);
  EXPECT_NE(results.at(8).find("\"id\":\"e\""), std::string::npos);
  // The first of two equal ids keeps it after a restart, too.
  Clear();
  std::ofstream(folder_ / "out") << results.at(4) << "\n";
  ASSERT_TRUE(Go([] { return 0; }, {.max_line_bytes = 200}).ok());
  EXPECT_EQ(Results(), results);
}

TEST_F(BatchRun, AChangedInputIsNoticed) {
  PutInput(Prompts(6));
  ASSERT_TRUE(Go().ok());
  PutInput(Prompts(5));
  EXPECT_FALSE(Go().ok());
  PutInput("\n" + Prompts(6));
  EXPECT_FALSE(Go().ok());
  PutInput(Prompts(8));  // longer is fine: only the new lines are answered
  EXPECT_EQ(Go()->written, 2);
}

TEST_F(BatchRun, SeveralSequencesAreChoices) {
  PutInput(R"({"prompt": "x", "n": 3, "max_tokens": 2, "logprobs": 1, "return_token_ids": true})");
  ASSERT_TRUE(Go().ok());
  const base::Json json = base::ParseJson(Results().at(1), "").value();
  ASSERT_EQ(json["choices"].size(), 3u);
  EXPECT_EQ(json["choices"][2]["index"], 2);
  EXPECT_EQ(json["choices"][0]["token_ids"].size(), 2u);
  EXPECT_EQ(json["choices"][0]["logprobs"].size(), 2u);
  EXPECT_EQ(json["usage"]["completion_tokens"], 6);
}

}  // namespace
}  // namespace thalweg::tools::batch
