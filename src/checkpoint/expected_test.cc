// Property: the expected list is the released checkpoint, tensor for tensor and byte for byte
// (spec/model.md 3.1, 3.2), and exactly what the golden checkpoints hold.
#include "checkpoint/expected.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "checkpoint/test_files.h"

namespace thalweg::checkpoint {
namespace {

std::vector<ExpectedTensor> Released() {
  return ExpectedTensors(Config::Load(SourceFile("tests/data/released_config.json")).value());
}

const ExpectedTensor& Named(const std::vector<ExpectedTensor>& list, std::string_view name) {
  const auto at = std::ranges::find(list, name, &ExpectedTensor::name);
  EXPECT_NE(at, list.end()) << name;
  return *at;
}

int64_t CountPrefix(const std::vector<ExpectedTensor>& list, std::string_view prefix) {
  return std::ranges::count_if(list, [&](const ExpectedTensor& t) {
    return t.name.starts_with(prefix) && t.category != Category::kEngram;
  });
}

TEST(Expected, CountsOfTheRelease) {
  const std::vector<ExpectedTensor> list = Released();
  EXPECT_EQ(list.size(), 96085u);
  std::set<std::string> names;
  for (const ExpectedTensor& tensor : list) names.insert(tensor.name);
  EXPECT_EQ(names.size(), list.size());
  EXPECT_EQ(CountPrefix(list, "layers.0."), 2334);
  EXPECT_EQ(CountPrefix(list, "layers.1."), 2334);
  EXPECT_EQ(CountPrefix(list, "layers.14."), 2342);
  EXPECT_EQ(CountPrefix(list, "layers.20."), 2341);
  EXPECT_EQ(CountPrefix(list, "layers.24."), 2337);
  EXPECT_EQ(CountPrefix(list, "mtp.0."), 801);
  EXPECT_EQ(CountPrefix(list, "mtp.1."), 798);
  EXPECT_EQ(CountPrefix(list, "mtp.2."), 802);
}

TEST(Expected, InventoryOfTheRelease) {
  std::map<Category, int64_t> counts;
  for (const ExpectedTensor& tensor : Released()) ++counts[tensor.category];
  EXPECT_EQ(counts[Category::kExpert], 94464);
  EXPECT_EQ(counts[Category::kEngram], 12);
  EXPECT_EQ(counts[Category::kGlobal], 3);
  EXPECT_EQ(counts[Category::kVision], 266);
  EXPECT_EQ(counts[Category::kDraft], 97);
}

TEST(Expected, BytesOfTheRelease) {
  int64_t bytes = 0;
  for (const ExpectedTensor& tensor : Released()) bytes += tensor.bytes();
  EXPECT_EQ(bytes, 510'286'023'000);
}

// The published size of the conversion whose experts are FP8 with 32x32 scales.
TEST(Expected, BytesWithExpertsAsFp8) {
  int64_t bytes = 0;
  for (const ExpectedTensor& tensor : Released()) {
    const bool expert = tensor.category == Category::kExpert;
    const bool scale = tensor.dtype == tensor::DType::kF8E8M0;
    bytes += !expert ? tensor.bytes() : scale ? tensor.bytes() / 32 : tensor.bytes() * 2;
  }
  EXPECT_EQ(bytes, 772'004'202'840);
}

TEST(Expected, ShapesOfTheRelease) {
  const std::vector<ExpectedTensor> list = Released();
  const auto shape = [&](const char* name) { return Named(list, name).shape.ToString(); };
  EXPECT_EQ(shape("layers.0.attn.wo_a.weight"), "[8192, 4096]");
  EXPECT_EQ(shape("layers.0.attn.wo_a.scale"), "[256, 128]");
  EXPECT_EQ(shape("layers.39.ffn.experts.383.w2.weight"), "[5120, 1152]");
  EXPECT_EQ(shape("layers.39.ffn.experts.383.w2.scale"), "[5120, 72]");
  EXPECT_EQ(shape("layers.36.attn.indexer.wq_b.weight"), "[4096, 1280]");
  EXPECT_EQ(shape("layers.14.engram.embed.scale"), "[384016682, 8]");
  EXPECT_EQ(shape("layers.1.engram.wkv.weight"), "[25600, 6144]");
  EXPECT_EQ(shape("mtp.0.main_proj.scale"), "[160, 480]");
  EXPECT_EQ(shape("mtp.2.confidence_head.proj.weight"), "[1, 5376]");
  EXPECT_EQ(shape("mtp.1.ffn.gate.bias_vl"), "[128]");
  EXPECT_EQ(shape("aligner.w1.weight"), "[5120, 9216]");
  EXPECT_EQ(shape("vision.blocks.31.mlp.w1.weight"), "[5632, 1024]");
}

// A single draft stage holds first and last stage's tensors (spec/model.md 2.8).
TEST(Expected, OneDraftStageHoldsAllHeads) {
  Config c = Config::Load(SourceFile("tests/data/tiny-a/model/config.json")).value();
  c.num_nextn_predict_layers = 1;
  c.compress_ratios.resize(9);
  ASSERT_TRUE(Validate(c).ok());
  const std::vector<ExpectedTensor> list = ExpectedTensors(c);
  for (const char* name : {"mtp.0.main_proj.weight", "mtp.0.main_norm.weight", "mtp.0.norm.weight",
                           "mtp.0.markov_head.embed.weight", "mtp.0.confidence_head.proj.weight"}) {
    EXPECT_TRUE(std::ranges::count(list, name, &ExpectedTensor::name) == 1) << name;
  }
}

}  // namespace
}  // namespace thalweg::checkpoint
