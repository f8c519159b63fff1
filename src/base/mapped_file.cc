#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

namespace thalweg::base {
namespace {

Status OsError(const char* what, const std::filesystem::path& path) {
  const int error = errno;
  const Code code = error == ENOENT ? Code::kNotFound : Code::kIo;
  return Status(code, fmt::format("cannot {} {}: {}", what, path.string(), std::strerror(error)));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return OsError("open", path);
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return OsError("stat", path);
  if (!S_ISREG(info.st_mode))
    return InvalidArgument(fmt::format("{} is not a regular file", path.string()));
  const auto size_bytes = static_cast<size_t>(info.st_size);
  if (size_bytes == 0) return MappedFile(path, nullptr, 0);
  void* data = mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return OsError("map", path);
  return MappedFile(path, static_cast<const std::byte*>(data), size_bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<std::byte*>(data_), size_bytes_);
}

void MappedFile::GiveBackPages() const {
  if (data_ == nullptr) return;
  static_cast<void>(madvise(const_cast<std::byte*>(data_), size_bytes_, MADV_DONTNEED));
}

Result<std::string> ReadFile(const std::filesystem::path& path, uint64_t max_bytes) {
  TW_ASSIGN(const MappedFile file, MappedFile::Open(path));
  const std::span<const std::byte> bytes = file.bytes();
  if (bytes.size() > max_bytes) {
    return OutOfRange(
        fmt::format("{} has {} bytes, the limit is {}", path.string(), bytes.size(), max_bytes));
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

Status WriteFile(const std::filesystem::path& path, std::string_view content) {
  const std::filesystem::path temporary = path.string() + fmt::format(".{}.tmp", getpid());
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.flush();
    if (!out) return OsError("write", temporary);
  }
  std::error_code error;
  std::filesystem::rename(temporary, path, error);
  if (error)
    return IoError(fmt::format("cannot rename {} to {}: {}", temporary.string(), path.string(),
                               error.message()));
  return {};
}

}  // namespace thalweg::base
