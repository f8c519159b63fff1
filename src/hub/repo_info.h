// What the Hub says about a repository at one commit: GET /api/models/NAME/revision/REV?blobs=true.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace thalweg::hub {

struct RepoFile {
  std::string name;  // checked by CheckFileName
  uint64_t size_bytes = 0;
  std::string hash;  // lower-case hex: SHA-256 (64) of LFS files, git blob SHA-1 (40) of others
};

struct RepoInfo {
  std::string commit;  // 40 hex digits
  std::vector<RepoFile> files;
  uint64_t total_bytes = 0;
};

// Hostile text is an error that says what is wrong: size, JSON, names, duplicate names, a file that
// is another's folder, missing sizes or hashes, sums that overflow.
Result<RepoInfo> ParseRepoInfo(std::string_view text);

// Whether the engine reads the file (configuration, tokenizer, weights at the top level), or people
// should (licence, README).
bool IsWanted(std::string_view file_name);
// The files to bring, total_bytes with them; everything when `all`. Without a config.json it is not
// a model: kInvalidArgument.
Result<RepoInfo> SelectFiles(RepoInfo info, bool all);

}  // namespace thalweg::hub
