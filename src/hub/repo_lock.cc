#include "hub/repo_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace thalweg::hub {
namespace {

constexpr int kPollMs = 100;

Status LockError(const std::filesystem::path& file) {
  return base::IoError(fmt::format(
      "cannot lock {}: {}; HF_HUB_CACHE must be on a file system where this user may lock files",
      file.string(), std::generic_category().message(errno)));
}

}  // namespace

Result<RepoLock> RepoLock::Take(const std::filesystem::path& file,
                                const std::function<void()>& waiting,
                                const std::function<bool()>& interrupted) {
  const int descriptor = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor < 0) return LockError(file);
  RepoLock lock(descriptor);
  for (bool first = true; flock(descriptor, LOCK_EX | LOCK_NB) != 0; first = false) {
    if (errno != EWOULDBLOCK && errno != EINTR) return LockError(file);
    if (first && waiting) waiting();
    if (interrupted && interrupted())
      return base::FailedPrecondition("interrupted while another process held the lock");
    poll(nullptr, 0, kPollMs);
  }
  return lock;
}

RepoLock::RepoLock(RepoLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

RepoLock::~RepoLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace thalweg::hub
