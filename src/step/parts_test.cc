// A plan of several ranks falls into the plans that it was made of, whatever they hold; results
// come together in the plan's order; a result that cannot be that of its plan is refused.
#include "step/parts.h"

#include <gtest/gtest.h>

#include "step/codec.h"

namespace thalweg::step {
namespace {

constexpr int32_t kSlots = 4;

// A sequence that begins, one that goes on, a slot that is given back.
StepPlan PartOf(int32_t seed) {
  StepPlan plan = {.number = 7, .closes = {3}};
  plan.starts.push_back({.slot = 3,
                         .sequence = 100 + static_cast<uint64_t>(seed),
                         .tokens = {seed, 2, 3},
                         .prompt_tokens = 3,
                         .end_tokens = 9});
  plan.rows.push_back({.slot = 3,
                       .sequence = 100 + static_cast<uint64_t>(seed),
                       .count = 3,
                       .sample = true,
                       .new_blocks_count = 2});
  plan.rows.push_back({.slot = 1,
                       .sequence = 5,
                       .start = 64,
                       .count = 1,
                       .known_tokens = false,
                       .sample = true,
                       .new_blocks_begin = 2,
                       .new_blocks_count = 1});
  plan.blocks = {seed, seed + 1, seed + 2};
  return plan;
}

std::string Bytes(const StepPlan& plan) {
  std::string bytes;
  EncodePlan(plan, &bytes);
  return bytes;
}

// Ranks 0 and 2 of four have something to do.
StepPlan Whole() {
  StepPlan whole = {.number = 7};
  for (const int32_t rank : {0, 2}) {
    StepPlan part = PartOf(rank);
    AppendPart(&part, rank * kSlots, &whole);
  }
  return whole;
}

TEST(Parts, APlanFallsIntoWhatItWasMadeOf) {
  const StepPlan whole = Whole();
  EXPECT_TRUE(CheckPlan(whole).ok());
  StepPlan part = PartOf(9);  // replaced
  for (int32_t rank = 0; rank < 4; ++rank) {
    TakePart(whole, rank * kSlots, kSlots, &part);
    const StepPlan expected = rank % 2 == 0 ? PartOf(rank) : StepPlan{.number = 7};
    EXPECT_EQ(Bytes(part), Bytes(expected)) << rank;
  }
}

StepResult ResultOf(const StepPlan& plan, int32_t token) {
  StepResult result = {.number = plan.number};
  for (const SequenceRows& rows : plan.rows) {
    SequenceResult& own =
        result.sequences.emplace_back(SequenceResult{.slot = rows.slot, .sequence = rows.sequence});
    result.Append(&own, {.token = token++});
  }
  return result;
}

TEST(Parts, ResultsComeTogetherInTheOrderOfThePlan) {
  const StepPlan whole = Whole();
  StepResult result = {.number = 7};
  for (const int32_t rank : {0, 2}) {
    StepPlan part;
    TakePart(whole, rank * kSlots, kSlots, &part);
    AppendPartResult(part, ResultOf(part, 10 * rank), rank * kSlots, &result);
  }
  EXPECT_TRUE(CheckResult(whole, result).ok());
  const std::vector<int32_t> expected = {0, 1, 20, 21};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(result.TokensOf(result.sequences[i])[0].token, expected[i]);
}

TEST(Parts, AStepThatFailedOnOneRankFailsItsEntries) {
  const StepPlan plan = PartOf(1);
  StepResult part = ResultOf(plan, 0);
  part.status = base::Internal("lost");
  StepResult whole = {.number = 7};
  AppendPartResult(plan, std::move(part), kSlots, &whole);
  EXPECT_TRUE(whole.status.ok());
  EXPECT_TRUE(whole.tokens.empty());
  ASSERT_EQ(whole.sequences.size(), 2u);
  for (const SequenceResult& r : whole.sequences) EXPECT_EQ(r.status.message(), "lost");
  EXPECT_EQ(whole.sequences[0].slot, kSlots + 3);
}

TEST(Parts, ResultsThatDoNotFitAreRefused) {
  const StepPlan plan = PartOf(1);
  const auto refused = [&](const auto& change) {
    StepResult result = ResultOf(plan, 0);
    change(&result);
    return !CheckResult(plan, result).ok();
  };
  EXPECT_FALSE(refused([](StepResult*) {}));
  EXPECT_TRUE(refused([](StepResult* r) { r->number = 8; }));
  EXPECT_TRUE(refused([](StepResult* r) { r->sequences.pop_back(); }));
  EXPECT_TRUE(refused([](StepResult* r) { std::swap(r->sequences[0], r->sequences[1]); }));
  EXPECT_TRUE(refused([](StepResult* r) { r->sequences[1].tokens_count = 2; }));
  EXPECT_FALSE(refused([](StepResult* r) { r->status = base::Internal("x"), r->sequences = {}; }));
}

}  // namespace
}  // namespace thalweg::step
