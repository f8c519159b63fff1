// What a model will take, before anything is allocated: the release's bytes per token and per
// sequence, and growth with what is asked for.
#include <gtest/gtest.h>

#include "kernels/backends.h"
#include "model/device_plan.h"
#include "model/model.h"
#include "model/replay.h"

namespace thalweg::model {
namespace {

using checkpoint::Config;

constexpr int64_t kTokens = 64;    // of a block
constexpr int64_t kKvBytes = 890;  // of a token (spec/model.md 4.1)

Config Released() {
  return Config::Load(THALWEG_SOURCE_DIR "/tests/data/released_config.json").value();
}

TEST(MemoryPlan, CacheOfTheRelease) {
  ModelOptions options;
  options.max_tokens = 1 << 20;
  // One spare block a sequence, because each may end in a block of its own.
  EXPECT_EQ(PlanMemory(Released(), options).cache_blocks, ((1 << 20) + kTokens) * kKvBytes);
  options.max_tokens = 65;
  options.max_sequences = 3;
  EXPECT_EQ(PlanMemory(Released(), options).cache_blocks, (2 + 3) * kTokens * kKvBytes);
}

TEST(MemoryPlan, NoTokensMeansOneFullContext) {
  const ModelOptions options;
  ModelOptions full;
  full.max_tokens = Released().max_position_embeddings;
  EXPECT_EQ(PlanMemory(Released(), options).cache_blocks,
            PlanMemory(Released(), full).cache_blocks);
}

TEST(MemoryPlan, SlotOfTheRelease) {
  ModelOptions options;
  const int64_t rings = 43 * 140 * 528;         // window rows (spec/model.md 4.2)
  const int64_t pending = 3 * 8 * 2 * 512 * 4;  // half groups of 7 odd lengths and one more
  const int64_t history = (4 + 12) * 4;         // compressed ids
  EXPECT_EQ(PlanMemory(Released(), options).sequence_slots, rings + pending + history);
  options.max_sequences = 5;
  EXPECT_EQ(PlanMemory(Released(), options).sequence_slots, 5 * (rings + pending + history));
}

TEST(MemoryPlan, WorkspaceGrowsWithRows) {
  ModelOptions options;
  options.max_rows = 64;
  const int64_t small = PlanMemory(Released(), options).workspace;
  options.max_rows = 512;
  const int64_t large = PlanMemory(Released(), options).workspace;
  // A row holds at least its streams and queries.
  EXPECT_GT(large - small, 448 * 2 * (4 * 5120 + 64 * 512));
  EXPECT_LT(large, 8 * small + 1);
}

// A rank that shares the experts with others packs its own alone.
TEST(MemoryPlan, ExpertsOfARank) {
  const Config config = Released();
  ModelOptions options;
  options.ops = &kernels::CpuOps(kernels::Numerics::kExact);
  const int64_t all = PlanMemory(config, options).packed_weights;
  const auto packed = [&](int64_t experts_of_layer) {
    options.expert_blocks = config.num_hidden_layers * experts_of_layer;
    return PlanMemory(config, options).packed_weights;
  };
  EXPECT_EQ(packed(config.n_routed_experts), all);
  const int64_t half = packed(config.n_routed_experts / 2),
                quarter = packed(config.n_routed_experts / 4);
  EXPECT_EQ(all - half, 2 * (half - quarter));
  EXPECT_LT(quarter, all * 3 / 10);  // routed experts are nearly everything
}

// Shapes that no kernel of a device has a body for are refused before anything is allocated.
TEST(MemoryPlan, ADeviceRefusesWhatItsKernelsDoNotTake) {
  tensor::Memory elsewhere = tensor::HostMemory();
  elsewhere.host = false;
  kernels::Ops device = kernels::ReferenceOps();
  device.memory = &elsewhere;
  ModelOptions options;
  options.ops = &device;
  EXPECT_TRUE(CheckDeviceLimits(Released(), options).ok());
  Config wide = Released();
  wide.head_dim = 1024;
  const Status refused = CheckDeviceLimits(wide, options);
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("head_dim is 1024"), std::string::npos) << refused.message();
  Config many = Released();
  many.n_routed_experts = 1025;
  EXPECT_FALSE(CheckDeviceLimits(many, options).ok());
  options.ops = nullptr;
  EXPECT_TRUE(CheckDeviceLimits(many, options).ok());
}

// On a device there is no mapped file to multiply from: everything is uploaded, packed or not.
TEST(MemoryPlan, ADeviceHoldsEveryTensor) {
  tensor::Memory memory = tensor::HostMemory();
  memory.host = false;
  kernels::Ops ops = kernels::ReferenceOps();  // packs nothing
  ops.memory = &memory;
  ModelOptions options;
  options.ops = &ops;
  options.repack = Repack::kNever;
  const MemoryPlan plan = PlanMemory(Released(), options);
  EXPECT_EQ(plan.packed_weights, plan.weights_mapped);
  ops.packed_bytes = [](const kernels::Matrix& m) { return m.rows * 64; };
  EXPECT_NE(PlanMemory(Released(), options).packed_weights, plan.weights_mapped);
  ops.memory = &tensor::HostMemory();
  EXPECT_EQ(PlanMemory(Released(), options).packed_weights, 0);
}

// A pool that is told whose block is whose has none to spare.
TEST(MemoryPlan, BlocksFromOutsideAreCountedOutside) {
  ModelOptions options;
  options.max_tokens = 65;
  options.max_sequences = 3;
  options.blocks_from_outside = true;
  EXPECT_EQ(PlanMemory(Released(), options).cache_blocks, 2 * kTokens * kKvBytes);
}

}  // namespace
}  // namespace thalweg::model
