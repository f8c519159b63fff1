// What an engine says of its tokens is what the model says of them alone: the log-probabilities of
// prompts and of generated tokens have the bits of teacher forcing (`thalweg score`). Custom logits
// processors run in a loaded engine, and one that fails ends its sequence alone.
#include "tools/score.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>

#include "base/json.h"
#include "base/mapped_file.h"
#include "tests/engine/harness.h"
#include "tools/session.h"

namespace thalweg::tests {
namespace {

using engine::GenerateRequest;

tools::Session OpenNano() {
  tools::SessionOptions options;
  options.folder = std::string(THALWEG_SOURCE_DIR) + "/models/nano";
  options.backend = "cpu";
  options.threads = 2;
  options.pinning = base::Pinning::kOff;
  Result<tools::Session> session = tools::OpenSession(options);
  if (!session.ok())
    base::CheckFailed(__FILE__, __LINE__, "OpenSession", session.status().ToString());
  return std::move(*session);
}

std::vector<float> Scored(tools::Session& session, const std::vector<int32_t>& ids) {
  const auto replay = model::Replay::Make(model::ReplayMode::kFull, {}, session.config());
  const auto score = tools::ScoreDocument(*session.model, ids, *replay, {});
  EXPECT_TRUE(score.ok()) << score.status().ToString();
  return score->logprobs;
}

GenerateRequest Request(int64_t prompt, double temperature, int64_t max_tokens) {
  GenerateRequest r;
  r.prompt = SomeTokens(prompt, static_cast<uint64_t>(prompt));
  r.seed = 7;
  r.max_tokens = max_tokens;
  r.sampling.temperature = temperature;
  r.sampling.ignore_eos = true;
  return r;
}

// Every third value of Answer::logprobs, where no top ones were asked for, is a log-probability.
std::vector<float> LogprobsOf(const Answer& answer) {
  std::vector<float> out;
  for (size_t i = 1; i < answer.logprobs.size(); i += 3) out.push_back(answer.logprobs[i]);
  return out;
}

TEST(Score, PromptsHaveTheBitsOfTeacherForcing) {
  tools::Session session = OpenNano();
  std::vector<GenerateRequest> all;
  for (const int64_t length : {2, 64, 65, 141, 333, 700}) {
    all.push_back(Request(length, 0, 1));
    all.back().sampling.prompt_logprobs = 0;
  }
  engine::EngineOptions options = NanoOptions();
  options.max_rows = 100;
  const std::vector<Answer> answers = RunAll(*LoadEngine(options), all);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& prompt = std::get<std::vector<int32_t>>(all[i].prompt);
    EXPECT_EQ(LogprobsOf(answers[i]), Scored(session, prompt)) << prompt.size() << " tokens";
  }
}

// Several sequences of one prompt: its log-probabilities come once, and its rows run once.
TEST(Score, SequencesOfOnePromptShareItsRows) {
  GenerateRequest request = Request(640, 1, 2);
  request.n = 4;
  request.sampling.prompt_logprobs = 0;
  const auto engine = LoadEngine(NanoOptions());
  const std::vector<Answer> answers = RunAll(*engine, {request});
  EXPECT_EQ(LogprobsOf(answers[0]).size(), 639u);
  for (size_t i = 1; i < answers.size(); ++i) {
    EXPECT_TRUE(answers[i].logprobs.empty());
    EXPECT_GT(answers[i].cached_tokens, 500);
  }
  EXPECT_LT(engine->metrics().scheduler.prefill_rows, 2u * 640);
}

TEST(Score, GeneratedTokensHaveTheBitsOfTeacherForcing) {
  tools::Session session = OpenNano();
  std::vector<GenerateRequest> all;
  for (const int64_t length : {1, 63, 130, 250}) {
    for (const double temperature : {0.0, 1.0}) {
      all.push_back(Request(length, temperature, 70));
      all.back().sampling.logprobs = 0;
    }
  }
  engine::EngineOptions options = NanoOptions();
  options.replay = model::ReplayMode::kFull;
  const std::vector<Answer> answers = RunAll(*LoadEngine(options), all);
  for (size_t i = 0; i < all.size(); ++i) {
    std::vector<int32_t> ids = std::get<std::vector<int32_t>>(all[i].prompt);
    const auto prompt = static_cast<int64_t>(ids.size());
    ids.insert(ids.end(), answers[i].tokens.begin(), answers[i].tokens.end());
    std::vector<float> expected = Scored(session, ids);
    expected.erase(expected.begin(), expected.begin() + prompt - 1);
    EXPECT_EQ(answers[i].tokens.size(), 70u);
    EXPECT_EQ(LogprobsOf(answers[i]), expected) << prompt << " tokens";
  }
}

TEST(Processors, RunInALoadedEngineAndFailAlone) {
  const auto engine = LoadEngine(NanoOptions());
  std::vector<GenerateRequest> all(3, Request(20, 0, 6));
  // Doubles the id of the newest token, within the ordinary ones.
  all[0].logits_processor = [](std::span<const int32_t> tokens, std::span<float> logits) {
    logits[static_cast<size_t>(tokens.back() * 2 % 5000)] = 1e6f;
    return Status();
  };
  all[1].logits_processor = [](std::span<const int32_t> tokens, std::span<float>) -> Status {
    return tokens.size() < 23 ? Status() : base::InvalidArgument("three are enough");
  };
  const std::vector<Answer> answers = RunAll(*engine, all);
  int32_t newest = std::get<std::vector<int32_t>>(all[0].prompt).back();
  ASSERT_EQ(answers[0].tokens.size(), 6u);
  for (const int32_t token : answers[0].tokens) {
    newest = newest * 2 % 5000;
    EXPECT_EQ(token, newest);
  }
  EXPECT_EQ(answers[1].finish, engine::FinishReason::kError);
  EXPECT_NE(answers[1].status.message().find("three are enough"), std::string::npos);
  EXPECT_EQ(answers[1].tokens.size(), 3u);
  EXPECT_EQ(answers[2].finish, engine::FinishReason::kLength);
  EXPECT_EQ(std::vector(answers[2].tokens.begin(), answers[2].tokens.begin() + 3),
            answers[1].tokens);
  EXPECT_EQ(Difference(answers[2], RunAll(*engine, {all[2]}).front()), "");
  EXPECT_EQ(engine->metrics().failed, 1u);
}

TEST(TraceOfALoadedEngine, HasTheOpsOfEachStepAndChangesNoBit) {
  const std::string file =
      testing::TempDir() + "thalweg_ops_trace" + std::to_string(::getpid()) + ".json";
  engine::EngineOptions options = NanoOptions();
  const std::vector<Answer> expected = RunAll(*LoadEngine(options), {Request(30, 1, 4)});
  options.trace_file = file;
  {
    const auto engine = LoadEngine(options);
    EXPECT_EQ(Difference(expected[0], RunAll(*engine, {Request(30, 1, 4)})[0]), "");
    EXPECT_EQ(engine::Engine::Load(options).status().code(), base::Code::kFailedPrecondition);
  }
  const auto text = base::ReadFile(file, 1 << 26);
  ASSERT_TRUE(text.ok());
  const auto trace = base::ParseJson(*text, "trace");
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  std::map<std::string, int> spans;
  for (const base::Json& event : *trace) {
    if (event["ph"] == "X") ++spans[event["name"].get<std::string>()];
  }
  EXPECT_EQ(spans["step"], 4);
  EXPECT_EQ(spans["embed"], 4);
  EXPECT_GT(spans["attention"], 4);
  std::remove(file.c_str());
}

}  // namespace
}  // namespace thalweg::tests
