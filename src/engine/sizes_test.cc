// Sizes of the cache: what options leave open fits into the memory that is free, what they ask for
// is kept or refused with the numbers, and more memory never means less cache.
#include "engine/sizes.h"

#include <gtest/gtest.h>

namespace thalweg::engine {
namespace {

checkpoint::Config NanoConfig() {
  auto config = checkpoint::Config::Load(std::filesystem::path(THALWEG_SOURCE_DIR) /
                                         "models/nano/config.json");
  TW_CHECK(config.ok());
  return *config;
}

Result<Sizes> Choose(const EngineOptions& options, int64_t free_bytes) {
  model::ModelOptions model;
  model.ops = &kernels::CpuOps();
  model.repack = options.repack;
  return ChooseSizes(NanoConfig(), options, model, free_bytes);
}

constexpr int64_t kMib = 1 << 20;

TEST(Sizes, ChosenSizesFitAndGrowWithTheMemory) {
  int64_t last_tokens = 0;
  for (const int64_t mib : {150, 200, 400, 1000, 4000, 100000}) {
    const auto sizes = Choose({}, mib * kMib);
    ASSERT_TRUE(sizes.ok()) << mib << ": " << sizes.status().ToString();
    EXPECT_LE(NeededBytes(sizes->memory), mib * kMib);
    EXPECT_EQ(sizes->cache_tokens % kBlockTokens, 0);
    EXPECT_LE(sizes->context_tokens, sizes->cache_tokens);
    EXPECT_GE(sizes->cache_tokens, last_tokens) << mib;
    last_tokens = sizes->cache_tokens;
  }
  const EngineOptions defaults;
  EXPECT_EQ(last_tokens, defaults.max_sequences * NanoConfig().max_position_embeddings);
}

TEST(Sizes, WhatIsAskedForIsKept) {
  EngineOptions options;
  options.cache_tokens = 1000;
  options.max_context = 900;
  options.cache_checkpoints = 3;
  const auto sizes = Choose(options, 4000 * kMib);
  ASSERT_TRUE(sizes.ok());
  EXPECT_EQ(sizes->cache_tokens, 1024);
  EXPECT_EQ(sizes->context_tokens, 900);
  EXPECT_EQ(sizes->checkpoints, 3);
}

TEST(Sizes, AContextThatNobodyAskedForShrinksToTheCache) {
  EngineOptions options;
  options.cache_tokens = 640;
  const auto sizes = Choose(options, 4000 * kMib);
  ASSERT_TRUE(sizes.ok());
  EXPECT_EQ(sizes->context_tokens, 640);
}

TEST(Sizes, WithoutReuseThereAreNoCheckpoints) {
  EngineOptions options;
  EXPECT_GT(Choose(options, 4000 * kMib)->checkpoints, 0);
  options.prefix_reuse = false;
  EXPECT_EQ(Choose(options, 4000 * kMib)->checkpoints, 0);
}

TEST(Sizes, PackedWeightsGoBeforeTheModelIsRefused) {
  EngineOptions options;
  options.max_sequences = 1;
  options.max_context = 64;
  options.max_rows = 16;
  const auto roomy = Choose(options, 4000 * kMib);
  ASSERT_TRUE(roomy.ok());
  ASSERT_GT(roomy->memory.packed_weights, 0);
  const auto tight = Choose(options, roomy->memory.packed_weights);
  ASSERT_TRUE(tight.ok()) << tight.status().ToString();
  EXPECT_EQ(tight->memory.packed_weights, 0);
}

TEST(Sizes, WhatDoesNotFitIsRefusedWithTheNumbers) {
  EngineOptions options;
  options.cache_tokens = int64_t{1} << 30;
  const auto sizes = Choose(options, 300 * kMib);
  ASSERT_FALSE(sizes.ok());
  EXPECT_EQ(sizes.status().code(), base::Code::kResourceExhausted);
  for (const char* part : {"300 MiB are free", "1073741824 tokens", "--cache-tokens"})
    EXPECT_NE(sizes.status().message().find(part), std::string::npos) << sizes.status().message();
}

TEST(Sizes, AContextBeyondTheModelsIsOutOfRange) {
  EngineOptions options;
  options.max_context = NanoConfig().max_position_embeddings + 1;
  EXPECT_EQ(Choose(options, -1).status().code(), base::Code::kOutOfRange);
}

}  // namespace
}  // namespace thalweg::engine
