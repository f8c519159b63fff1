// Property: a directory opens only when every wanted tensor is there with the right dtype and
// shape; everything else is one error that lists the first ten problems and the count.
#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/test_files.h"

namespace thalweg::checkpoint {
namespace {

namespace fs = std::filesystem;
using base::Json;

constexpr const char* kIndex = "model.safetensors.index.json";

// A copy of tiny-a that a test may break.
class Copy {
 public:
  Copy() { fs::copy(SourceFile("tests/data/tiny-a/model"), path(), fs::copy_options::recursive); }
  const fs::path& path() const { return folder_.path(); }
  fs::path Shard(int i) const {
    return path() / ("model-0000" + std::to_string(i) + "-of-00003.safetensors");
  }
  Status Open(const LoadFilter& filter = {}) const {
    return Checkpoint::Open(path(), filter).status();
  }
  void Write(const std::string& name, std::string_view content) const {
    ASSERT_TRUE(base::WriteFile(path() / name, content).ok());
  }
  Json Index() const { return Json::parse(base::ReadFile(path() / kIndex, 1 << 20).value()); }
  void WriteIndex(const Json& index) const { Write(kIndex, index.dump()); }

  // Rewrites the first shard with `edit` applied to its list of tensors.
  template <typename Edit>
  void EditShard(Edit edit) const {
    const auto file = SafetensorsFile::Open(Shard(1)).value();
    std::vector<NamedTensor> tensors;
    for (const TensorEntry& entry : file.entries()) {
      tensors.push_back({entry.name, file.ViewOf(entry)});
    }
    edit(tensors);
    ASSERT_TRUE(WriteSafetensors(Shard(1), tensors).ok());
  }

 private:
  ScratchFolder folder_;
};

TEST(Checkpoint, OpensTheGoldenOnes) {
  for (const char* dir : {"tests/data/tiny-a/model", "tests/data/tiny-b/model", "models/nano"}) {
    const Result<Checkpoint> opened = Checkpoint::Open(SourceFile(dir));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    const auto expected = ExpectedTensors(opened->config());
    EXPECT_EQ(opened->tensor_count(), static_cast<int64_t>(expected.size()));
    for (const ExpectedTensor& tensor : expected) {
      const tensor::View view = opened->Get(tensor.name);
      EXPECT_TRUE(tensor.Allows(view.dtype)) << tensor.name;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) %
                    static_cast<uintptr_t>(tensor::SizeOf(view.dtype)),
                0u);
    }
  }
}

TEST(Checkpoint, TotalsAreThoseOfTheIndex) {
  const auto opened = Checkpoint::Open(SourceFile("tests/data/tiny-a/model")).value();
  EXPECT_EQ(opened.total_bytes(), 4352466);
  int64_t tensors = 0;
  for (const CategoryTotal& total : opened.inventory()) tensors += total.tensors;
  EXPECT_EQ(tensors, 852);
}

TEST(Checkpoint, FilterLeavesTensorsOut) {
  LoadFilter filter;
  filter.expert_begin = 2;
  filter.expert_end = 4;
  filter.draft_expert_end = 1;
  filter.engram = false;
  filter.vision = false;
  const auto opened = Checkpoint::Open(SourceFile("tests/data/tiny-a/model"), filter).value();
  EXPECT_TRUE(opened.Find("layers.0.ffn.experts.2.w1.weight").has_value());
  EXPECT_FALSE(opened.Find("layers.0.ffn.experts.4.w1.weight").has_value());
  EXPECT_FALSE(opened.Find("layers.0.ffn.experts.1.w1.weight").has_value());
  EXPECT_TRUE(opened.Find("mtp.0.ffn.experts.0.w1.weight").has_value());
  EXPECT_FALSE(opened.Find("mtp.0.ffn.experts.1.w1.weight").has_value());
  EXPECT_FALSE(opened.Find("layers.1.engram.embed.weight").has_value());
  EXPECT_FALSE(opened.Find("vision.norm.weight").has_value());
  EXPECT_TRUE(opened.Find("layers.1.ffn.shared_experts.w1.weight").has_value());
}

TEST(Checkpoint, ShardsOfLeftOutTensorsNeedNotExist) {
  const Copy copy;
  Json index = copy.Index();
  for (auto& [name, file] : index["weight_map"].items()) {
    if (name.starts_with("mtp.")) file = "model-drafts.safetensors";
  }
  copy.WriteIndex(index);
  ExpectError(copy.Open(), "1 shards named by the index are missing from");
  ExpectError(copy.Open(), "model-drafts.safetensors");
  // The original shards still hold the draft tensors, where the index no longer places them.
  LoadFilter filter;
  filter.draft = false;
  ExpectError(copy.Open(filter), "where the index does not place it");
}

