// Property: a directory with the released 96,085 tensors at full size, laid out in 48 shards as the
// release is, opens whole and through filters. The files are sparse: headers and lengths are real,
// the data are holes.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/test_files.h"

namespace thalweg::checkpoint {
namespace {

namespace fs = std::filesystem;
using base::Json;

constexpr int kShards = 48;

// The shard of a tensor, from 1 (spec/model.md 3.1).
int ShardOf(const ExpectedTensor& tensor, const Config& config) {
  const auto number = [&](size_t at) { return std::stoi(tensor.name.substr(at)); };
  if (tensor.category == Category::kEngram) {
    return number(7) == config.engram_layer_ids[0] ? 47 : 48;
  }
  if (tensor.name.starts_with("layers.")) return number(7) + 3;
  if (tensor.name.starts_with("mtp.")) return number(4) + 44;
  if (tensor.name == "head.weight" || tensor.name == "norm.weight") return 43;
  return tensor.name.starts_with("vision.") ? 2 : 1;
}

std::string ShardName(int shard) {
  return fmt::format("model-{:05}-of-{:05}.safetensors", shard, kShards);
}

// False when the file system refuses a sparse file of that length.
bool WriteSparse(const fs::path& path, const std::vector<const ExpectedTensor*>& tensors) {
  Json header = Json::object();
  auto& members = header.get_ref<Json::object_t&>();
  uint64_t end = 0;
  for (const ExpectedTensor* t : tensors) {
    const uint64_t begin = end;
    end += static_cast<uint64_t>(t->bytes());
    members.Json::object_t::Container::emplace_back(
        t->name, Json{{"dtype", tensor::SafetensorsName(t->dtype)},
                      {"shape", t->shape.dims()},
                      {"data_offsets", {begin, end}}});
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (!base::WriteFile(path, RawSafetensors(text, 0)).ok()) return false;
  std::error_code error;
  fs::resize_file(path, 8 + text.size() + end, error);
  return !error;
}

bool WriteRelease(const fs::path& dir) {
  const Config config = Config::Load(SourceFile("tests/data/released_config.json")).value();
  std::vector<ExpectedTensor> tensors = ExpectedTensors(config);
  // Wider elements first, as the release's writer places them.
  std::ranges::stable_sort(tensors, std::ranges::greater(),
                           [](const ExpectedTensor& t) { return tensor::SizeOf(t.dtype); });
  std::vector<std::vector<const ExpectedTensor*>> shards(kShards + 1);
  Json map = Json::object();
  auto& members = map.get_ref<Json::object_t&>();
  for (const ExpectedTensor& tensor : tensors) {
    const int shard = ShardOf(tensor, config);
    shards[static_cast<size_t>(shard)].push_back(&tensor);
    members.Json::object_t::Container::emplace_back(tensor.name, ShardName(shard));
  }
  bool ok = base::WriteFile(dir / "model.safetensors.index.json",
                            Json{{"weight_map", std::move(map)}}.dump())
                .ok();
  for (int i = 1; i <= kShards; ++i) {
    ok = ok && WriteSparse(dir / ShardName(i), shards[static_cast<size_t>(i)]);
  }
  fs::copy(SourceFile("tests/data/released_config.json"), dir / "config.json");
  return ok;
}

TEST(Release, OpensAtFullSize) {
  const ScratchFolder folder;
  if (!WriteRelease(folder.path())) GTEST_SKIP() << "no sparse files of 95 GiB here";
  const Result<Checkpoint> whole = Checkpoint::Open(folder.path());
  ASSERT_TRUE(whole.ok()) << whole.status().ToString();
  EXPECT_EQ(whole->tensor_count(), 96085);
  EXPECT_EQ(whole->total_bytes(), 510'286'023'000);

  // One rank of eight, without what serving text does not need; its shards need not be there.
  for (const int shard : {2, 44, 45, 46, 47, 48}) fs::remove(folder.path() / ShardName(shard));
  LoadFilter filter;
  filter.expert_begin = 48;
  filter.expert_end = 96;
  filter.engram = false;
  filter.draft = false;
  filter.vision = false;
  const Result<Checkpoint> part = Checkpoint::Open(folder.path(), filter);
  ASSERT_TRUE(part.ok()) << part.status().ToString();
  EXPECT_EQ(part->tensor_count(), 40 * 48 * 6 + 40 * 30 + 43 + 3);
  ExpectError(Checkpoint::Open(folder.path()).status(), "6 shards named by the index are missing");
}

}  // namespace
}  // namespace thalweg::checkpoint
