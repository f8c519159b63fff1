// Weights are packed once at load: every matrix of target and drafter, from which the same logits
// and drafts come as from the stored form; never more than was planned; and not where memory is
// short.
#include "model/packing.h"

#include "tests/invariance/checkpoints.h"
#include "tests/invariance/copying_ops.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kRows = 20;

struct Outputs {
  std::vector<float> logits;
  std::vector<float> drafts;
};

Outputs RunModel(model::Model* model) {
  const std::vector<int32_t> text = SomeText(model->config(), kRows, 1);
  const kvpool::SequenceId id = model->pool().Open().value();
  const model::Chunk chunk{.sequence = id, .tokens = text, .logits = model::LogitRows::kAll};
  model::StepOutput step;
  EXPECT_TRUE(model->Step({&chunk, 1}, &step).ok());
  model::DraftOutput draft;
  const model::DraftRequest request{id, text.front()};
  EXPECT_TRUE(model->Draft({&request, 1}, &draft).ok());
  return {step.logits, draft.logits};
}

class Packing : public ::testing::TestWithParam<const char*> {
 protected:
  const checkpoint::Checkpoint& checkpoint() const { return Shipped(GetParam()); }
  std::unique_ptr<model::Model> Load(const kernels::Ops& ops, model::Repack repack) const {
    model::ModelOptions options = OptionsFor(ops, 2, 1, 64);
    options.repack = repack;
    return LoadModel(checkpoint(), options);
  }
};

// CopyingOps checks that every matrix it is handed was packed.
TEST_P(Packing, PackedWeightsGiveTheSameResults) {
  const auto packed = Load(CopyingOps(), model::Repack::kAlways);
  const auto stored = Load(kernels::ReferenceOps(), model::Repack::kAlways);
  EXPECT_EQ(stored->packed_bytes(), 0);
  const Outputs a = RunModel(packed.get());
  const Outputs b = RunModel(stored.get());
  EXPECT_EQ(a.logits, b.logits);
  EXPECT_EQ(a.drafts, b.drafts);
}

TEST_P(Packing, TakesWhatWasPlanned) {
  const auto model = Load(CopyingOps(), model::Repack::kAlways);
  const model::MemoryPlan plan = model::PlanMemory(model->config(), model->options());
  EXPECT_EQ(model->packed_bytes(), plan.packed_weights);
  EXPECT_GT(plan.packed_weights, 0);
  EXPECT_LT(plan.packed_weights, plan.weights_mapped);
}

TEST_P(Packing, NeverMeansNever) {
  model::ModelOptions options = OptionsFor(CopyingOps(), 1, 1, 64);
  options.repack = model::Repack::kNever;
  EXPECT_EQ(LoadModel(checkpoint(), options)->packed_bytes(), 0);
  EXPECT_EQ(model::PlanMemory(checkpoint().config(), options).packed_weights, 0);
}

TEST_P(Packing, WhatDoesNotFitIsLeftOrRefused) {
  kernels::Ops greedy = CopyingOps();
  greedy.packed_bytes = [](const kernels::Matrix&) { return int64_t{1} << 40; };
  greedy.pack = [](const kernels::Stream&, const kernels::Matrix&, void*) { FAIL(); };
  EXPECT_EQ(Load(greedy, model::Repack::kAuto)->packed_bytes(), 0);
  model::ModelOptions options = OptionsFor(greedy, 1, 1, 64);
  options.repack = model::Repack::kAlways;
  const auto refused = model::Model::Load(checkpoint(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), base::Code::kResourceExhausted);
  EXPECT_NE(refused.status().message().find("--repack"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Shipped, Packing, ::testing::Values("tiny-a", "tiny-b", "nano"));

TEST(Fits, WithRoomToSpare) {
  constexpr int64_t kGiB = 1 << 30;
  EXPECT_TRUE(model::FitsInto(16 * kGiB, 10 * kGiB, 2 * kGiB));
  EXPECT_FALSE(model::FitsInto(16 * kGiB, 13 * kGiB, 2 * kGiB));
  EXPECT_FALSE(model::FitsInto(16 * kGiB, 10 * kGiB, 5 * kGiB));
  EXPECT_FALSE(model::FitsInto(kGiB / 4, 1, 0));
  EXPECT_FALSE(model::FitsInto(-1, 1, 0));
}

}  // namespace
}  // namespace thalweg::tests