TEST(Checkpoint, SingleFileNeedsNoIndex) {
  const ScratchFolder folder;
  const auto source = Checkpoint::Open(SourceFile("tests/data/tiny-a/model")).value();
  std::vector<NamedTensor> tensors;
  for (const ExpectedTensor& tensor : ExpectedTensors(source.config())) {
    tensors.push_back({tensor.name, source.Get(tensor.name)});
  }
  ASSERT_TRUE(WriteSafetensors(folder.path() / "model.safetensors", tensors).ok());
  fs::copy(source.dir() / "config.json", folder.path() / "config.json");
  const Result<Checkpoint> opened = Checkpoint::Open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(opened->tensor_count(), 852);
}

TEST(Checkpoint, ListsMissingExtraAndMisshapen) {
  const Copy copy;
  copy.EditShard([](std::vector<NamedTensor>& tensors) {
    for (NamedTensor& t : tensors) {
      if (t.name == "layers.0.attn_norm.weight") t.name = "layers.0.attn_norm.wait";
      if (t.name == "layers.0.attn.attn_sink") t.view.shape = tensor::Shape{2, 2};
      if (t.name == "layers.0.ffn.gate.bias") t.view.dtype = tensor::DType::kI32;
    }
  });
  const Status status = copy.Open();
  ExpectError(status, "4 tensors are missing, extra or of another dtype or shape");
  ExpectError(status, "layers.0.attn_norm.weight is missing from model-00001-of-00003");
  ExpectError(status, "layers.0.attn.attn_sink is F32 [2, 2], expected F32 [4]");
  ExpectError(status, "layers.0.ffn.gate.bias is I32 [8], expected F32 [8]");
  ExpectError(status,
              "layers.0.attn_norm.wait in model-00001-of-00003.safetensors is not a tensor");
}

TEST(Checkpoint, ListsTenAndCountsTheRest) {
  const Copy copy;
  Json index = copy.Index();
  Json kept = Json::object();
  int dropped = 0;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!name.ends_with("bias_vl"))
      kept[name] = file;
    else
      ++dropped;
  }
  ASSERT_EQ(dropped, 11);
  index["weight_map"] = kept;
  copy.WriteIndex(index);
  // Each is missing from the index, and stands in a shard where the index does not place it.
  ExpectError(copy.Open(), "22 tensors are missing, extra");
  ExpectError(copy.Open(), "and 12 more");
}

TEST(Checkpoint, MissingAndTruncatedShards) {
  const Copy copy;
  fs::remove(copy.Shard(2));
  ExpectError(copy.Open(), "1 shards named by the index are missing from");
  fs::resize_file(copy.Shard(1), fs::file_size(copy.Shard(1)) - 1);
  ExpectError(copy.Open(), "it is truncated");
}

TEST(Checkpoint, EngramSizesMustFit) {
  const Copy copy;
  const std::string config = base::ReadFile(copy.path() / "config.json", 1 << 20).value();
  copy.Write("config.json", Replaced(config, "2514", "2515"));
  ExpectError(copy.Open(),
              "engram_num_embeddings[0] is 2515, but the primes of layer 1 sum to 2514");
}

TEST(Checkpoint, MissingFiles) {
  ExpectError(Checkpoint::Open("/nonexistent").status(), "/nonexistent/config.json");
  const Copy copy;
  fs::remove(copy.path() / kIndex);
  ExpectError(copy.Open(), kIndex);
}

TEST(Checkpoint, BackwardExpertRange) {
  LoadFilter filter;
  filter.expert_begin = 3;
  filter.expert_end = 2;
  ExpectError(Checkpoint::Open(SourceFile("models/nano"), filter).status(),
              "an expert range must not end before it begins");
}

struct BadIndex {
  const char* json;
  const char* message;
};

TEST(Checkpoint, MalformedIndexes) {
  const Copy copy;
  const BadIndex kTable[] = {
      {"", "is not valid JSON"},
      {"[]", "weight_map is missing or not an object"},
      {R"({"weight_map": []})", "weight_map is missing or not an object"},
      {R"({"weight_map": {"a": 3}})", "the shard of tensor \"a\" must be the plain name"},
      {R"({"weight_map": {"a": "../x.safetensors"}})", "must be the plain name"},
      {R"({"weight_map": {"a": "/x.safetensors"}})", "must be the plain name"},
      {R"({"weight_map": {"a": "x\u0000.safetensors"}})", "must be the plain name"},
      {R"({"weight_map": {"a": ".safetensors"}})", "must be the plain name"},
      {R"({"weight_map": {"a": "model.bin"}})", "must be the plain name"},
      {R"({"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}})", "duplicate key"},
      {R"({"weight_map": {}})", "852 tensors are missing"},
  };
  for (const BadIndex& bad : kTable) {
    copy.Write(kIndex, bad.json);
    ExpectError(copy.Open(), bad.message);
  }
}

}  // namespace
}  // namespace thalweg::checkpoint
