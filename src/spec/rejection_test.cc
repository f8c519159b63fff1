// Under kRejection the tokens follow the target's law exactly: singles, pairs and triples against
// the product of the target's conditional laws, with truncations, penalties and masks, for drafters
// of every kind, and while adversarial confidences decide what is verified. Controls that break a
// rule fail the same test.
#include <gtest/gtest.h>

#include "spec/test_law.h"

namespace thalweg::spec {
namespace {

using sampling::SequenceState;
using step::SamplingParams;

// How the drafts of a step are drawn and how many are verified; what a control changes.
struct Mistakes {
  bool greedy_drafts = false;       // drawn as an argmax, taken for draws
  double draft_temperature = 0;     // of the draw; 0: that of the law
  bool bonus_for_rejected = false;  // a fresh draw where the residual belongs
};
using Verify = std::function<int(const ToyBlock& block, int64_t step)>;

constexpr int kSlots = 3;

ToyBlock DraftFor(World* w, const std::vector<int32_t>& history, const SamplingParams& params,
                  const Mistakes& mistakes, LawBuffers* buffers) {
  SamplingParams drawn = params;
  if (mistakes.greedy_drafts) drawn.temperature = 0;
  if (mistakes.draft_temperature > 0) drawn.temperature = mistakes.draft_temperature;
  return Draft(&w->drafter, history, drawn, kSlots, Rule::kRejection, buffers);
}

// One sequence of kDepth tokens; its number among all of them.
size_t DecodeOnce(World* w, uint64_t seed, const Verify& verify, const Mistakes& mistakes,
                  sampling::Scratch* scratch, LawBuffers* buffers) {
  SamplingParams params = w->params;
  params.seed = seed;
  SequenceState state(params, kVocab, kPrompt, 1);
  for (int64_t step = 0; state.tokens().size() < 1 + kDepth; ++step) {
    const std::vector<int32_t> history(state.tokens().begin(), state.tokens().end());
    const ToyBlock block = DraftFor(w, history, params, mistakes, buffers);
    const auto drafts = static_cast<size_t>(verify(block, step));
    ToyRows rows = RunTarget(&w->target, history, block.tokens, drafts + 1, w->masks);
    VerifyBlock v = {.logits = rows.logits,
                     .rows = static_cast<int64_t>(drafts + 1),
                     .drafts = std::span(block.tokens).first(drafts),
                     .draft_logits = std::span(block.logits).first(drafts * kVocab),
                     .masks = rows.masks,
                     .position = static_cast<int64_t>(history.size()),
                     .rule = Rule::kRejection};
    const Accepted made = Accept(v, &state, scratch, buffers);
    if (!mistakes.bonus_for_rejected || made.drafts == static_cast<int64_t>(drafts)) continue;
    std::vector<int32_t> kept(state.tokens().begin(), state.tokens().end() - 1);
    ToyRows again = RunTarget(&w->target, kept, {}, 1, w->masks);
    state = SequenceState(params, kVocab, kept, 1);
    v = {.logits = again.logits, .rows = 1, .position = static_cast<int64_t>(kept.size())};
    Accept(v, &state, scratch, buffers);
  }
  size_t number = 0;
  for (size_t i = 0; i < kDepth; ++i)
    number = number * kVocab + static_cast<size_t>(state.tokens()[1 + i]);
  return number;
}

Outcome Simulate(World* w, const Verify& verify, int64_t trials, const Mistakes& mistakes = {}) {
  std::vector<int64_t> counts(kVocab * kVocab * kVocab, 0);
  sampling::Scratch scratch;
  LawBuffers buffers;
  for (int64_t t = 0; t < trials; ++t) {
    const auto seed = static_cast<uint64_t>(t) * 0x9e3779b97f4a7c15u;
    ++counts[DecodeOnce(w, seed, verify, mistakes, &scratch, &buffers)];
  }
  return Judge(counts, Product(w));
}

const Verify kAll = [](const ToyBlock&, int64_t) { return kSlots; };
constexpr int64_t kTrials = 60000;

TEST(Rejection, FollowsTheTargetsLaw) {
  for (const double share : {0.0, 0.5, 0.9, 1.0}) {
    SCOPED_TRACE(share);
    World w(7, share, {.temperature = 1});
    ExpectPasses(Simulate(&w, kAll, kTrials));
  }
}

TEST(Rejection, FollowsItUnderTruncations) {
  const std::vector<SamplingParams> cases = {
      {.temperature = 0.8, .top_k = 3},
      {.temperature = 1.3, .top_p = 0.75},
      {.temperature = 1, .min_p = 0.3},
      {.temperature = 1, .top_k = 4, .top_p = 0.9, .min_p = 0.05}};
  for (const SamplingParams& params : cases) {
    World w(8, 0.4, params);
    ExpectPasses(Simulate(&w, kAll, kTrials));
  }
}

TEST(Rejection, FollowsItWhereHistoryChangesTheLaw) {
  SamplingParams params = {.temperature = 1};
  params.frequency_penalty = 0.9;
  params.repetition_penalty = 1.4;
  params.logit_bias = {{1, 0.7f}};
  params.bad_words = {{3, 3}, {1, 4}};
  World w(9, 0.5, params);
  ExpectPasses(Simulate(&w, kAll, kTrials));
}

TEST(Rejection, FollowsItUnderMasks) {
  World w(10, 0.5, {.temperature = 1});
  // Never the token before, never one above it by 2.
  w.masks = [](std::span<const int32_t> history) {
    const auto last = static_cast<uint32_t>(history.back());
    return std::vector<uint32_t>{0x3fu & ~(1u << last) & ~(4u << last)};
  };
  ExpectPasses(Simulate(&w, kAll, kTrials));
}

TEST(Rejection, FollowsItForVariousLengths) {
  World w(11, 0.5, {.temperature = 1});
  ExpectPasses(Simulate(
      &w, [](const ToyBlock&, int64_t step) { return step % 2 == 0 ? 1 : 0; }, kTrials));
  ExpectPasses(Simulate(
      &w, [](const ToyBlock&, int64_t step) { return static_cast<int>(step % 4); }, kTrials));
}

// Whether slot k is verified may depend on the drafts before it.
TEST(Rejection, FollowsItWhereDraftsBeforeDecide) {
  World w(12, 0.3, {.temperature = 1});
  const Verify by_drafts = [](const ToyBlock& block, int64_t) {
    if (block.tokens[0] < 3) return 1;
    return block.tokens[1] % 2 == 0 ? 2 : 3;
  };
  ExpectPasses(Simulate(&w, by_drafts, kTrials));
}

TEST(Rejection, ControlsFail) {
  World w(7, 0.3, {.temperature = 1});
  EXPECT_FALSE(Simulate(&w, kAll, kTrials, {.greedy_drafts = true}).passes());
  EXPECT_FALSE(Simulate(&w, kAll, kTrials, {.draft_temperature = 1.5}).passes());
  EXPECT_FALSE(Simulate(&w, kAll, kTrials, {.bonus_for_rejected = true}).passes());
  // A draft decides whether it is verified itself.
  const Verify by_itself = [](const ToyBlock& block, int64_t) {
    return block.tokens[0] < 3 ? 0 : 1;
  };
  EXPECT_FALSE(Simulate(&w, by_itself, kTrials).passes());
}

TEST(Rejection, DraftsThatCameWithCertainty) {
  World w(13, 0, {.temperature = 1});
  std::vector<int64_t> counts(kVocab, 0);
  sampling::Scratch scratch;
  LawBuffers buffers;
  for (int64_t t = 0; t < kTrials; ++t) {
    SamplingParams params = w.params;
    params.seed = static_cast<uint64_t>(t);
    SequenceState state(params, kVocab, kPrompt, 1);
    const std::vector<int32_t> drafts = {static_cast<int32_t>(t % kVocab)};
    ToyRows rows = RunTarget(&w.target, kPrompt, drafts, 2);
    Accept({.logits = rows.logits,
            .rows = 2,
            .drafts = drafts,
            .position = 1,
            .rule = Rule::kRejection},
           &state, &scratch, &buffers);
    ++counts[static_cast<size_t>(state.tokens()[1])];
  }
  const ChiSquare result = Compare(counts, LawOf(&w, kPrompt));
  EXPECT_TRUE(result.passes()) << result.value << " against " << result.bound;
}

TEST(Rejection, EqualLawsAcceptEverything) {
  World w(14, 1, {.temperature = 1.1, .top_p = 0.9});
  sampling::Scratch scratch;
  LawBuffers buffers;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    SamplingParams params = w.params;
    params.seed = seed;
    SequenceState state(params, kVocab, kPrompt, 1);
    const ToyBlock block = Draft(&w.drafter, kPrompt, params, 3, Rule::kRejection, &buffers);
    ToyRows rows = RunTarget(&w.target, kPrompt, block.tokens, 4);
    const Accepted made = Accept({.logits = rows.logits,
                                  .rows = 4,
                                  .drafts = block.tokens,
                                  .draft_logits = block.logits,
                                  .position = 1,
                                  .rule = Rule::kRejection},
                                 &state, &scratch, &buffers);
    ASSERT_EQ(made.drafts, 3);
    ASSERT_EQ(made.samples.size(), 4u);
  }
}

// Log-probabilities are of the target's own rows of the tokens that come out, drafts or not.
TEST(Rejection, LogprobsAreOfTheRowsThatCameOut) {
  World w(16, 0.5, {.temperature = 1, .top_k = 4, .logprobs = 2});
  sampling::Scratch scratch;
  LawBuffers buffers;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SamplingParams params = w.params;
    params.seed = seed;
    SequenceState state(params, kVocab, kPrompt, 1);
    const ToyBlock block = Draft(&w.drafter, kPrompt, params, 3, Rule::kRejection, &buffers);
    ToyRows rows = RunTarget(&w.target, kPrompt, block.tokens, 4);
    const Accepted made = Accept({.logits = rows.logits,
                                  .rows = 4,
                                  .drafts = block.tokens,
                                  .draft_logits = block.logits,
                                  .position = 1,
                                  .rule = Rule::kRejection},
                                 &state, &scratch, &buffers);
    std::vector<int32_t> history = kPrompt;
    for (const sampling::RowSample& s : made.samples) {
      const auto want = sampling::PromptLogprobs(w.target.Logits(history), s.token, 2);
      EXPECT_EQ(s.logprobs.chosen.logprob, want->chosen.logprob);
      EXPECT_EQ(s.logprobs.chosen.rank, want->chosen.rank);
      EXPECT_EQ(s.logprobs.top.size(), 2u);
      history.push_back(s.token);
    }
  }
}

