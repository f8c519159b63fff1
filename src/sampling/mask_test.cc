// A grammar's mask: what it forbids is never drawn, whatever else is asked for; log-probabilities
// stay those of the model; nothing left is an error that names who excluded it, or the end where
// the text is complete; never token 0 by default.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "sampling/sampler.h"
#include "sampling/test_rows.h"

namespace thalweg::sampling {
namespace {

constexpr int64_t kVocab = 100;

std::vector<uint32_t> MaskOf(const std::set<int32_t>& allowed) {
  std::vector<uint32_t> words((kVocab + 31) / 32);
  for (const int32_t t : allowed) words[static_cast<size_t>(t) / 32] |= uint32_t{1} << (t % 32);
  return words;
}

Result<RowSample> DrawMasked(const std::set<int32_t>& allowed, const step::SamplingParams& params,
                             bool complete = false, uint64_t seed = 1,
                             const Processor* processor = nullptr) {
  std::vector<float> logits = RandomRow(kVocab, seed, 2);
  const std::vector<uint32_t> words = MaskOf(allowed);
  const SequenceState state(params, kVocab, {5, 6}, 2);
  Scratch scratch;
  return SampleRow({.logits = logits,
                    .state = &state,
                    .position = 2,
                    .processor = processor,
                    .mask = {.words = words, .complete = complete}},
                   &scratch);
}

TEST(Mask, OnlyAllowedTokensAreDrawn) {
  const std::set<int32_t> allowed = {0, 31, 32, 63, 64, 99};
  std::set<int32_t> drawn;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    step::SamplingParams p = {.temperature = 5, .seed = seed};
    if (seed % 3 == 1) p.top_k = 3;
    if (seed % 3 == 2) p.top_p = 0.9;
    const auto sample = DrawMasked(allowed, p);
    ASSERT_TRUE(sample.ok());
    EXPECT_TRUE(allowed.contains(sample->token)) << sample->token;
    drawn.insert(sample->token);
  }
  EXPECT_EQ(drawn, allowed);
}

// Truncation is over what the mask left: the best of all tokens is not among them.
TEST(Mask, ComesBeforeTruncation) {
  const std::vector<float> logits = RandomRow(kVocab, 1, 2);
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  const int32_t only = best == 7 ? 8 : 7;
  const auto sample = DrawMasked({only}, {.temperature = 1, .top_k = 1, .min_p = 1});
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->token, only);
}

TEST(Mask, LogProbabilitiesAreThoseOfTheModel) {
  const std::vector<float> logits = RandomRow(kVocab, 1, 2);
  step::SamplingParams p = {.temperature = 1};
  p.logprobs = 3;
  const auto masked = DrawMasked({7}, p);
  ASSERT_TRUE(masked.ok());
  EXPECT_EQ(masked->token, 7);
  EXPECT_FLOAT_EQ(masked->logprobs.chosen.logprob, static_cast<float>(LogProbability(logits, 7)));
  EXPECT_EQ(masked->logprobs.top.size(), 3u);
  EXPECT_EQ(masked->logprobs.top[0].rank, 1);
}

TEST(Mask, BiasDoesNotLiftIt) {
  step::SamplingParams p = {.temperature = 1};
  p.logit_bias = {{9, 100.0F}};
  const auto sample = DrawMasked({7, 8}, p);
  ASSERT_TRUE(sample.ok());
  EXPECT_TRUE(sample->token == 7 || sample->token == 8);
}

TEST(Mask, AProcessorDoesNotLiftIt) {
  const Processor lifts = [](std::span<const int32_t>, std::span<float> logits) {
    logits[9] = 1000;
    return Status();
  };
  const auto sample = DrawMasked({7, 8}, {.temperature = 1}, false, 1, &lifts);
  ASSERT_TRUE(sample.ok());
  EXPECT_TRUE(sample->token == 7 || sample->token == 8);
}

TEST(Mask, NothingLeftIsAnErrorThatNamesWhoExcluded) {
  step::SamplingParams p = {.temperature = 1};
  p.banned_tokens = {7, 8};
  const auto sample = DrawMasked({7, 8}, p);
  ASSERT_FALSE(sample.ok());
  EXPECT_EQ(sample.status().code(), base::Code::kInvalidArgument);
  for (const std::string name : {"so_args", "banned_token_ids", "no token is left"})
    EXPECT_NE(sample.status().message().find(name), std::string::npos) << sample.status().message();
  EXPECT_FALSE(DrawMasked({}, {.temperature = 0}).ok());
  EXPECT_FALSE(DrawMasked({}, {.temperature = 1, .top_k = 5}).ok());
}

TEST(Mask, EndTokensThatEndNothingAreNoContent) {
  step::SamplingParams p = {.temperature = 0};
  p.end_tokens = {7};
  ASSERT_EQ(DrawMasked({7}, p).value().end, step::TokenEnd::kEndToken);
  p.ignore_eos = true;
  EXPECT_EQ(DrawMasked({7, 8}, p).value().token, 8);
  EXPECT_FALSE(DrawMasked({7}, p).ok());
}

// Complete, and its end cannot be said: by ignore_eos, by min_tokens, by a ban, or for lack of an
// end token.
TEST(Mask, ACompleteTextWithoutAnEndTokenEnds) {
  step::SamplingParams p = {.temperature = 1};
  p.end_tokens = {7};
  EXPECT_EQ(DrawMasked({7}, p, true).value().end, step::TokenEnd::kEndToken);
  step::SamplingParams ignoring = p;
  ignoring.ignore_eos = true;
  step::SamplingParams later = p;
  later.min_tokens = 5;
  step::SamplingParams banned = p;
  banned.banned_tokens = {7};
  for (const step::SamplingParams& one : {ignoring, later, banned}) {
    const auto sample = DrawMasked({7}, one, true);
    ASSERT_TRUE(sample.ok());
    EXPECT_TRUE(sample->fulfilled);
    EXPECT_EQ(sample->token, -1);
  }
  EXPECT_TRUE(DrawMasked({}, p, true).value().fulfilled);
}

TEST(Mask, AForcedTokenMustBeAllowed) {
  step::SamplingParams p = {.temperature = 1};
  p.thinking_budget = 0;
  p.think_begin_token = 6;  // the newest of the history
  p.think_end_token = 50;
  EXPECT_EQ(DrawMasked({50, 51}, p).value().token, 50);
  const auto refused = DrawMasked({51}, p);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("thinking_budget"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::sampling
