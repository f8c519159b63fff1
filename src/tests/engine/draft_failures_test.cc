// What has gone wrong elsewhere with drafts (spec/decoding.md 1.9), each as a test of the whole
// engine on nano: text that ends inside an accepted block ends there and nothing behind leaks, be
// it by an end token, a stop token, a stop string, its length, a thinking budget or its grammar; a
// preemption, an abort or a prefix hit between draft and verification changes nothing.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/harness.h"
#include "tests/nano/nano_files.h"

namespace thalweg::tests {
namespace {

using engine::EngineOptions;
using engine::FinishReason;
using engine::GenerateRequest;

// Drafts of whole blocks, always.
EngineOptions Drafted() {
  EngineOptions options = NanoOptions();
  options.draft_tokens = 5;
  options.draft_costs = false;
  return options;
}

// Prompts of nano's kind, whose drafts are mostly accepted: texts end inside blocks then.
std::vector<GenerateRequest> Requests(int64_t max_tokens) {
  std::vector<GenerateRequest> all;
  const base::Json prompts = ReadJson(SourceDir() / "tests/data/nano/prompts.json");
  for (size_t i = 0; i < prompts.size(); i += 5) {
    GenerateRequest& r = all.emplace_back();
    r.prompt = prompts[i]["ids"].get<std::vector<int32_t>>();
    r.seed = i;
    r.max_tokens = max_tokens;
    r.sampling.temperature = i % 2 == 0 ? 0 : 0.8;
    r.sampling.logprobs = 1;
  }
  return all;
}

std::vector<Answer> Plain(const std::vector<GenerateRequest>& requests) {
  return RunAll(*LoadEngine(NanoOptions()), requests);
}

// The same with drafts; how many answers ended for that reason.
int CheckDrafted(const std::vector<GenerateRequest>& requests, FinishReason reason) {
  const std::vector<Answer> plain = Plain(requests);
  const auto engine = LoadEngine(Drafted());
  const std::vector<Answer> drafted = RunAll(*engine, requests);
  EXPECT_GT(engine->metrics().scheduler.accepted, requests.size());
  int ended = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_EQ(Difference(plain[i], drafted[i]), "") << "request " << i;
    ended += drafted[i].finish == reason ? 1 : 0;
  }
  return ended;
}

// For each request, tokens of its plain answer: what another request is told to stop at.
std::vector<std::vector<int32_t>> PlainTokens(const std::vector<GenerateRequest>& requests) {
  std::vector<std::vector<int32_t>> tokens;
  for (Answer& answer : Plain(requests)) tokens.push_back(std::move(answer.tokens));
  return tokens;
}

TEST(DraftFailures, AnEndTokenInsideABlockEndsTheTextThere) {
  EXPECT_GT(CheckDrafted(Requests(120), FinishReason::kStop), 10);
}

TEST(DraftFailures, AStopTokenInsideABlockEndsTheTextThere) {
  std::vector<GenerateRequest> requests = Requests(60);
  const auto tokens = PlainTokens(requests);
  for (size_t i = 0; i < requests.size(); ++i)
    requests[i].sampling.stop_token_ids = {tokens[i][std::min(tokens[i].size() - 1, 7 + i % 6)]};
  EXPECT_GT(CheckDrafted(requests, FinishReason::kStop), 15);
}

TEST(DraftFailures, AStopTokenBeforeMinTokensIsNotDrawnInsideABlock) {
  std::vector<GenerateRequest> requests = Requests(60);
  const auto tokens = PlainTokens(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.stop_token_ids = {tokens[i][std::min(tokens[i].size() - 1, i % 9)]};
    requests[i].sampling.min_tokens = 8 + static_cast<int64_t>(i % 5);
  }
  CheckDrafted(requests, FinishReason::kStop);
}

TEST(DraftFailures, AStopStringInsideABlockCutsTheTextThere) {
  std::vector<GenerateRequest> requests = Requests(60);
  const auto tokens = PlainTokens(requests);
  const auto engine = LoadEngine(NanoOptions());
  for (size_t i = 0; i < requests.size(); ++i) {
    const size_t at = std::min(tokens[i].size() - 1, 5 + i % 6);
    const std::vector<int32_t> some(tokens[i].begin() + static_cast<std::ptrdiff_t>(at) - 1,
                                    tokens[i].begin() + static_cast<std::ptrdiff_t>(at) + 1);
    std::string text = engine->tokenizer()->Decode(some, true);
    if (!text.empty()) requests[i].stop = {text};
  }
  EXPECT_GT(CheckDrafted(requests, FinishReason::kStop), 12);
}

// Every place in a block is the last one for some.
TEST(DraftFailures, TheLengthInsideABlockEndsTheTextThere) {
  std::vector<GenerateRequest> requests = Requests(1);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].max_tokens = 1 + static_cast<int64_t>(i) % 12;
    requests[i].sampling.ignore_eos = true;
  }
  EXPECT_EQ(CheckDrafted(requests, FinishReason::kLength), static_cast<int>(requests.size()));
}

