#include "hub/cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <system_error>

#include "base/json.h"
#include "base/mapped_file.h"
#include "hub/limits.h"
#include "hub/names.h"

namespace thalweg::hub {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxRefBytes = 256;

Status MakeFolder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return base::IoError(
      fmt::format("cannot make the folder {}: {}; HF_HUB_CACHE names another place",
                  folder.string(), error.message()));
}

// A link at `at` to `target`, in the place of whatever was there.
Status PutLink(const fs::path& at, const fs::path& target) {
  std::error_code error;
  if (fs::read_symlink(at, error) == target) return {};
  const fs::path made = at.string() + fmt::format(".{}.tmp", getpid());
  fs::remove(made, error);
  fs::create_symlink(target, made, error);
  if (!error) fs::rename(made, at, error);
  if (!error) return {};
  return base::IoError(
      fmt::format("cannot link {}: {}; the cache must be on a file system with symbolic links",
                  at.string(), error.message()));
}

// ../../blobs/HASH, with one more ".." for each folder of the file's name.
fs::path LinkTarget(const RepoFile& file) {
  std::string up = "../../";
  for (const char c : file.name) up += c == '/' ? "../" : "";
  return up + "blobs/" + file.hash;
}

std::optional<std::string> OnlySnapshot(const fs::path& snapshots) {
  std::error_code error;
  std::optional<std::string> found;
  for (const auto& entry : fs::directory_iterator(snapshots, error)) {
    const std::string name = entry.path().filename().string();
    if (!IsCommit(name)) continue;
    if (found) return std::nullopt;
    found = name;
  }
  return found;
}

std::optional<std::string> ReadRef(const fs::path& file) {
  Result<std::string> text = base::ReadFile(file, kMaxRefBytes);
  if (!text.ok()) return std::nullopt;
  while (!text->empty() && (text->back() == '\n' || text->back() == ' ')) text->pop_back();
  return IsCommit(*text) ? std::optional(*text) : std::nullopt;
}

// Names of the shards in the index, without repetition.
Result<std::set<std::string>> ShardNames(const fs::path& index_file) {
  TW_ASSIGN(const std::string text, base::ReadFile(index_file, kMaxIndexBytes));
  TW_ASSIGN(const base::Json index, base::ParseJson(text, index_file.string()));
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object())
    return base::InvalidArgument(index_file.string() + " has no weight_map");
  std::set<std::string> names;
  for (const base::Json& shard : *map) {
    if (!shard.is_string())
      return base::InvalidArgument(index_file.string() + " is no shard index");
    names.insert(shard.get<std::string>());
  }
  return names;
}

std::optional<std::string> MissingShard(const fs::path& folder, const fs::path& index_file) {
  const Result<std::set<std::string>> names = ShardNames(index_file);
  if (!names.ok()) return names.status().message();
  std::error_code error;
  const auto missing = [&](const std::string& name) {
    return !CheckFileName(name).ok() || !fs::is_regular_file(folder / name, error);
  };
  const auto first = std::find_if(names->begin(), names->end(), missing);
  if (first == names->end()) return std::nullopt;
  return fmt::format("{} of {} shards are missing, {} is the first",
                     std::count_if(names->begin(), names->end(), missing), names->size(), *first);
}

bool HasWeights(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".safetensors" && fs::is_regular_file(entry.path(), error))
      return true;
  }
  return false;
}

}  // namespace

RepoCache::RepoCache(const fs::path& root, std::string_view repo_name)
    : folder_(root / CacheFolderName(repo_name)),
      lock_file_(root / ".locks" / CacheFolderName(repo_name) / "thalweg.lock") {}

fs::path RepoCache::Incomplete(const RepoFile& file) const {
  return Blob(file).string() + ".incomplete";
}

fs::path RepoCache::Snapshot(std::string_view commit) const {
  return folder_ / "snapshots" / commit;
}

Status RepoCache::MakeFolders() const {
  TW_TRY(MakeFolder(folder_ / "blobs"));
  TW_TRY(MakeFolder(folder_ / "snapshots"));
  TW_TRY(MakeFolder(folder_ / "refs"));
  return MakeFolder(lock_file_.parent_path());
}

bool RepoCache::HasBlob(const RepoFile& file) const {
  std::error_code error;
  const fs::path blob = Blob(file);
  return fs::is_regular_file(blob, error) && fs::file_size(blob, error) == file.size_bytes &&
         !error;
}

Status RepoCache::LinkSnapshot(const RepoInfo& info) const {
  std::vector<RepoFile> files = info.files;
  std::stable_partition(files.begin(), files.end(),
                        [](const RepoFile& file) { return file.name != "config.json"; });
  for (const RepoFile& file : files) {
    const fs::path link = Snapshot(info.commit) / file.name;
    TW_TRY(MakeFolder(link.parent_path()));
    TW_TRY(PutLink(link, LinkTarget(file)));
  }
  return {};
}

Status RepoCache::WriteRef(std::string_view revision, std::string_view commit) const {
  if (revision == commit) return {};
  TW_TRY(MakeFolder(Ref(revision).parent_path()));
  return base::WriteFile(Ref(revision), commit);
}

std::optional<std::string> RepoCache::CommitOf(std::string_view revision) const {
  if (IsCommit(revision)) return std::string(revision);
  const std::string_view name = revision.empty() ? kDefaultRevision : revision;
  if (const auto commit = ReadRef(Ref(name))) return commit;
  return revision.empty() ? OnlySnapshot(folder_ / "snapshots") : std::nullopt;
}

std::optional<std::string> WhyIncomplete(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return "not there";
  if (!fs::exists(folder / "config.json", error)) return "no config.json";
  const fs::path index_file = folder / "model.safetensors.index.json";
  if (fs::exists(index_file, error)) return MissingShard(folder, index_file);
  if (!HasWeights(folder)) return "no *.safetensors file";
  if (!fs::exists(folder / "tokenizer.json", error)) return "no tokenizer.json";
  return std::nullopt;
}

}  // namespace thalweg::hub
