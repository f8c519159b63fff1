// A text file line by line in bounded memory, with the hash and the place of each line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace thalweg::tools::batch {

struct Line {
  int64_t number = 0;     // from 1
  std::string text = {};  // without its end; empty when too long
  bool too_long = false;
  bool ended = false;      // by '\n'; the last line of a file may not be
  uint64_t hash = 0;       // of its bytes, too long or not: the front of their SHA-256
  int64_t end_offset = 0;  // of the byte behind it and its end
};

// 16 hexadecimal digits.
std::string HashText(uint64_t hash);
// The front of a SHA-256 as a number, for hashes of lines and of other texts.
uint64_t HashOf(std::string_view bytes);

class LineReader {
 public:
  // Lines of more than max_bytes are read over, not kept. Only regular files.
  static Result<LineReader> Open(const std::filesystem::path& path, size_t max_bytes);
  LineReader(LineReader&& other) noexcept;
  LineReader& operator=(LineReader&&) = delete;
  ~LineReader();

  // The next line; nothing at the end of the file.
  Result<std::optional<Line>> Next();
  int64_t file_bytes() const { return file_bytes_; }

 private:
  LineReader(int fd, std::filesystem::path path, size_t max_bytes, int64_t file_bytes);
  // Bytes of the buffer that are left; reads more when there are none. Empty at the end.
  Result<std::string_view> Rest();

  int fd_;
  std::filesystem::path path_;
  size_t max_bytes_;
  int64_t file_bytes_;
  std::vector<char> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  int64_t offset_ = 0;
  int64_t number_ = 0;
};

}  // namespace thalweg::tools::batch
