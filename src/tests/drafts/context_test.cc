// Rows that are left out of the draft module's context change no bit of the target; later blocks
// see exactly what came behind them, also where rows are taken back.
#include <gtest/gtest.h>

#include "tests/nano/nano_files.h"
#include "tools/generate.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kPrompt = 40, kBehind = 9;

std::vector<int32_t> Ids(int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(i * 131 % 5000 + 300));
  return ids;
}

std::vector<float> Append(model::Model& model, kvpool::SequenceId id, int64_t count, bool context) {
  const std::vector<int32_t> all = Ids(model.pool().length(id) + count);
  const model::Chunk chunk{.sequence = id,
                           .tokens = std::span(all).last(static_cast<size_t>(count)),
                           .logits = model::LogitRows::kAll,
                           .draft_context = context};
  model::StepOutput output;
  EXPECT_TRUE(model.Step({&chunk, 1}, &output).ok());
  return output.logits;
}

model::DraftOutput Draft(model::Model& model, kvpool::SequenceId id) {
  const model::DraftRequest request{.sequence = id, .token = 321};
  model::DraftOutput output;
  EXPECT_TRUE(model.Draft({&request, 1}, &output).ok());
  return output;
}

TEST(DraftContext, LeavesTheTargetAlone) {
  tools::Session session = OpenNano("cpu", 2);
  model::Model& model = *session.model;
  const auto a = tools::ScopedSequence::Open(model), b = tools::ScopedSequence::Open(model);
  EXPECT_EQ(Append(model, a->id(), kPrompt, true), Append(model, b->id(), kPrompt, false));
  EXPECT_EQ(Append(model, a->id(), 3, true), Append(model, b->id(), 3, false));
  EXPECT_EQ(model.pool().draft_floor(a->id()), 0);
  EXPECT_EQ(model.pool().draft_floor(b->id()), kPrompt + 3);
}

TEST(DraftContext, BeginsBehindWhatWasLeftOut) {
  tools::Session session = OpenNano("cpu", 2);
  model::Model& model = *session.model;
  const auto whole = tools::ScopedSequence::Open(model), left = tools::ScopedSequence::Open(model);
  for (const bool context : {true, false}) {
    const kvpool::SequenceId id = (context ? whole : left)->id();
    Append(model, id, kPrompt, context);
    Append(model, id, kBehind, true);
  }
  const model::DraftOutput full = Draft(model, whole->id()), later = Draft(model, left->id());
  EXPECT_NE(full.logits, later.logits);
  model.pool().set_draft_floor(whole->id(), kPrompt);
  EXPECT_EQ(Draft(model, whole->id()).logits, later.logits);
  EXPECT_EQ(model.pool().draft_floor(left->id()), kPrompt);
}

// What is taken back takes the floor with it.
TEST(DraftContext, FollowsTheLengthDown) {
  tools::Session session = OpenNano("cpu", 1);
  model::Model& model = *session.model;
  const auto sequence = tools::ScopedSequence::Open(model);
  Append(model, sequence->id(), kPrompt, true);
  Append(model, sequence->id(), 6, false);
  EXPECT_EQ(model.pool().draft_floor(sequence->id()), kPrompt + 6);
  ASSERT_TRUE(model.pool().Truncate(sequence->id(), kPrompt + 2).ok());
  EXPECT_EQ(model.pool().draft_floor(sequence->id()), kPrompt + 2);
  Append(model, sequence->id(), 4, true);
  EXPECT_EQ(model.pool().draft_floor(sequence->id()), kPrompt + 2);
  EXPECT_EQ(Draft(model, sequence->id()).tokens.size(), 5u);
}

}  // namespace
}  // namespace thalweg::tests
