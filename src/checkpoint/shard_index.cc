#include "checkpoint/shard_index.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/limits.h"
#include "checkpoint/safetensors.h"

namespace thalweg::checkpoint {
namespace {

using base::InvalidArgument;
using base::Json;

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";

// A name that cannot leave the directory.
bool IsPlainShardName(std::string_view name) {
  return name.ends_with(".safetensors") && name.size() <= 255 && name.front() != '.' &&
         name.find_first_of(std::string_view("/\\\0", 3)) == name.npos;
}

Status AddTensor(const std::string& tensor, const Json& file,
                 std::unordered_map<std::string, size_t>& files, ShardIndex& index) {
  if (!file.is_string() || !IsPlainShardName(file.get_ref<const std::string&>())) {
    return InvalidArgument(
        fmt::format("the shard of tensor \"{}\" must be the plain name of a .safetensors file",
                    tensor.substr(0, kMaxNameBytes)));
  }
  const auto& name = file.get_ref<const std::string&>();
  const auto [known, inserted] = files.try_emplace(name, index.files.size());
  if (inserted) index.files.push_back(name);
  index.file_of.emplace(tensor, known->second);
  return {};
}

Result<ShardIndex> IndexOfSingleFile(const std::filesystem::path& dir) {
  TW_ASSIGN(const SafetensorsFile file, SafetensorsFile::Open(dir / kSingleName));
  ShardIndex index;
  index.files.emplace_back(kSingleName);
  for (const TensorEntry& entry : file.entries()) index.file_of.emplace(entry.name, 0);
  return index;
}

}  // namespace

Result<ShardIndex> ParseShardIndex(std::string_view json, std::string_view what) {
  TW_ASSIGN(const Json root, base::ParseJson(json, what));
  const auto map = root.is_object() ? root.find("weight_map") : root.end();
  if (map == root.end() || !map->is_object()) {
    return InvalidArgument(fmt::format("{}: weight_map is missing or not an object", what));
  }
  ShardIndex index;
  std::unordered_map<std::string, size_t> files;
  index.file_of.reserve(map->size());
  for (const auto& [tensor, file] : map->items()) {
    TW_TRY(AddTensor(tensor, file, files, index).WithContext(what));
  }
  return index;
}

Result<ShardIndex> LoadShardIndex(const std::filesystem::path& dir) {
  std::error_code ignored;
  if (!std::filesystem::exists(dir / kIndexName, ignored) &&
      std::filesystem::exists(dir / kSingleName, ignored)) {
    return IndexOfSingleFile(dir);
  }
  TW_ASSIGN(const std::string text, base::ReadFile(dir / kIndexName, kMaxIndexBytes));
  return ParseShardIndex(text, (dir / kIndexName).string());
}

}  // namespace thalweg::checkpoint
