// One writer per repository and cache. The lock is the kernel's (flock), so it ends with its
// process, however that ends; the file stays and means nothing by itself.
#pragma once

#include <filesystem>
#include <functional>

#include "base/status.h"

namespace thalweg::hub {

class RepoLock {
 public:
  // Waits for another holder until `interrupted`; calls `waiting` once before.
  static Result<RepoLock> Take(const std::filesystem::path& file,
                               const std::function<void()>& waiting,
                               const std::function<bool()>& interrupted);
  RepoLock(RepoLock&& other) noexcept;
  RepoLock(const RepoLock&) = delete;
  RepoLock& operator=(const RepoLock&) = delete;
  RepoLock& operator=(RepoLock&&) = delete;
  ~RepoLock();

 private:
  explicit RepoLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_;
};

}  // namespace thalweg::hub
