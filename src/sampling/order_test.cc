// The order of operations: for each neighbouring pair whose order can matter, logits by hand for
// which the swapped order has another winner. Pairs that cannot matter are shown to commute.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "sampling/process.h"
#include "sampling/test_rows.h"

namespace thalweg::sampling {
namespace {

using step::SamplingParams;

int32_t Greedy(std::vector<float> logits, SamplingParams p, std::vector<int32_t> history,
               int64_t prompt_tokens, const Processor* processor = nullptr) {
  p.temperature = 0;
  Scratch scratch;
  const SequenceState state(p, static_cast<int64_t>(logits.size()), std::move(history),
                            prompt_tokens);
  const Result<RowSample> sample = SampleRow(logits, state, 9, processor, &scratch);
  EXPECT_TRUE(sample.ok()) << sample.status().ToString();
  return sample.ok() ? sample->token : -1;
}

// Every token that a draw can give.
std::set<int32_t> Support(const std::vector<float>& logits, const SamplingParams& p,
                          const Processor* processor = nullptr) {
  std::set<int32_t> tokens;
  for (int64_t position = 0; position < 3000; ++position)
    tokens.insert(Draw(logits, p, position, {}, processor)->token);
  return tokens;
}

TEST(Order, BiasThenRepetitionPenalty) {
  // Token 0 was there: (1 + 3) / 4 = 1 loses to 2; biased afterwards it had 1 / 4 + 3.
  const SamplingParams p = {.repetition_penalty = 4, .logit_bias = {{0, 3.0f}}};
  EXPECT_EQ(Greedy({1, 2}, p, {0}, 1), 1);
}

TEST(Order, RepetitionThenFrequencyPenalty) {
  // Token 0 came twice: 4 / 2 - 2 * 1 = 0 loses to 0.5; the other way (4 - 2) / 2 = 1 wins.
  const SamplingParams p = {.repetition_penalty = 2, .frequency_penalty = 1};
  EXPECT_EQ(Greedy({4, 0.5f}, p, {0, 0}, 0), 1);
}

TEST(Order, RepetitionThenPresencePenalty) {
  // 3 / 2 - 1 = 0.5 loses to 0.7; (3 - 1) / 2 = 1 wins.
  const SamplingParams p = {.repetition_penalty = 2, .presence_penalty = 1};
  EXPECT_EQ(Greedy({3, 0.7f}, p, {0}, 0), 1);
}

TEST(Order, BanThenProcessor) {
  // The processor sees the ban and lifts it; banned afterwards, token 0 could not come.
  const Processor lift = [](std::span<const int32_t>, std::span<float> logits) -> Status {
    if (logits[0] == -INFINITY) logits[0] = 9;
    return {};
  };
  EXPECT_EQ(Greedy({1, 2}, {.banned_tokens = {0}}, {}, 0, &lift), 0);
  EXPECT_EQ(Greedy({1, 2}, {.bad_words = {{1, 0}}}, {1}, 1, &lift), 0);
  EXPECT_EQ(Greedy({1, 2}, {.end_tokens = {0}, .min_tokens = 1}, {}, 0, &lift), 0);
  EXPECT_EQ(Greedy({1, 2, 3}, {.allowed_tokens = {1, 2}}, {}, 0, &lift), 0);
}

TEST(Order, PenaltiesThenProcessor) {
  // The processor doubles token 0: (5 - 2) * 2 = 6 loses to 7; 5 * 2 - 2 = 8 wins.
  const Processor twice = [](std::span<const int32_t>, std::span<float> logits) -> Status {
    logits[0] *= 2;
    return {};
  };
  EXPECT_EQ(Greedy({5, 7}, {.presence_penalty = 2}, {0}, 0, &twice), 1);
  // And the repetition penalty: 4 / 2 - 3 = -1 loses to 0; (4 - 3) / 2 = 0.5 wins.
  const Processor less = [](std::span<const int32_t>, std::span<float> logits) -> Status {
    logits[0] -= 3;
    return {};
  };
  EXPECT_EQ(Greedy({4, 0}, {.repetition_penalty = 2}, {0}, 0, &less), 1);
}

TEST(Order, ProcessorThenTemperature) {
  // The processor keeps what is above 0.6. After a temperature of 0.1, 5 and 8 both were.
  const Processor floor = [](std::span<const int32_t>, std::span<float> logits) -> Status {
    for (float& l : logits) l = l > 0.6f ? l : -INFINITY;
    return {};
  };
  EXPECT_EQ(Support({0.5f, 0.8f}, {.temperature = 0.1}, &floor), std::set<int32_t>{1});
}

TEST(Order, TemperatureThenMinP) {
  // exp(-1 / 4) = 0.78 of the best passes; before the temperature it is exp(-1) = 0.37.
  EXPECT_EQ(Support({1, 0}, {.temperature = 4, .min_p = 0.5}), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(Support({1, 0}, {.temperature = 1, .min_p = 0.5}), (std::set<int32_t>{0}));
}

TEST(Order, TemperatureThenTopP) {
  // At T = 4 the best has a share of 0.56, at T = 1 of 0.73.
  EXPECT_EQ(Support({1, 0}, {.temperature = 4, .top_p = 0.6}), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(Support({1, 0}, {.temperature = 1, .top_p = 0.6}), (std::set<int32_t>{0}));
}

TEST(Order, MinPThenTopP) {
  // Shares .4, .3, and thirty of .01. min_p leaves .4 and .3, of which the first has 0.571. All
  // together need two for 0.571.
  std::vector<float> logits(32, std::log(0.01f));
  logits[0] = std::log(0.4f);
  logits[1] = std::log(0.3f);
  EXPECT_EQ(Support(logits, {.top_p = 0.55, .min_p = 0.5}), (std::set<int32_t>{0}));
  EXPECT_EQ(Support(logits, {.top_p = 0.55}), (std::set<int32_t>{0, 1}));
}

TEST(Order, TopKThenTopP) {
  // Of the best two the first has 0.625 and is enough; of all three, two are needed.
  const std::vector<float> logits = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  EXPECT_EQ(Support(logits, {.top_k = 2, .top_p = 0.6}), (std::set<int32_t>{0}));
  EXPECT_EQ(Support(logits, {.top_p = 0.6}), (std::set<int32_t>{0, 1}));
}

TEST(Order, TruncationThenNoise) {
  // Noise before top_k would let every token win at times.
  EXPECT_EQ(Support({0.2f, 0.1f, 0}, {.top_k = 2}), (std::set<int32_t>{0, 1}));
}

TEST(Order, MinPAndTopKCommute) {
  // Both keep a prefix of one order, so the shorter one stays, whichever comes first.
  const std::vector<float> logits = {0, -0.5f, -1, -1.5f};
  EXPECT_EQ(Support(logits, {.top_k = 3, .min_p = 0.5}), (std::set<int32_t>{0, 1}));
  EXPECT_EQ(Support(logits, {.top_k = 2, .min_p = 0.3}), (std::set<int32_t>{0, 1}));
}

TEST(Order, MasksAbsorbBiasAndPenalties) {
  // -inf stays: no bias and no penalty of either sign brings a token back.
  const SamplingParams p = {.repetition_penalty = 0.5,
                            .frequency_penalty = -2,
                            .presence_penalty = -2,
                            .logit_bias = {{0, 100.0f}, {1, 100.0f}, {2, 100.0f}, {3, 100.0f}},
                            .allowed_tokens = {0, 1, 2, 4},
                            .banned_tokens = {0},
                            .bad_words = {{4, 1}},
                            .stop_token_ids = {2},
                            .min_tokens = 9};
  EXPECT_EQ(Greedy({50, 50, 50, 50, 0, 40}, p, {0, 1, 2, 3, 4}, 0), 4);
}

TEST(Order, LogprobsAreOfTheUntouchedLogits) {
  const Processor zero = [](std::span<const int32_t>, std::span<float> logits) -> Status {
    logits[0] = 0;
    return {};
  };
  const SamplingParams p = {.temperature = 0.3,
                            .top_k = 1,
                            .logit_bias = {{1, 50.0f}},
                            .banned_tokens = {2},
                            .logprobs = 3};
  const Result<RowSample> sample = Draw({1, 0, 2}, p, 0, {}, &zero);
  ASSERT_TRUE(sample.ok());
  EXPECT_EQ(sample->token, 1);
  const double sum = std::exp(1.0) + 1 + std::exp(2.0);
  EXPECT_NEAR(sample->logprobs.chosen.logprob, -std::log(sum), 1e-6);
  EXPECT_EQ(sample->logprobs.chosen.rank, 3);
  EXPECT_EQ(sample->logprobs.top[0].token, 2);
}

}  // namespace
}  // namespace thalweg::sampling
