#include "tools/batch/line_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/sha256.h"

namespace thalweg::tools::batch {
namespace {

constexpr size_t kBufferBytes = 1 << 18;

uint64_t FrontOf(const base::Sha256Digest& digest) {
  uint64_t front = 0;
  for (size_t i = 0; i < sizeof(front); ++i) front = front << 8 | digest[i];
  return front;
}

Status Failed(const std::filesystem::path& path, std::string_view what) {
  return base::IoError(fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(errno)));
}

}  // namespace

std::string HashText(uint64_t hash) { return fmt::format("{:016x}", hash); }

uint64_t HashOf(std::string_view bytes) { return FrontOf(base::Sha256Of(bytes)); }

Result<LineReader> LineReader::Open(const std::filesystem::path& path, size_t max_bytes) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Failed(path, "open");
  LineReader reader(fd, path, max_bytes, 0);
  struct stat info = {};
  if (fstat(fd, &info) != 0) return Failed(path, "read");
  if (!S_ISREG(info.st_mode)) {
    return base::InvalidArgument(fmt::format(
        "{} is no regular file: a run that is to go on after a break must read it again",
        path.string()));
  }
  reader.file_bytes_ = info.st_size;
  return reader;
}

LineReader::LineReader(int fd, std::filesystem::path path, size_t max_bytes, int64_t file_bytes)
    : fd_(fd),
      path_(std::move(path)),
      max_bytes_(max_bytes),
      file_bytes_(file_bytes),
      buffer_(kBufferBytes) {}

LineReader::LineReader(LineReader&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      max_bytes_(other.max_bytes_),
      file_bytes_(other.file_bytes_),
      buffer_(std::move(other.buffer_)),
      begin_(other.begin_),
      end_(other.end_),
      offset_(other.offset_),
      number_(other.number_) {}

LineReader::~LineReader() {
  if (fd_ >= 0) close(fd_);
}

Result<std::string_view> LineReader::Rest() {
  if (begin_ == end_) {
    ssize_t got = 0;
    do {
      got = read(fd_, buffer_.data(), buffer_.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) return Failed(path_, "read");
    begin_ = 0;
    end_ = static_cast<size_t>(got);
  }
  return std::string_view(buffer_.data() + begin_, end_ - begin_);
}

Result<std::optional<Line>> LineReader::Next() {
  Line line{.number = number_ + 1};
  base::Sha256 hash;
  size_t bytes = 0;
  while (!line.ended) {
    TW_ASSIGN(const std::string_view rest, Rest());
    if (rest.empty()) break;
    const size_t at = rest.find('\n');
    line.ended = at != std::string_view::npos;
    const std::string_view part = rest.substr(0, at);
    hash.Update(part);
    bytes += part.size();
    line.too_long = bytes > max_bytes_;
    if (line.too_long) {
      line.text = std::string();
    } else {
      line.text += part;
    }
    const size_t taken = part.size() + (line.ended ? 1 : 0);
    begin_ += taken;
    offset_ += static_cast<int64_t>(taken);
  }
  if (bytes == 0 && !line.ended) return std::optional<Line>();
  number_ = line.number;
  line.hash = FrontOf(hash.Finish());
  line.end_offset = offset_;
  return std::optional<Line>(std::move(line));
}

}  // namespace thalweg::tools::batch
