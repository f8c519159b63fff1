// Intake: what a request may not be is a typed error that names it, and a legal one becomes
// scheduler requests with the seeds, ends and replay cut that were promised.
#include "engine/intake.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "text/test_tokenizer.h"

namespace thalweg::engine {
namespace {

using base::Code;

std::shared_ptr<text::Tokenizer> SmallTokenizer() {
  auto parsed = text::Tokenizer::Parse(text::ByteLevelJson({}, {"<think>", "</think>"}).dump());
  TW_CHECK(parsed.ok());
  return std::make_shared<text::Tokenizer>(std::move(*parsed));
}

class IntakeTest : public testing::Test {
 protected:
  IntakeTest() {
    options_.tokenizer = tokenizer_.get();
    options_.vocab = tokenizer_->vocab_size();
    options_.context_tokens = 100;
    options_.end_tokens = {1};
    options_.decoder_from = [](int64_t prompt) { return prompt / 2; };
  }

  Result<PreparedRequest> Prepare(GenerateRequest request) const {
    return Intake(options_).Prepare(std::move(request), [](const Output&) {});
  }
  Status StatusOf(GenerateRequest request) const { return Prepare(std::move(request)).status(); }

  const std::shared_ptr<text::Tokenizer> tokenizer_ = SmallTokenizer();
  IntakeOptions options_;
};

GenerateRequest Asking(std::vector<int32_t> prompt) {
  GenerateRequest request;
  request.prompt = std::move(prompt);
  return request;
}

TEST_F(IntakeTest, ALegalRequestBecomesSequencesWithSeedsInARow) {
  GenerateRequest request;
  request.prompt = std::string("hello");
  request.n = 3;
  request.seed = 40;
  request.max_tokens = 7;
  const auto prepared = Prepare(std::move(request));
  ASSERT_TRUE(prepared.ok()) << prepared.status().ToString();
  ASSERT_EQ(prepared->sequences.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    const sched::Request& sequence = prepared->sequences[i];
    EXPECT_EQ(sequence.sequence, prepared->record->first_sequence + i);
    EXPECT_EQ(sequence.sampling.seed, 40 + i);
    EXPECT_EQ(sequence.sampling.end_tokens, std::vector<int32_t>{1});
    EXPECT_EQ(sequence.prompt, (std::vector<int32_t>{'h', 'e', 'l', 'l', 'o'}));
    EXPECT_EQ(sequence.max_tokens, 7);
    EXPECT_EQ(sequence.decoder_from, 2);
    EXPECT_TRUE(sequence.may_reuse);
  }
}

TEST_F(IntakeTest, DrawnSeedsDifferAndRepeatWithTheEnginesSeed) {
  const auto seeds = [&](uint64_t engine_seed) {
    options_.seed = engine_seed;
    const Intake intake(options_);
    std::vector<uint64_t> out;
    for (int i = 0; i < 3; ++i) {
      out.push_back(intake.Prepare(Asking({5}), [](const Output&) {})->sequences[0].sampling.seed);
    }
    return out;
  };
  const std::vector<uint64_t> one = seeds(1);
  EXPECT_NE(one[0], one[1]);
  EXPECT_EQ(one, seeds(1));
  EXPECT_NE(one, seeds(2));
}

TEST_F(IntakeTest, PromptsThatCannotBeAreRefused) {
  EXPECT_EQ(StatusOf(Asking({})).code(), Code::kInvalidArgument);
  EXPECT_EQ(StatusOf(Asking({5, -1})).code(), Code::kInvalidArgument);
  EXPECT_EQ(StatusOf(Asking({1 << 20})).code(), Code::kInvalidArgument);
  EXPECT_NE(StatusOf(Asking({5, 1 << 20})).message().find("1048576 at position 1"),
            std::string::npos);
  GenerateRequest text;
  EXPECT_EQ(StatusOf(std::move(text)).code(), Code::kInvalidArgument);  // ""
  GenerateRequest chat;
  chat.prompt = ChatPrompt{};
  EXPECT_FALSE(StatusOf(std::move(chat)).ok());  // no messages
  options_.tokenizer = nullptr;
  GenerateRequest words;
  words.prompt = std::string("hello");
  EXPECT_EQ(StatusOf(std::move(words)).code(), Code::kUnsupported);
}

// R46: both numbers are named.
TEST_F(IntakeTest, WhatTheContextDoesNotHoldIsOutOfRange) {
  const Status prompt = StatusOf(Asking(std::vector<int32_t>(100, 5)));
  EXPECT_EQ(prompt.code(), Code::kOutOfRange);
  EXPECT_NE(prompt.message().find("100 tokens, but the context of 100"), std::string::npos);
  GenerateRequest request = Asking(std::vector<int32_t>(90, 5));
  request.max_tokens = 11;
  const Status sum = StatusOf(request);
  EXPECT_EQ(sum.code(), Code::kOutOfRange);
  for (const char* number : {"90", "11", "101", "100"})
    EXPECT_NE(sum.message().find(number), std::string::npos) << sum.message();
  request.max_tokens = 10;
  EXPECT_TRUE(StatusOf(request).ok());
  request.max_tokens = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(StatusOf(request).code(), Code::kOutOfRange);
  request.max_tokens = -1;
  EXPECT_EQ(Prepare(request)->sequences[0].max_tokens, 10);
  request.max_tokens = 0;
  EXPECT_EQ(StatusOf(request).code(), Code::kInvalidArgument);
}

TEST_F(IntakeTest, ParametersOutOfRangeAreRefused) {
  const double nan = std::nan("");
  const std::vector<std::function<void(GenerateRequest*)>> wrongs = {
      [&](GenerateRequest* r) { r->sampling.temperature = nan; },
      [&](GenerateRequest* r) { r->sampling.top_p = nan; },
      [](GenerateRequest* r) { r->sampling.top_p = 0; },
      [](GenerateRequest* r) { r->sampling.temperature = -1; },
      [](GenerateRequest* r) { r->sampling.repetition_penalty = 0; },
      [](GenerateRequest* r) { r->sampling.logprobs = 21; },
      [](GenerateRequest* r) { r->n = 0; },
      [](GenerateRequest* r) { r->n = kMaxSequencesPerRequest + 1; },
      [](GenerateRequest* r) { r->priority = kMaxPriority + 1; },
      [](GenerateRequest* r) { r->id = std::string(kMaxIdBytes + 1, 'x'); },
      [](GenerateRequest* r) { r->stop = {""}; },
      [](GenerateRequest* r) { r->stop = {"\xFF"}; },
      [](GenerateRequest* r) { r->stop = std::vector<std::string>(kMaxStopStrings + 1, "x"); },
      [](GenerateRequest* r) { r->stop = {std::string(kMaxStopBytes + 1, 'x')}; },
  };
  for (size_t i = 0; i < wrongs.size(); ++i) {
    GenerateRequest request = Asking({5});
    wrongs[i](&request);
    const Status status = StatusOf(std::move(request));
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << i << ": " << status.ToString();
  }
}

TEST_F(IntakeTest, ASeedWithBoundedReuseBreaksItsPromise) {
  options_.bounded_reuse = true;
  GenerateRequest request = Asking({5});
  EXPECT_TRUE(StatusOf(request).ok());
  request.seed = 1;
  const Status status = StatusOf(request);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("seed"), std::string::npos);
  EXPECT_NE(status.message().find("--prefix-exactness bounded"), std::string::npos);
  request.prefix_reuse = false;
  EXPECT_TRUE(StatusOf(request).ok());
}

TEST_F(IntakeTest, PromptLogprobsRunEveryRowInEveryLayer) {
  GenerateRequest request = Asking({5, 6, 7, 8});
  request.sampling.prompt_logprobs = 0;
  const auto prepared = Prepare(std::move(request));
  ASSERT_TRUE(prepared.ok());
  EXPECT_EQ(prepared->sequences[0].decoder_from, 0);
  EXPECT_FALSE(prepared->sequences[0].may_reuse);
}

TEST_F(IntakeTest, APromptThatEndsInsideAThinkingSpanIsKnown) {
  const int32_t begin = *tokenizer_->IdOfSpecial("<think>");
  const int32_t end = *tokenizer_->IdOfSpecial("</think>");
  EXPECT_TRUE(Prepare(Asking({5, begin}))->record->starts_thinking);
  EXPECT_FALSE(Prepare(Asking({5, begin, 6, end}))->record->starts_thinking);
  EXPECT_FALSE(Prepare(Asking({5}))->record->starts_thinking);
}

TEST_F(IntakeTest, AProcessorNeedsAnExecutorThatRunsIt) {
  GenerateRequest request = Asking({5});
  request.logits_processor = [](std::span<const int32_t>, std::span<float>) { return Status(); };
  EXPECT_EQ(StatusOf(request).code(), Code::kUnsupported);
  options_.takes_processors = true;
  const auto prepared = Prepare(request);
  ASSERT_TRUE(prepared.ok());
  EXPECT_FALSE(prepared->sequences[0].sampling.logits_processor.empty());
}

}  // namespace
}  // namespace thalweg::engine