// What is accepted on average is what the laws have in common: the sum of min(p, q).
TEST(Rejection, AcceptsAsOftenAsTheLawsOverlap) {
  World w(15, 0.3, {.temperature = 1});
  const std::vector<double> p = LawOf(&w, kPrompt);
  const std::vector<float> q_logits = w.drafter.Logits(kPrompt);
  double sum = 0, overlap = 0;
  for (const float l : q_logits) sum += std::exp(l);
  for (size_t v = 0; v < p.size(); ++v)
    overlap += std::min(p[v], std::exp(static_cast<double>(q_logits[v])) / sum);
  sampling::Scratch scratch;
  LawBuffers buffers;
  double accepted = 0;
  for (int64_t t = 0; t < kTrials; ++t) {
    SamplingParams params = w.params;
    params.seed = static_cast<uint64_t>(t);
    SequenceState state(params, kVocab, kPrompt, 1);
    const ToyBlock block = Draft(&w.drafter, kPrompt, params, 1, Rule::kRejection, &buffers);
    ToyRows rows = RunTarget(&w.target, kPrompt, block.tokens, 1);
    accepted += static_cast<double>(Accept({.logits = rows.logits,
                                            .rows = 1,
                                            .drafts = block.tokens,
                                            .draft_logits = block.logits,
                                            .position = 1,
                                            .rule = Rule::kRejection},
                                           &state, &scratch, &buffers)
                                        .drafts);
  }
  EXPECT_NEAR(accepted / kTrials, overlap, 4 * std::sqrt(0.25 / kTrials));
}

}  // namespace
}  // namespace thalweg::spec
