// Under kTarget a sequence's tokens, ends and log-probabilities are those of plain decoding, bit by
// bit: whatever is drafted, however many drafts are verified, with every parameter, behind
// preemptions, greedy or seeded.
#include <gtest/gtest.h>

#include <bit>

#include "spec/draft_block.h"
#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

using sampling::RowSample;
using sampling::SequenceState;
using step::SamplingParams;

constexpr int64_t kVocab = 40;
constexpr int64_t kTokens = 60;
constexpr int kSlots = 5;
const std::vector<int32_t> kPrompt = {3, 1, 4};

std::vector<RowSample> DecodePlain(ToyModel* target, const SamplingParams& params,
                                   const ToyMasks& masks) {
  SequenceState state(params, kVocab, kPrompt, static_cast<int64_t>(kPrompt.size()));
  sampling::Scratch scratch;
  std::vector<RowSample> out;
  while (static_cast<int64_t>(out.size()) < kTokens) {
    std::vector<float> logits = target->Logits(state.tokens());
    std::vector<uint32_t> words;
    if (masks) words = masks(state.tokens());
    auto sample = sampling::SampleRow({.logits = logits,
                                       .state = &state,
                                       .position = static_cast<int64_t>(state.tokens().size()),
                                       .mask = {.words = words}},
                                      &scratch);
    EXPECT_TRUE(sample.ok()) << sample.status().ToString();
    if (!sample.ok()) break;
    out.push_back(*sample);
    state.Append(out.back().token);
    if (out.back().end != step::TokenEnd::kNone) break;
  }
  return out;
}

// How many drafts the step of this number verifies.
using Lengths = std::function<int(int64_t step)>;

std::vector<RowSample> DecodeWithDrafts(ToyModel* target, ToyDrafter* drafter,
                                        const SamplingParams& params, const ToyMasks& masks,
                                        const Lengths& lengths, int64_t* steps) {
  const auto prompt = static_cast<int64_t>(kPrompt.size());
  auto state = std::make_unique<SequenceState>(params, kVocab, kPrompt, prompt);
  sampling::Scratch scratch;
  LawBuffers buffers;
  std::vector<RowSample> out;
  for (*steps = 0; static_cast<int64_t>(out.size()) < kTokens; ++*steps) {
    const std::vector<int32_t> history(state->tokens().begin(), state->tokens().end());
    const ToyBlock block = Draft(drafter, history, params, kSlots, Rule::kTarget, &buffers);
    const auto left = static_cast<int>(kTokens) - static_cast<int>(out.size());
    const auto drafts = static_cast<size_t>(std::min(lengths(*steps), left - 1));
    ToyRows rows = RunTarget(target, history, block.tokens, drafts + 1, masks);
    Accepted made = Accept({.logits = rows.logits,
                            .rows = static_cast<int64_t>(drafts + 1),
                            .drafts = std::span(block.tokens).first(drafts),
                            .masks = rows.masks,
                            .position = static_cast<int64_t>(history.size()),
                            .rule = Rule::kTarget},
                           state.get(), &scratch, &buffers);
    EXPECT_TRUE(made.status.ok()) << made.status.ToString();
    EXPECT_FALSE(made.samples.empty());
    for (RowSample& s : made.samples) out.push_back(std::move(s));
    if (made.samples.empty() || out.back().end != step::TokenEnd::kNone) break;
    // A preemption: the state is made anew from what is known.
    if (*steps % 7 == 3) {
      const std::vector<int32_t> known(state->tokens().begin(), state->tokens().end());
      state = std::make_unique<SequenceState>(params, kVocab, known, prompt);
    }
  }
  return out;
}

void ExpectSame(const std::vector<RowSample>& a, const std::vector<RowSample>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].token, b[i].token) << "token " << i;
    ASSERT_EQ(a[i].end, b[i].end) << "token " << i;
    ASSERT_EQ(a[i].forced, b[i].forced) << "token " << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i].logprobs.chosen.logprob),
              std::bit_cast<uint32_t>(b[i].logprobs.chosen.logprob));
    ASSERT_EQ(a[i].logprobs.top.size(), b[i].logprobs.top.size());
  }
}

SamplingParams Everything() {
  SamplingParams p = {.temperature = 0.9, .top_k = 20, .top_p = 0.95, .min_p = 0.01};
  p.repetition_penalty = 1.2;
  p.frequency_penalty = 0.3;
  p.presence_penalty = -0.2;
  p.logit_bias = {{5, 2.0f}, {7, -1.5f}};
  p.banned_tokens = {11};
  p.bad_words = {{2, 9}, {13}, {4, 4, 4}};
  p.end_tokens = {0};
  p.stop_token_ids = {17};
  p.min_tokens = 20;
  p.thinking_budget = 6;
  p.think_begin_token = 30;
  p.think_end_token = 31;
  p.logprobs = 3;
  return p;
}

