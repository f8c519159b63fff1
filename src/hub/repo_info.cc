#include "hub/repo_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/json.h"
#include "base/math.h"
#include "hub/limits.h"
#include "hub/names.h"

namespace thalweg::hub {
namespace {

using base::Json;

Status Bad(std::string_view why) {
  return base::InvalidArgument(fmt::format("the answer about the repository: {}", why));
}

const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string TextOf(const Json& object, const char* key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_string() ? member->get<std::string>() : std::string();
}

std::optional<uint64_t> SizeOf(const Json& object) {
  const Json* size = Member(object, "size");
  if (size == nullptr || !size->is_number_unsigned()) return std::nullopt;
  return size->get<uint64_t>();
}

Result<RepoFile> ParseFile(const Json& sibling) {
  RepoFile file;
  file.name = TextOf(sibling, "rfilename");
  TW_TRY(CheckFileName(file.name).WithContext("the answer about the repository"));
  const Json* lfs = Member(sibling, "lfs");
  const std::optional<uint64_t> size = SizeOf(lfs != nullptr ? *lfs : sibling);
  file.hash = lfs != nullptr ? TextOf(*lfs, "sha256") : TextOf(sibling, "blobId");
  if (!size || !IsLowerHex(file.hash, lfs != nullptr ? 64 : 40)) {
    return Bad(
        fmt::format("\"{}\" has no size or hash; a mirror must answer blobs=true", file.name));
  }
  if (*size > kMaxFileBytes)
    return Bad(fmt::format("\"{}\" would have {} bytes, the limit is {}", file.name, *size,
                           kMaxFileBytes));
  file.size_bytes = *size;
  return file;
}

Status AddSizes(RepoInfo* info) {
  info->total_bytes = 0;
  for (const RepoFile& file : info->files) {
    const std::optional<uint64_t> sum = base::CheckedAdd(info->total_bytes, file.size_bytes);
    if (!sum || *sum > kMaxTotalBytes)
      return Bad(fmt::format("the files together are above the limit of {} bytes", kMaxTotalBytes));
    info->total_bytes = *sum;
  }
  return {};
}

// Two files cannot have one name, nor can a file be the folder of another.
Status CheckNamesApart(const RepoInfo& info) {
  std::vector<std::string> names;
  for (const RepoFile& file : info.files) names.push_back(file.name);
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return Bad(fmt::format("\"{}\" is there twice", *twice));
  for (const std::string& name : names) {
    for (size_t at = name.find('/'); at != std::string::npos; at = name.find('/', at + 1)) {
      if (std::binary_search(names.begin(), names.end(), name.substr(0, at)))
        return Bad(fmt::format("\"{}\" is a file and a folder", name.substr(0, at)));
    }
  }
  return {};
}

}  // namespace

Result<RepoInfo> ParseRepoInfo(std::string_view text) {
  if (text.size() > kMaxInfoBytes)
    return Bad(fmt::format("{} bytes, the limit is {}", text.size(), kMaxInfoBytes));
  TW_ASSIGN(const Json json, base::ParseJson(text, "the answer about the repository"));
  RepoInfo info;
  info.commit = TextOf(json, "sha");
  if (!IsCommit(info.commit)) return Bad("it has no commit (\"sha\")");
  const Json* siblings = Member(json, "siblings");
  if (siblings == nullptr || !siblings->is_array())
    return Bad("it has no file list (\"siblings\")");
  if (siblings->size() > kMaxFiles)
    return Bad(fmt::format("{} files, the limit is {}", siblings->size(), kMaxFiles));
  for (const Json& sibling : *siblings) {
    TW_ASSIGN(RepoFile file, ParseFile(sibling));
    info.files.push_back(std::move(file));
  }
  TW_TRY(CheckNamesApart(info));
  TW_TRY(AddSizes(&info));
  return info;
}

bool IsWanted(std::string_view name) {
  if (name.find('/') != std::string_view::npos) return false;
  return name.ends_with(".json") || name.ends_with(".safetensors") || name == "tokenizer.model" ||
         name == "engram_token_map.bin" || name == "README.md" || name.ends_with(".jinja") ||
         name.starts_with("LICENSE") || name.starts_with("NOTICE");
}

Result<RepoInfo> SelectFiles(RepoInfo info, bool all) {
  if (!all) std::erase_if(info.files, [](const RepoFile& file) { return !IsWanted(file.name); });
  const bool model = std::any_of(info.files.begin(), info.files.end(),
                                 [](const RepoFile& file) { return file.name == "config.json"; });
  if (!model) return base::InvalidArgument("the repository has no config.json: it is not a model");
  TW_TRY(AddSizes(&info));
  return info;
}

}  // namespace thalweg::hub