TEST(DraftFailures, AThinkingBudgetEndsInsideABlock) {
  std::vector<GenerateRequest> requests;
  for (int64_t budget = 1; budget <= 14; ++budget) {
    GenerateRequest& r = requests.emplace_back();
    engine::ChatPrompt chat;
    chat.conversation.messages = {{.content = "What does courage mean?"}};
    chat.options.thinking = true;
    r.prompt = chat;
    r.max_tokens = 50;
    r.sampling.temperature = 0;
    r.sampling.thinking_budget = budget;
  }
  CheckDrafted(requests, FinishReason::kStop);
}

// Complete inside a block, and the matcher that has ended is asked for nothing more.
TEST(DraftFailures, AGrammarThatIsCompleteInsideABlockEndsTheTextThere) {
  std::vector<GenerateRequest> requests = Requests(60);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].so_args =
        i % 2 == 0 ? R"({"type": "regex", "content": "[A-Z][a-z]{1,6}( [a-z]{1,7}){2,4}\\."})"
                   : R"({"type": "regex", "content": "(yes|no), (it|that) is so"})";
    requests[i].sampling.ignore_eos = i % 3 == 0;
  }
  EXPECT_GT(CheckDrafted(requests, FinishReason::kStop), 20);
}

TEST(DraftFailures, APreemptionBetweenDraftAndVerificationChangesNothing) {
  const std::vector<GenerateRequest> requests = Requests(60);
  const std::vector<Answer> plain = Plain(requests);
  for (const int64_t overlap : {0, 1, 3}) {
    EngineOptions options = Drafted();
    options.preempt_every = 2;
    options.overlap = overlap;
    const auto engine = LoadEngine(options);
    const auto enough = [&] { return engine->metrics().scheduler.preempted > 10; };
    for (int round = 0; round < 30 && !enough(); ++round) {
      const std::vector<Answer> drafted = RunAll(*engine, requests);
      for (size_t i = 0; i < plain.size(); ++i)
        EXPECT_EQ(Difference(plain[i], drafted[i]), "") << "request " << i;
    }
    EXPECT_TRUE(enough());
  }
}

// The draft module's rings are rebuilt behind a prefix hit: drafts are as good as without it.
TEST(DraftFailures, APrefixHitLosesNoDrafts) {
  std::vector<GenerateRequest> requests;
  for (uint64_t i = 0; i < 4; ++i) requests.push_back(WithPrefix(300, 9, i, 60));
  const auto accepted = [&](bool reuse) {
    EngineOptions options = Drafted();
    options.prefix_reuse = reuse;
    const auto engine = LoadEngine(options);
    RunEach(*engine, requests);
    const sched::SchedulerStats cold = engine->metrics().scheduler;
    int64_t cached = 0;
    for (const Answer& answer : RunEach(*engine, requests)) cached += answer.cached_tokens;
    EXPECT_EQ(cached > 0, reuse);
    return engine->metrics().scheduler.accepted - cold.accepted;
  };
  EXPECT_EQ(accepted(true), accepted(false));
}

// Nothing of a block that was drafted for the slot's earlier owner is verified for the next.
TEST(DraftFailures, ASlotThatChangesHandsBringsNoDraftsAlong) {
  const std::vector<GenerateRequest> requests = Requests(20);
  const std::vector<Answer> plain = Plain(requests);
  EngineOptions options = Drafted();
  options.max_sequences = 1;
  const auto engine = LoadEngine(options);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto id = engine->Submit(requests[(i + 7) % requests.size()], [](const auto&) {});
    ASSERT_TRUE(id.ok());
    engine->Cancel(*id);
    EXPECT_EQ(Difference(plain[i], RunAll(*engine, {requests[i]}).front()), "") << i;
  }
}

}  // namespace
}  // namespace thalweg::tests
