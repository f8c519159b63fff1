// The Hugging Face cache on disk: models--org--name/{blobs/HASH, refs/REVISION,
// snapshots/COMMIT/FILE -> ../../blobs/HASH}, .locks/models--org--name beside it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "hub/repo_info.h"

namespace thalweg::hub {

inline constexpr std::string_view kDefaultRevision = "main";

// Paths of one repository in one cache. `repo_name` has been checked.
class RepoCache {
 public:
  RepoCache(const std::filesystem::path& root, std::string_view repo_name);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path Blob(const RepoFile& file) const { return folder_ / "blobs" / file.hash; }
  // The part that has arrived; named as the Hub's own client names it.
  std::filesystem::path Incomplete(const RepoFile& file) const;
  std::filesystem::path Snapshot(std::string_view commit) const;
  std::filesystem::path Ref(std::string_view revision) const { return folder_ / "refs" / revision; }
  const std::filesystem::path& lock_file() const { return lock_file_; }

  Status MakeFolders() const;
  // Whether the blob is there with its size. It got its name after its hash was checked.
  bool HasBlob(const RepoFile& file) const;
  // Links of every file into the snapshot, config.json last, each put in place by a rename.
  Status LinkSnapshot(const RepoInfo& info) const;
  Status WriteRef(std::string_view revision, std::string_view commit) const;
  // The commit of a revision: itself when it is one, else refs/REVISION; without refs/main and with
  // no revision named, the only snapshot there is.
  std::optional<std::string> CommitOf(std::string_view revision) const;

 private:
  std::filesystem::path folder_, lock_file_;
};

// Why a folder cannot be loaded as it stands: no config.json, a shard of its index that is missing;
// nothing when it can.
std::optional<std::string> WhyIncomplete(const std::filesystem::path& folder);

}  // namespace thalweg::hub
