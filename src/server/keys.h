// API keys from a file that may change while the server runs.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/sha256.h"
#include "base/status.h"
#include "server/admission.h"

namespace thalweg::server {

struct ApiKey {
  std::string name = {};  // for logs and limits; never the key
  KeyLimits limits = {};
  base::Sha256Digest digest = {};
};

// Lines: KEY [name=NAME] [requests=N] [rate=N]; blank lines and those that begin with '#' are read
// over. Without a name it is "key-" and the line's number. Errors name the line.
Result<std::vector<ApiKey>> ParseKeys(std::string_view text, const KeyLimits& defaults);

// Thread-safe.
class KeyFile {
 public:
  static Result<std::unique_ptr<KeyFile>> Open(const std::filesystem::path& path,
                                               const KeyLimits& defaults);

  // The key whose text this is. How long it takes depends neither on which it is nor on how much of
  // it is right.
  std::optional<ApiKey> Find(std::string_view key) const;
  // Reads the file again when it has changed. On an error the keys of before stay.
  Status Refresh();

 private:
  struct Stamp {
    std::filesystem::file_time_type time = {};
    uintmax_t size = 0;
    bool operator==(const Stamp&) const = default;
  };
  KeyFile(std::filesystem::path path, const KeyLimits& defaults)
      : path_(std::move(path)), defaults_(defaults) {}
  Result<Stamp> StampOf() const;

  const std::filesystem::path path_;
  const KeyLimits defaults_;
  mutable std::mutex mutex_;
  std::shared_ptr<const std::vector<ApiKey>> keys_ = {};
  Stamp stamp_ = {};
};

// The key of "Bearer KEY" or of x-api-key; empty: there is none.
std::string_view KeyOf(std::string_view authorization, std::string_view api_key);

}  // namespace thalweg::server
