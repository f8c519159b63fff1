// What the history does: penalties, bad words, minimum length and the thinking budget are those of
// their definitions, evaluated over all tokens anew; and a state rebuilt from prompt and output
// equals one that has grown.
#include "sampling/sequence_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sampling/process.h"
#include "sampling/test_rows.h"

namespace thalweg::sampling {
namespace {

using step::SamplingParams;
using step::TokenEnd;

constexpr int32_t kThink = 90;
constexpr int32_t kEndThink = 91;

std::vector<float> NaivePenalties(std::vector<float> logits, const SamplingParams& p,
                                  const std::vector<int32_t>& tokens, size_t prompt_tokens) {
  for (size_t v = 0; v < logits.size(); ++v) {
    const auto token = static_cast<int32_t>(v);
    const auto all = std::count(tokens.begin(), tokens.end(), token);
    const auto output = std::count(tokens.begin() + static_cast<std::ptrdiff_t>(prompt_tokens),
                                   tokens.end(), token);
    double l = logits[v];
    if (all > 0) l = l > 0 ? l / p.repetition_penalty : l * p.repetition_penalty;
    l -= p.frequency_penalty * static_cast<double>(output);
    l -= output > 0 ? p.presence_penalty : 0;
    logits[v] = static_cast<float>(l);
  }
  return logits;
}

std::vector<float> Processed(std::vector<float> logits, const SequenceState& state) {
  std::vector<float> kept;
  EXPECT_TRUE(ProcessLogits({.logits = logits, .state = &state}, &kept).ok());
  return logits;
}

TEST(Penalties, AreThoseOfANaiveEvaluation) {
  const std::vector<SamplingParams> cases = {
      {.repetition_penalty = 1.3},
      {.repetition_penalty = 0.4},
      {.frequency_penalty = 0.7},
      {.presence_penalty = -1.1},
      {.repetition_penalty = 1.7, .frequency_penalty = -0.3, .presence_penalty = 0.9}};
  const std::vector<float> logits = RandomRow(40, 5, 3);
  for (const SamplingParams& p : cases) {
    std::vector<int32_t> tokens = {3, 3, 7, 0, 39, 3};
    SequenceState state(p, 40, tokens, 6);
    for (uint32_t i = 0; i < 60; ++i) {
      ASSERT_EQ(Processed(logits, state), NaivePenalties(logits, p, tokens, 6)) << i;
      tokens.push_back(static_cast<int32_t>(RandomWord(1, i) % 40));
      state.Append(tokens.back());
    }
  }
}

TEST(Penalties, KeepNothingWhenOff) {
  SequenceState state({.temperature = 2, .top_k = 5}, 100, std::vector<int32_t>(50, 7), 50);
  state.Append(8);
  EXPECT_TRUE(state.counts().empty());
  EXPECT_FALSE(state.changes_logits());
  SequenceState output({.frequency_penalty = 1}, 100, std::vector<int32_t>(50, 7), 50);
  output.Append(8);
  ASSERT_EQ(output.counts().size(), 1u);  // the prompt is not counted
  EXPECT_EQ(output.counts()[0].token, 8);
}

std::vector<int32_t> Forbidden(const SequenceState& state) {
  const std::vector<float> row = Processed(std::vector<float>(100, 1.0f), state);
  std::vector<int32_t> out;
  for (size_t v = 0; v < row.size(); ++v) {
    if (row[v] == -INFINITY) out.push_back(static_cast<int32_t>(v));
  }
  return out;
}

TEST(BadWords, OfOneToFourTokens) {
  const SamplingParams p = {.bad_words = {{5}, {1, 2}, {1, 2, 3}, {9, 1, 2, 3}, {2, 2}}};
  const auto after = [&](std::vector<int32_t> tokens) {
    return Forbidden(SequenceState(p, 100, std::move(tokens), 0));
  };
  EXPECT_EQ(after({}), (std::vector<int32_t>{5}));
  EXPECT_EQ(after({1}), (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(after({2}), (std::vector<int32_t>{2, 5}));
  EXPECT_EQ(after({1, 2}), (std::vector<int32_t>{2, 3, 5}));
  EXPECT_EQ(after({9, 1, 2}), (std::vector<int32_t>{2, 3, 5}));
  EXPECT_EQ(after({9, 1, 7}), (std::vector<int32_t>{5}));
}

TEST(BadWords, OverlapWithThemselves) {
  const SamplingParams p = {.bad_words = {{4, 4, 4, 6}, {4, 6, 4}}};
  SequenceState state(p, 100, {4, 4}, 2);
  EXPECT_EQ(Forbidden(state), (std::vector<int32_t>{}));
  state.Append(4);  // across the end of the prompt
  EXPECT_EQ(Forbidden(state), (std::vector<int32_t>{6}));
  state.Append(4);
  EXPECT_EQ(Forbidden(state), (std::vector<int32_t>{6}));
  state.Append(6);
  EXPECT_EQ(Forbidden(state), (std::vector<int32_t>{4}));
}

TEST(BadWords, NeverComeOut) {
  const SamplingParams p = {.seed = 4, .bad_words = {{0, 1}, {1, 1, 0}, {2, 0, 2, 0}, {3}}};
  SequenceState state(p, 4, {}, 0);
  Scratch scratch;
  for (int64_t i = 0; i < 2000; ++i) {
    std::vector<float> row(4, 0.0f);
    const Result<RowSample> sample = SampleRow(row, state, i, nullptr, &scratch);
    ASSERT_TRUE(sample.ok());
    state.Append(sample->token);
  }
  for (const std::vector<int32_t>& word : p.bad_words) {
    const auto tokens = state.tokens();
    EXPECT_EQ(std::search(tokens.begin(), tokens.end(), word.begin(), word.end()), tokens.end());
  }
}

TEST(MinTokens, ForbidEndsUntilThen) {
  SequenceState state({.end_tokens = {1}, .stop_token_ids = {2, 3}, .min_tokens = 2}, 100, {7}, 1);
  EXPECT_EQ(Forbidden(state), (std::vector<int32_t>{1, 2, 3}));
  state.Append(7);
  EXPECT_EQ(Forbidden(state), (std::vector<int32_t>{1, 2, 3}));
  state.Append(7);
  EXPECT_EQ(Forbidden(state), (std::vector<int32_t>{}));
}

TEST(MinTokens, CountWhatWasGeneratedInAnEarlierLife) {
  const SamplingParams p = {.end_tokens = {1}, .min_tokens = 2};
  EXPECT_TRUE(SequenceState(p, 100, {7, 7, 7}, 2).ends_forbidden());
  EXPECT_FALSE(SequenceState(p, 100, {7, 7, 7, 7}, 2).ends_forbidden());
}

TEST(Ends, AreNamed) {
  SamplingParams p = {.end_tokens = {1}, .stop_token_ids = {2}};
  EXPECT_EQ(SequenceState(p, 100, {}, 0).EndOf(1), TokenEnd::kEndToken);
  EXPECT_EQ(SequenceState(p, 100, {}, 0).EndOf(2), TokenEnd::kStopToken);
  EXPECT_EQ(SequenceState(p, 100, {}, 0).EndOf(3), TokenEnd::kNone);
  p.ignore_eos = true;
  p.min_tokens = 1;
  const SequenceState state(p, 100, {}, 0);
  EXPECT_EQ(Forbidden(state), (std::vector<int32_t>{2}));  // an ignored end is no end
  EXPECT_EQ(SequenceState(p, 100, {5}, 0).EndOf(1), TokenEnd::kNone);
  EXPECT_EQ(SequenceState(p, 100, {5}, 0).EndOf(2), TokenEnd::kStopToken);
  p.stop_token_ids.push_back(1);
  EXPECT_EQ(SequenceState(p, 100, {5}, 0).EndOf(1), TokenEnd::kStopToken);
}

SamplingParams Thinking(int64_t budget) {
  return {.temperature = 0,
          .banned_tokens = {3},
          .thinking_budget = budget,
          .think_begin_token = kThink,
          .think_end_token = kEndThink,
          .logprobs = 0};
}

// What comes out while token 3 (banned), then 5, is the best; `wanted` at the given step is raised.
std::vector<int32_t> Generate(const SamplingParams& p, std::vector<int32_t> prompt, int steps,
                              int wanted_at = -1, int32_t wanted = 0) {
  const auto prompt_tokens = static_cast<int64_t>(prompt.size());
  SequenceState state(p, 100, std::move(prompt), prompt_tokens);
  Scratch scratch;
  std::vector<int32_t> out;
  for (int i = 0; i < steps; ++i) {
    std::vector<float> row(100, 0.0f);
    row[3] = 9;
    row[5] = 8;
    if (i == wanted_at) row[static_cast<size_t>(wanted)] = 20;
    const Result<RowSample> sample = SampleRow(row, state, i, nullptr, &scratch);
    EXPECT_TRUE(sample.ok());
    EXPECT_EQ(sample->forced, sample->token == kEndThink && i != wanted_at);
    out.push_back(sample->token);
    state.Append(sample->token);
  }
  return out;
}

TEST(ThinkingBudget, OfZeroEndsAtOnce) {
  EXPECT_EQ(Generate(Thinking(0), {8, kThink}, 3), (std::vector<int32_t>{kEndThink, 5, 5}));
}

TEST(ThinkingBudget, OfOneAndMany) {
  EXPECT_EQ(Generate(Thinking(1), {kThink}, 4), (std::vector<int32_t>{5, kEndThink, 5, 5}));
  EXPECT_EQ(Generate(Thinking(3), {kThink}, 5), (std::vector<int32_t>{5, 5, 5, kEndThink, 5}));
  // Tokens of the span that the prompt already has count.
  EXPECT_EQ(Generate(Thinking(3), {kThink, 8, 8}, 3), (std::vector<int32_t>{5, kEndThink, 5}));
}

TEST(ThinkingBudget, EndedByItself) {
  EXPECT_EQ(Generate(Thinking(3), {kThink}, 5, 1, kEndThink),
            (std::vector<int32_t>{5, kEndThink, 5, 5, 5}));
}

TEST(ThinkingBudget, IsNoBusinessOfOthers) {
  EXPECT_EQ(Generate(Thinking(0), {8, 8}, 2), (std::vector<int32_t>{5, 5}));
  EXPECT_EQ(Generate(Thinking(0), {kThink, kEndThink}, 2), (std::vector<int32_t>{5, 5}));
  EXPECT_EQ(Generate(Thinking(-1), {kThink}, 2), (std::vector<int32_t>{5, 5}));
}

TEST(ThinkingBudget, HoldsForASpanThatBeginsLater) {
  EXPECT_EQ(Generate(Thinking(2), {8}, 6, 1, kThink),
            (std::vector<int32_t>{5, kThink, 5, 5, kEndThink, 5}));
}

TEST(ThinkingBudget, ForcesAgainstEveryMask) {
  SamplingParams p = Thinking(0);
  p.allowed_tokens = {5};
  p.stop_token_ids = {kEndThink};
  p.min_tokens = 2;
  std::vector<float> row(100, 0.0f);
  row[5] = 1;
  Scratch scratch;
  const SequenceState state(p, 100, {kThink}, 1);
  const Result<RowSample> sample = SampleRow(row, state, 0, nullptr, &scratch);
  EXPECT_EQ(sample->token, kEndThink);
  EXPECT_EQ(sample->end, TokenEnd::kNone);  // too early to end
  EXPECT_NEAR(sample->logprobs.chosen.logprob, -std::log(99 + std::exp(1.0)), 1e-5);
  EXPECT_EQ(sample->logprobs.chosen.rank, 1 + 91);
}

TEST(Rebuilt, EqualsGrown) {
  SamplingParams p = Thinking(12);
  p.temperature = 1;
  p.seed = 8;
  p.repetition_penalty = 1.2;
  p.frequency_penalty = 0.1;
  p.bad_words = {{4, 4}, {6}};
  p.end_tokens = {7};
  p.min_tokens = 20;
  const std::vector<int32_t> prompt = {1, kThink, 2, 2, 9};
  SequenceState grown(p, 100, prompt, 5);
  Scratch scratch;
  for (int64_t i = 0; i < 60; ++i) {
    const SequenceState rebuilt(p, 100, {grown.tokens().begin(), grown.tokens().end()}, 5);
    std::vector<float> row = RandomRow(100, static_cast<uint64_t>(i), 2);
    ASSERT_EQ(Processed(row, rebuilt), Processed(row, grown)) << i;
    ASSERT_EQ(rebuilt.must_end_thinking(), grown.must_end_thinking()) << i;
    ASSERT_EQ(rebuilt.ends_forbidden(), grown.ends_forbidden()) << i;
    ASSERT_EQ(rebuilt.output_tokens(), grown.output_tokens()) << i;
    grown.Append(SampleRow(row, grown, 5 + i, nullptr, &scratch)->token);
  }
}

TEST(NothingLeft, SaysWhy) {
  const Processor none = [](std::span<const int32_t>, std::span<float> logits) -> Status {
    std::fill(logits.begin(), logits.end(), -INFINITY);
    return {};
  };
  const auto message = [](const Result<RowSample>& r) {
    EXPECT_EQ(r.status().code(), base::Code::kInvalidArgument);
    return r.status().message();
  };
  const std::string by_words =
      message(Draw({0, 0, 0}, {.allowed_tokens = {1}, .bad_words = {{2, 1}}}, 77, {2}));
  EXPECT_NE(by_words.find("allowed_token_ids, bad_words"), std::string::npos) << by_words;
  EXPECT_NE(by_words.find("position 77"), std::string::npos) << by_words;
  const std::string by_processor = message(Draw({0, 0}, {}, 0, {}, &none));
  EXPECT_NE(by_processor.find("logits_processor"), std::string::npos) << by_processor;
  EXPECT_EQ(by_processor.find("min_tokens"), std::string::npos) << by_processor;
}

TEST(Processors, MayFailAndMustNotMakeNan) {
  const Processor fails = [](std::span<const int32_t> tokens, std::span<float>) -> Status {
    return base::Unsupported(std::string(tokens.size(), 'x'));
  };
  const Status status = Draw({0, 0}, {}, 3, {1, 1, 1}, &fails).status();
  EXPECT_EQ(status.code(), base::Code::kUnsupported);
  EXPECT_NE(status.message().find("xxx"), std::string::npos);
  const Processor nan = [](std::span<const int32_t>, std::span<float> logits) -> Status {
    logits[1] = NAN;
    return {};
  };
  EXPECT_EQ(Draw({0, 0}, {}, 3, {}, &nan).status().code(), base::Code::kInvalidArgument);
}

}  // namespace
}  // namespace thalweg::sampling
