// The file of results: locked, repaired after a crash, and only ever appended to.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/status.h"

namespace thalweg::tools::batch {

class ResultFile {
 public:
  // Opens or makes the file and locks it against other runs. A last line that was not written to
  // its end is cut off. Every other line must be a result of a run with the same `run`
  // (result_line.h): else an error that says so, and the file is as it was.
  static Result<ResultFile> Open(const std::filesystem::path& path, std::string run);
  ResultFile(ResultFile&& other) noexcept;
  ResultFile& operator=(ResultFile&&) = delete;
  ~ResultFile();

  const std::string& run() const { return run_; }
  const std::filesystem::path& path() const { return path_; }
  // Hash of the input line of a result that was there when the file was opened.
  std::optional<uint64_t> FindOld(int64_t line_number) const;
  int64_t old_results() const { return static_cast<int64_t>(old_.size()); }
  int64_t old_errors() const { return old_errors_; }
  int64_t cut_bytes() const { return cut_bytes_; }  // of the torn last line
  int64_t largest_old_line() const { return largest_old_line_; }

  // One whole line with its end, in one write. When the disk is full the part that was written is
  // taken back.
  Status Append(std::string_view line);
  // Makes what was appended survive a loss of power.
  Status Sync();

 private:
  ResultFile(int fd, std::filesystem::path path, std::string run);
  Status Lock();
  Status ReadOld();
  Status TakeOld(std::string_view text, int64_t number);
  Status Cut(int64_t end_offset);
  Status Failed(std::string_view what) const;

  int fd_;
  std::filesystem::path path_;
  std::string run_;
  std::unordered_map<int64_t, uint64_t> old_;
  int64_t old_errors_ = 0;
  int64_t cut_bytes_ = 0;
  int64_t largest_old_line_ = 0;
  int64_t size_ = 0;
};

}  // namespace thalweg::tools::batch
