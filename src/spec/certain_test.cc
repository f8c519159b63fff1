// Forced text in front of a drawn block keeps the target's law under kRejection: what is forced is
// certain, what was drawn behind it counts where the drawn block says the same. A control that
// takes a forced token for a drawn one wherever the two agree fails the same test.
#include <gtest/gtest.h>

#include "spec/test_law.h"

namespace thalweg::spec {
namespace {

using sampling::SequenceState;
using step::SamplingParams;

constexpr int kSlots = 3;
constexpr int64_t kTrials = 60000;

// Any function of the history will do.
std::vector<int32_t> ForcedBehind(std::vector<int32_t> history, int64_t count) {
  const size_t begin = history.size();
  for (int64_t k = 0; k < count; ++k)
    history.push_back(static_cast<int32_t>((history.back() * 2 + history.size()) % kVocab));
  return {history.begin() + static_cast<std::ptrdiff_t>(begin), history.end()};
}

struct Block {
  std::vector<int32_t> drafts = {};
  std::vector<float> logits = {};
  int64_t certain = 0;
};

Block Merge(const ToyBlock& drawn, const std::vector<int32_t>& forced, bool mistaken) {
  const bool agrees = std::equal(forced.begin(), forced.end(), drawn.tokens.begin());
  if (agrees && mistaken) return {.drafts = drawn.tokens, .logits = drawn.logits};
  Block block = {.drafts = forced, .certain = static_cast<int64_t>(forced.size())};
  if (!agrees) return block;
  block.drafts = drawn.tokens;
  block.logits.assign(drawn.logits.begin() + block.certain * kVocab, drawn.logits.end());
  return block;
}

Outcome Simulate(World* w, int64_t forced, bool mistaken) {
  std::vector<int64_t> counts(kVocab * kVocab * kVocab, 0);
  sampling::Scratch scratch;
  LawBuffers buffers;
  for (int64_t t = 0; t < kTrials; ++t) {
    SamplingParams params = w->params;
    params.seed = static_cast<uint64_t>(t) * 0x9e3779b97f4a7c15u;
    SequenceState state(params, kVocab, kPrompt, 1);
    while (state.tokens().size() < 1 + kDepth) {
      const std::vector<int32_t> history(state.tokens().begin(), state.tokens().end());
      const ToyBlock drawn =
          Draft(&w->drafter, history, params, kSlots, Rule::kRejection, &buffers);
      const Block block = Merge(drawn, ForcedBehind(history, forced), mistaken);
      ToyRows rows = RunTarget(&w->target, history, block.drafts, block.drafts.size() + 1);
      Accept({.logits = rows.logits,
              .rows = static_cast<int64_t>(block.drafts.size()) + 1,
              .drafts = block.drafts,
              .certain = block.certain,
              .draft_logits = block.logits,
              .position = static_cast<int64_t>(history.size()),
              .rule = Rule::kRejection},
             &state, &scratch, &buffers);
    }
    size_t number = 0;
    for (size_t i = 0; i < kDepth; ++i)
      number = number * kVocab + static_cast<size_t>(state.tokens()[1 + i]);
    ++counts[number];
  }
  return Judge(counts, Product(w));
}

TEST(CertainDrafts, KeepTheTargetsLaw) {
  for (const int64_t forced : {1, 2, 3}) {
    SCOPED_TRACE(forced);
    World world(static_cast<uint64_t>(forced), 0.7, {.temperature = 0.9});
    ExpectPasses(Simulate(&world, forced, false));
  }
}

TEST(CertainDrafts, WouldBeBiasedIfAgreementMadeThemDrawn) {
  World world(1, 0.7, {.temperature = 0.9});
  EXPECT_FALSE(Simulate(&world, 1, true).passes());
}

}  // namespace
}  // namespace thalweg::spec
