// A block ends where its sequence does, and nothing behind comes out or is remembered: end and stop
// tokens, min_tokens, a thinking budget, a grammar that is complete, a draft that a mask forbids,
// an error in the middle, placeholders, drafts of another anchor.
#include <gtest/gtest.h>

#include "spec/draft_block.h"
#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

using sampling::SequenceState;
using step::SamplingParams;
using step::TokenEnd;

constexpr int64_t kVocab = 40;

// A target that says 1, 2, 3, ... whatever was drafted, for as many rows.
std::vector<float> Counting(size_t rows) {
  std::vector<float> logits(rows * kVocab, 0.0f);
  for (size_t r = 0; r < rows; ++r) logits[r * kVocab + r + 1] = 9;
  return logits;
}

const std::vector<int32_t> kRight = {1, 2, 3, 4, 5};

struct Step {
  std::vector<float> logits = Counting(6);
  std::vector<int32_t> drafts = kRight;
  std::vector<sampling::TokenMask> masks = {};
  sampling::Processor processor = {};
  SamplingParams params = {.temperature = 0};
  std::vector<int32_t> history = {7};
  std::unique_ptr<SequenceState> state = nullptr;

  Accepted Run(Rule rule = Rule::kTarget) {
    state = std::make_unique<SequenceState>(params, kVocab, history, 1);
    sampling::Scratch scratch;
    LawBuffers buffers;
    return Accept({.logits = logits,
                   .rows = static_cast<int64_t>(logits.size()) / kVocab,
                   .drafts = drafts,
                   .masks = masks,
                   .processor = &processor,
                   .position = 1,
                   .rule = rule},
                  state.get(), &scratch, &buffers);
  }
};

std::vector<int32_t> TokensOf(const Accepted& a) {
  std::vector<int32_t> tokens;
  for (const auto& s : a.samples) tokens.push_back(s.token);
  return tokens;
}

