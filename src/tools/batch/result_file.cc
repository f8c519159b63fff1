#include "tools/batch/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tools/batch/line_reader.h"
#include "tools/batch/result_line.h"

namespace thalweg::tools::batch {
namespace {

// Longest line of results that is read back: 16 sequences of a whole context with logprobs have
// less.
constexpr size_t kMaxResultBytes = size_t{1} << 30;

}  // namespace

ResultFile::ResultFile(int fd, std::filesystem::path path, std::string run)
    : fd_(fd), path_(std::move(path)), run_(std::move(run)) {}

ResultFile::ResultFile(ResultFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      run_(std::move(other.run_)),
      old_(std::move(other.old_)),
      old_errors_(other.old_errors_),
      cut_bytes_(other.cut_bytes_),
      largest_old_line_(other.largest_old_line_),
      size_(other.size_) {}

ResultFile::~ResultFile() {
  if (fd_ >= 0) close(fd_);
}

Status ResultFile::Failed(std::string_view what) const {
  return base::IoError(fmt::format("cannot {} {}: {}", what, path_.string(), std::strerror(errno)));
}

Result<ResultFile> ResultFile::Open(const std::filesystem::path& path, std::string run) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    return base::IoError(
        fmt::format("cannot open {} for results: {}", path.string(), std::strerror(errno)));
  }
  ResultFile file(fd, path, std::move(run));
  TW_TRY(file.Lock());
  TW_TRY(file.ReadOld());
  return file;
}

Status ResultFile::Lock() {
  if (flock(fd_, LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return Failed("lock");
  return base::FailedPrecondition(
      fmt::format("{} is being written by another run: wait for its end, or name another file",
                  path_.string()));
}

Status ResultFile::ReadOld() {
  TW_ASSIGN(LineReader reader, LineReader::Open(path_, kMaxResultBytes));
  int64_t good = 0;
  while (true) {
    TW_ASSIGN(const std::optional<Line> line, reader.Next());
    if (!line.has_value() || !line->ended) break;
    // After a loss of power the end of a file may be zeros; JSON has none.
    const bool zeros = line->text.find('\0') != std::string::npos;
    if (zeros && line->end_offset == reader.file_bytes()) break;
    TW_TRY(TakeOld(line->text, line->number));
    good = line->end_offset;
  }
  cut_bytes_ = reader.file_bytes() - good;
  size_ = good;
  return cut_bytes_ > 0 ? Cut(good) : Status();
}

Status ResultFile::TakeOld(std::string_view text, int64_t number) {
  const auto where = fmt::format("{} line {}", path_.string(), number);
  const Result<ResultKey> key = ParseResultLine(text);
  if (!key.ok()) {
    return base::FailedPrecondition(
        fmt::format("{} is no result of a batch ({}): name a new file, or move this one away",
                    where, key.status().message()));
  }
  if (key->run != run_) {
    return base::FailedPrecondition(fmt::format(
        "{} was made with another model, seed or other options that change results: use those "
        "again, or name a new file",
        where));
  }
  if (!old_.emplace(key->number, key->hash).second) {
    return base::FailedPrecondition(
        fmt::format("{} answers input line {} for the second time", where, key->number));
  }
  largest_old_line_ = std::max(largest_old_line_, key->number);
  old_errors_ += key->error ? 1 : 0;
  return {};
}

Status ResultFile::Cut(int64_t end_offset) {
  return ftruncate(fd_, end_offset) == 0 ? Status() : Failed("cut the torn last line of");
}

std::optional<uint64_t> ResultFile::FindOld(int64_t line_number) const {
  const auto at = old_.find(line_number);
  return at == old_.end() ? std::nullopt : std::optional(at->second);
}

Status ResultFile::Append(std::string_view line) {
  ssize_t written = 0;
  do {
    written = write(fd_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) {
    size_ += written;
    return {};
  }
  if (written >= 0) errno = ENOSPC;  // a file takes less than it is given when there is no room
  const Status status = Failed("write to");
  if (written > 0) TW_TRY(Cut(size_));
  return status;
}

Status ResultFile::Sync() { return fdatasync(fd_) == 0 ? Status() : Failed("flush"); }

}  // namespace thalweg::tools::batch
