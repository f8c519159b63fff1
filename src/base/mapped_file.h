// Whole files: mapped read-only, read into a string, or written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace thalweg::base {

// A read-only memory mapping of a regular file; movable, unmapped on destruction.
class MappedFile {
 public:
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_bytes_}; }
  const std::filesystem::path& path() const { return path_; }
  // Lets the system take back the memory of pages that were read; whoever reads there again gets
  // them from the file.
  void GiveBackPages() const;

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, size_t size_bytes)
      : path_(std::move(path)), data_(data), size_bytes_(size_bytes) {}
  std::filesystem::path path_;
  const std::byte* data_ = nullptr;
  size_t size_bytes_ = 0;
};

// The whole file as a string; an error when it is larger than max_bytes.
Result<std::string> ReadFile(const std::filesystem::path& path, uint64_t max_bytes);

// Writes to a temporary name in the same folder, then renames: readers see the old or the new file,
// never half of one.
Status WriteFile(const std::filesystem::path& path, std::string_view content);

}  // namespace thalweg::base