TEST(BlockEnds, WithTheBonus) {
  Step step;
  const Accepted a = step.Run();
  EXPECT_EQ(TokensOf(a), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(a.drafts, 5);
  EXPECT_EQ(step.state->tokens().size(), 7u);
}

TEST(BlockEnds, AtTheFirstWrongDraft) {
  for (size_t wrong = 0; wrong < 5; ++wrong) {
    Step step;
    step.drafts[wrong] = 30;
    const Accepted a = step.Run();
    EXPECT_EQ(a.drafts, static_cast<int64_t>(wrong));
    EXPECT_EQ(a.verified, 5);
    EXPECT_EQ(a.samples.size(), wrong + 1);
    EXPECT_EQ(a.samples.back().token, static_cast<int32_t>(wrong) + 1);
  }
}

TEST(BlockEnds, WithTheRowsWhenTheLastDraftHasNone) {
  Step step;
  step.logits = Counting(5);
  const Accepted a = step.Run();
  EXPECT_EQ(TokensOf(a), kRight);
  EXPECT_EQ(a.drafts, 5);
}

TEST(BlockEnds, AtAnEndToken) {
  for (const bool stop : {false, true}) {
    Step step;
    (stop ? step.params.stop_token_ids : step.params.end_tokens) = {3};
    const Accepted a = step.Run();
    EXPECT_EQ(TokensOf(a), (std::vector<int32_t>{1, 2, 3}));
    EXPECT_EQ(a.samples.back().end, stop ? TokenEnd::kStopToken : TokenEnd::kEndToken);
    EXPECT_EQ(a.drafts, 3);
    EXPECT_EQ(a.verified, 3);  // the other two were never in question
    EXPECT_EQ(step.state->tokens().size(), 4u);
  }
}

TEST(BlockEnds, NotBeforeMinTokens) {
  Step step;
  step.params.end_tokens = {1, 2, 3, 4};
  step.params.min_tokens = 2;
  // Rows 0 and 1 may not end, so their best other token comes: ids 0.
  step.drafts = {0, 0, 3, 4, 5};
  const Accepted a = step.Run();
  EXPECT_EQ(TokensOf(a), (std::vector<int32_t>{0, 0, 3}));
  EXPECT_EQ(a.samples.back().end, TokenEnd::kEndToken);
}

TEST(BlockEnds, AThinkingBudgetForcesItsTokenInTheMiddle) {
  Step step;
  step.history = {30};
  step.params.thinking_budget = 2;
  step.params.think_begin_token = 30;
  step.params.think_end_token = 31;
  for (const Rule rule : {Rule::kTarget, Rule::kRejection}) {
    step.drafts = kRight;
    step.params.temperature = rule == Rule::kTarget ? 0 : 0.01;
    Accepted a = step.Run(rule);
    EXPECT_EQ(TokensOf(a), (std::vector<int32_t>{1, 2, 31}));
    EXPECT_TRUE(a.samples.back().forced);
    step.logits = Counting(6);
    step.drafts = {1, 2, 31, 4, 5};
    a = step.Run(rule);
    EXPECT_EQ(TokensOf(a), (std::vector<int32_t>{1, 2, 31, 4, 5, 6}));
    step.logits = Counting(6);
  }
}

TEST(BlockEnds, WhenTheGrammarIsComplete) {
  const std::vector<uint32_t> all(2, ~0u);
  const std::vector<uint32_t> nothing(2, 0);
  Step step;
  step.masks = {{.words = all}, {.words = all}, {.words = nothing, .complete = true}};
  step.logits = Counting(3);
  step.drafts = {1, 2};
  const Accepted a = step.Run();
  ASSERT_TRUE(a.status.ok());
  ASSERT_EQ(a.samples.size(), 3u);
  EXPECT_TRUE(a.samples.back().fulfilled);
  EXPECT_EQ(a.samples.back().token, -1);
  EXPECT_EQ(step.state->tokens().size(), 3u);  // the anchor's history and two tokens
}

TEST(BlockEnds, AtADraftThatAMaskForbids) {
  std::vector<uint32_t> no_two(2, ~0u);
  no_two[0] &= ~(1u << 2);
  const std::vector<uint32_t> all(2, ~0u);
  for (const Rule rule : {Rule::kTarget, Rule::kRejection}) {
    Step step;
    step.params.temperature = rule == Rule::kTarget ? 0 : 0.01;
    step.masks = {{.words = all}, {.words = no_two}, {}, {}, {}, {}};
    const Accepted a = step.Run(rule);
    EXPECT_EQ(a.samples.size(), 2u);
    EXPECT_EQ(a.drafts, 1);
    EXPECT_NE(a.samples.back().token, 2);
  }
}

TEST(BlockEnds, AtAnErrorWithWhatCameBefore) {
  for (const Rule rule : {Rule::kTarget, Rule::kRejection}) {
    Step step;
    step.params.temperature = rule == Rule::kTarget ? 0 : 0.01;
    step.logits[2 * kVocab + 5] = NAN;
    const Accepted a = step.Run(rule);
    EXPECT_EQ(TokensOf(a), (std::vector<int32_t>{1, 2}));
    EXPECT_EQ(a.status.code(), base::Code::kInternal);
    EXPECT_NE(a.status.message().find("position 3"), std::string::npos) << a.status.message();
  }
}

TEST(BlockEnds, AProcessorIsAskedForReachedRowsAlone) {
  Step step;
  step.drafts[2] = 30;
  std::vector<size_t> lengths;
  step.processor = [&](std::span<const int32_t> tokens, std::span<float>) {
    lengths.push_back(tokens.size());
    return Status();
  };
  step.Run();
  EXPECT_EQ(lengths, (std::vector<size_t>{1, 2, 3}));
}

// Rows behind a placeholder, or of a padded block, hold whatever memory held.
TEST(BlockEnds, BeforePlaceholdersAndTokensThatDoNotExist) {
  for (const int32_t bad : {-1, static_cast<int32_t>(kVocab), INT32_MAX, INT32_MIN}) {
    Step step;
    step.drafts[1] = bad;
    std::fill(step.logits.begin() + 2 * kVocab, step.logits.end(), NAN);
    const Accepted a = step.Run();
    EXPECT_TRUE(a.status.ok());
    EXPECT_EQ(TokensOf(a), (std::vector<int32_t>{1, 2}));
    EXPECT_EQ(a.drafts, 1);
    EXPECT_EQ(a.verified, 1);
  }
  EXPECT_EQ(UsableDrafts(std::vector<int32_t>{-1, 2}, kVocab), 0);
  EXPECT_EQ(UsableDrafts({}, kVocab), 0);
}

TEST(DraftBlock, ServesItsOwnAnchorAlone) {
  const DraftBlock block = {.sequence = 9, .position = 100, .anchor = 5, .tokens = {1, 2, 3}};
  EXPECT_EQ(block.For(9, 100, 5, 2).size(), 2u);
  EXPECT_EQ(block.For(9, 100, 5, 8).size(), 3u);
  EXPECT_TRUE(block.For(9, 101, 5, 8).empty());   // a step between that had no drafts
  EXPECT_TRUE(block.For(9, 100, 6, 8).empty());   // another token there: a replay
  EXPECT_TRUE(block.For(10, 100, 5, 8).empty());  // another owner of the slot
  EXPECT_TRUE(DraftBlock().For(0, 0, -1, 8).empty());
}

TEST(Drafts, LogitsThatAreNotFiniteAreAnError) {
  LawBuffers buffers;
  for (const float bad : {NAN, INFINITY}) {
    std::vector<float> row(kVocab, 0.0f);
    row[3] = bad;
    EXPECT_FALSE(DrawDraft(row, {.temperature = 1}, 1, 0, Rule::kRejection, &buffers).ok());
  }
}

}  // namespace
}  // namespace thalweg::spec
