// What decides whether a draft is verified knows nothing of it: with the budget from earlier steps
// and the best survivals first, rejection sampling keeps the target's law where confidences do
// their worst; a search on current confidences, and draws that use a noise twice, are biased as the
// paper's example says they must be (spec/decoding.md 1.5, 1.6).
#include <gtest/gtest.h>

#include <array>

#include "spec/test_world.h"
#include "spec/verification.h"

namespace thalweg::spec {
namespace {

using sampling::SequenceState;
using step::SamplingParams;

// Two tokens, A = 0 and B = 1: p = (.7, .3), q = (.5, .5), whatever came before.
const std::vector<float> kTarget = {std::log(0.7f), std::log(0.3f)};
const std::vector<float> kDraft = {std::log(0.5f), std::log(0.5f)};

// The paper's costs: a step of 1, 2, 3 rows runs 1, .5, .45 times a second.
CostProfile PaperProfile() {
  CostProfile profile;
  profile.steps = {{1, 1, 1}, {1, 2, 1 / 0.5}, {1, 3, 1 / 0.45}};
  profile.drafts = {{1, 1e-9}};
  return profile;
}

// Confidence in the second draft: all but certain behind A, none behind B.
std::vector<double> SurvivalsOf(std::span<const int32_t> drafts) {
  return {0.8, 0.8 * (drafts[0] == 0 ? 0.9 : 0)};
}

struct PaperSequence {
  SamplingParams params = {.temperature = 1};
  std::unique_ptr<SequenceState> state = nullptr;
  std::vector<int32_t> drafts = {};
  std::vector<double> survivals = {};

  explicit PaperSequence(uint64_t seed) {
    params.seed = seed;
    state = std::make_unique<SequenceState>(params, 2, std::vector<int32_t>{0}, 1);
  }
  int64_t position() const { return static_cast<int64_t>(state->tokens().size()); }

  // same_noise: as if draws were keyed by position alone.
  void MakeDrafts(LawBuffers* buffers, bool same_noise = false) {
    drafts.clear();
    for (int slot = 0; slot < 2; ++slot)
      drafts.push_back(*DrawDraft(kDraft, params, position() + slot, same_noise ? 0 : slot,
                                  Rule::kRejection, buffers));
    survivals = SurvivalsOf(drafts);
  }

  void Verify(int64_t count, sampling::Scratch* scratch, LawBuffers* buffers) {
    const auto n = static_cast<size_t>(count);
    std::vector<float> logits, draft_logits;
    for (size_t i = 0; i <= n; ++i) logits.insert(logits.end(), kTarget.begin(), kTarget.end());
    for (size_t i = 0; i < n; ++i)
      draft_logits.insert(draft_logits.end(), kDraft.begin(), kDraft.end());
    Accept({.logits = logits,
            .rows = count + 1,
            .drafts = std::span(drafts).first(n),
            .draft_logits = draft_logits,
            .position = position(),
            .rule = Rule::kRejection},
           state.get(), scratch, buffers);
  }
};

constexpr int64_t kTrials = 40000;
// Four standard deviations of a share near .7.
const double kSpread = 4 * std::sqrt(0.7 * 0.3 / kTrials);

// The share of A among first tokens, when `decide` says how many drafts are verified.
template <typename Decide>
double ShareOfA(const Decide& decide) {
  sampling::Scratch scratch;
  LawBuffers buffers;
  double a = 0;
  for (int64_t t = 0; t < kTrials; ++t) {
    PaperSequence s(static_cast<uint64_t>(t));
    s.MakeDrafts(&buffers);
    s.Verify(decide(s, t), &scratch, &buffers);
    a += s.state->tokens()[1] == 0 ? 1 : 0;
  }
  return a / kTrials;
}

TEST(Anticipation, ASearchOnCurrentConfidencesIsBiased) {
  const CostTable costs(PaperProfile());
  const auto search = [&](const PaperSequence& s, int64_t) {
    return ChooseBudget(costs, {.sequences = 1, .drafting = 1, .max_drafts = 2}, s.survivals)
        .drafts;
  };
  EXPECT_NEAR(ShareOfA(search), 0.85, kSpread);
}

TEST(Anticipation, ABudgetFromOlderConfidencesIsNot) {
  const CostTable costs(PaperProfile());
  std::vector<double> older = {1, 1};
  const auto decide = [&](const PaperSequence& s, int64_t) {
    const Budget budget =
        ChooseBudget(costs, {.sequences = 1, .drafting = 1, .max_drafts = 2}, older);
    older = s.survivals;
    std::array<int32_t, 1> lengths = {};
    Allocate(s.survivals, std::array<int32_t, 1>{2}, budget.drafts, lengths);
    return int64_t{lengths[0]};
  };
  EXPECT_NEAR(ShareOfA(decide), 0.7, kSpread);
}

// Two sequences compete for a fixed budget of current confidences: what the other drafted may
// decide, and what stands before, but not the draft itself.
TEST(Anticipation, AnAllocationOfCurrentConfidencesIsNot) {
  sampling::Scratch scratch;
  LawBuffers buffers;
  for (int64_t budget = 0; budget <= 4; ++budget) {
    std::array<int64_t, 4> counts = {};  // of both first tokens
    for (int64_t t = 0; t < kTrials / 2; ++t) {
      PaperSequence a(static_cast<uint64_t>(2 * t)), b(static_cast<uint64_t>(2 * t + 1));
      a.MakeDrafts(&buffers);
      b.MakeDrafts(&buffers);
      // Slot 0 of b is verified where the first draft of a leaves it a place.
      const std::vector<double> both = {0.8, a.survivals[1], 0.5, 0.5 / 0.8 * b.survivals[1]};
      std::array<int32_t, 2> lengths = {};
      Allocate(both, std::array<int32_t, 2>{2, 2}, budget, lengths);
      a.Verify(lengths[0], &scratch, &buffers);
      b.Verify(lengths[1], &scratch, &buffers);
      ++counts[static_cast<size_t>(2 * a.state->tokens()[1] + b.state->tokens()[1])];
    }
    const std::array<double, 4> law = {0.49, 0.21, 0.21, 0.09};
    const ChiSquare result = Compare(counts, law);
    EXPECT_TRUE(result.passes()) << "budget " << budget << ": " << result.value << " against "
                                 << result.bound;
  }
}

// Position 2 is drafted in the first step, as slot 1, and again in the second, as slot 0. The
// first step verifies nothing; the second verifies where the first step's draft was A.
double ShareOfSecondA(bool same_noise) {
  sampling::Scratch scratch;
  LawBuffers buffers;
  double a = 0;
  for (int64_t t = 0; t < kTrials; ++t) {
    PaperSequence s(static_cast<uint64_t>(t));
    s.MakeDrafts(&buffers, same_noise);
    const bool verify_next = s.drafts[1] == 0;
    s.Verify(0, &scratch, &buffers);
    s.MakeDrafts(&buffers, same_noise);
    s.Verify(verify_next ? 1 : 0, &scratch, &buffers);
    a += s.state->tokens()[2] == 0 ? 1 : 0;
  }
  return a / kTrials;
}

TEST(Anticipation, DraftsOfAPositionAreDrawnAnewBehindEachAnchor) {
  EXPECT_NEAR(ShareOfSecondA(false), 0.7, kSpread);
  EXPECT_NEAR(ShareOfSecondA(true), 0.85, kSpread);
}

}  // namespace
}  // namespace thalweg::spec
