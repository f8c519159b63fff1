// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace thalweg::checkpoint {

struct ShardIndex {
  std::vector<std::string> files;                   // plain names inside the directory
  std::unordered_map<std::string, size_t> file_of;  // tensor name -> position in files
};

// Parses an index; shard names must be plain *.safetensors file names.
Result<ShardIndex> ParseShardIndex(std::string_view json, std::string_view what);

// The index of a checkpoint directory. A single model.safetensors without an index counts as one.
Result<ShardIndex> LoadShardIndex(const std::filesystem::path& dir);

}  // namespace thalweg::checkpoint