std::vector<SamplingParams> Cases() {
  SamplingParams ends = {.temperature = 1.2};
  ends.end_tokens = {0, 1};
  ends.stop_token_ids = {2};
  SamplingParams penalties = {.temperature = 0};
  penalties.frequency_penalty = 1.5;
  penalties.logprobs = 0;
  return {{.temperature = 0},
          {.temperature = 1},
          {.temperature = 0.7, .top_k = 5},
          {.temperature = 2, .top_p = 0.8},
          {.temperature = 1, .min_p = 0.2},
          ends,
          penalties,
          Everything()};
}

// A grammar: behind an even token an odd one, 30 to 32 anywhere.
std::vector<uint32_t> Parity(std::span<const int32_t> history) {
  const bool odd_next = history.back() % 2 == 0;
  std::vector<uint32_t> words(2, odd_next ? 0xaaaaaaaau : 0x55555555u);
  words[0] |= 0xc0000000u;
  words[1] |= 1;
  return words;
}

class TargetRule : public testing::TestWithParam<double> {};

TEST_P(TargetRule, GivesTheTokensOfPlainDecoding) {
  const Lengths all = [](int64_t) { return kSlots; };
  const Lengths none = [](int64_t) { return 0; };
  const Lengths various = [](int64_t step) { return static_cast<int>(step * 7 % 11 % 6); };
  for (SamplingParams params : Cases()) {
    for (uint64_t seed = 0; seed < 12; ++seed) {
      params.seed = seed;
      ToyModel target(kVocab, seed, 2);
      ToyDrafter drafter(&target, seed + 100, GetParam());
      const ToyMasks masks = seed % 3 == 1 ? ToyMasks(Parity) : ToyMasks();
      const auto plain = DecodePlain(&target, params, masks);
      for (const Lengths& lengths : {all, none, various}) {
        int64_t steps = 0;
        const auto drafted = DecodeWithDrafts(&target, &drafter, params, masks, lengths, &steps);
        ASSERT_NO_FATAL_FAILURE(ExpectSame(plain, drafted)) << "seed " << seed;
      }
    }
  }
}

// From a drafter that equals the target to one that knows nothing of it.
INSTANTIATE_TEST_SUITE_P(Drafters, TargetRule, testing::Values(1.0, 0.7, 0.0));

TEST(TargetRule, ADrafterLikeTheTargetIsAlwaysRight) {
  for (const double temperature : {0.0, 1.0, 1.7}) {
    const SamplingParams params = {.temperature = temperature, .top_k = 9, .seed = 5};
    ToyModel target(kVocab, 1, 2);
    ToyDrafter drafter(&target, 2, 1);
    int64_t steps = 0;
    DecodeWithDrafts(
        &target, &drafter, params, {}, [](int64_t) { return kSlots; }, &steps);
    EXPECT_EQ(steps, kTokens / (1 + kSlots)) << "temperature " << temperature;
  }
}

// Draws with the same noise agree with probability (1 - d) / (1 + d) at least, d being the total
// variation of their laws (Daliri, Musco and Suresh, 2024).
TEST(TargetRule, AgreesAsOftenAsSharedNoiseMustLet) {
  for (uint64_t world = 0; world < 6; ++world) {
    ToyModel target(kVocab, world, 2);
    ToyDrafter drafter(&target, world + 9, 0.2 + 0.15 * static_cast<double>(world));
    const std::vector<float> p = target.Logits(kPrompt), q = drafter.Logits(kPrompt);
    double p_sum = 0, q_sum = 0, variation = 0;
    for (size_t v = 0; v < p.size(); ++v) p_sum += std::exp(p[v]), q_sum += std::exp(q[v]);
    for (size_t v = 0; v < p.size(); ++v)
      variation += std::abs(std::exp(p[v]) / p_sum - std::exp(q[v]) / q_sum) / 2;
    LawBuffers buffers;
    constexpr uint64_t kSeeds = 20000;
    double equal = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      const SamplingParams params = {.temperature = 1, .seed = seed};
      const auto draw = [&](const std::vector<float>& row) {
        return *DrawDraft(row, params, 3, 2, Rule::kTarget, &buffers);
      };
      equal += draw(p) == draw(q) ? 1 : 0;
    }
    EXPECT_GT(equal / kSeeds, (1 - variation) / (1 + variation) - 0.01) << variation;
    EXPECT_LT(equal / kSeeds, 1 - variation + 0.01) << variation;
  }
}

TEST(Rule, IsTheTargetsForSeededAndGreedyRequests) {
  EXPECT_EQ(RuleFor({.temperature = 1}, true), Rule::kTarget);
  EXPECT_EQ(RuleFor({.temperature = 0}, false), Rule::kTarget);
  EXPECT_EQ(RuleFor({.temperature = 1, .top_k = 1}, false), Rule::kTarget);
  EXPECT_EQ(RuleFor({.temperature = 1}, false), Rule::kRejection);
}

}  // namespace
}  // namespace thalweg::spec
