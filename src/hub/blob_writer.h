// A blob on its way into the cache: bytes are appended to HASH.incomplete and hashed on the way;
// the file gets its final name only when size and hash are right.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "hub/repo_info.h"

struct evp_md_ctx_st;

namespace thalweg::hub {

// SHA-256, or the object id that git gives a file of so many bytes: SHA-1 of "blob SIZE\0" and
// them.
class ContentHash {
 public:
  explicit ContentHash(const RepoFile& file);
  void Update(std::string_view bytes);
  std::string Finish();  // lower-case hex

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

class BlobWriter {
 public:
  // Opens what an earlier run left, or begins. The file must stay the caller's alone (RepoLock).
  static Result<std::unique_ptr<BlobWriter>> Open(const std::filesystem::path& incomplete,
                                                  const std::filesystem::path& blob,
                                                  const RepoFile& file);
  ~BlobWriter();
  BlobWriter(const BlobWriter&) = delete;
  BlobWriter& operator=(const BlobWriter&) = delete;

  // Bytes left by an earlier run must be hashed before more are appended: call until caught_up.
  bool caught_up() const { return hashed_bytes_ == bytes_; }
  Status CatchUp(uint64_t most_bytes);

  uint64_t bytes() const { return bytes_; }  // on disk
  bool complete() const { return bytes_ == file_.size_bytes; }
  // More than the announced size is refused.
  Status Append(std::string_view bytes);
  Status StartOver();
  // Checks size and hash, syncs, renames. A wrong hash empties the file: kInvalidArgument.
  Status Finish();

 private:
  BlobWriter(int descriptor, std::filesystem::path incomplete, std::filesystem::path blob,
             RepoFile file, uint64_t bytes);
  int descriptor_;
  std::filesystem::path incomplete_, blob_;
  RepoFile file_;
  uint64_t bytes_;
  uint64_t hashed_bytes_ = 0;
  ContentHash hash_;
};

}  // namespace thalweg::hub
