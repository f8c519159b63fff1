// Helpers of this room's tests: data of the repository, scratch folders, raw safetensors bytes.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/mapped_file.h"

namespace thalweg::checkpoint {

inline std::filesystem::path SourceFile(std::string_view relative) {
  return std::filesystem::path(THALWEG_SOURCE_DIR) / relative;
}

inline std::string ReadSource(std::string_view relative) {
  return base::ReadFile(SourceFile(relative), 1 << 26).value();
}

// A folder of its own for one test, removed with it.
class ScratchFolder {
 public:
  ScratchFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "-" + test->name();
    for (char& c : name) c = c == '/' ? '-' : c;
    path_ = std::filesystem::path(testing::TempDir()) /
            ("thalweg-" + std::to_string(::getpid()) + name);
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Length field, header and data as one safetensors file.
inline std::string RawSafetensors(std::string_view header, size_t data_bytes) {
  std::string out(8, '\0');
  for (size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i));
  out += header;
  for (size_t i = 0; i < data_bytes; ++i) out.push_back(static_cast<char>(i));
  return out;
}

inline std::span<const std::byte> AsBytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Replaces the one occurrence of `from`.
inline std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  EXPECT_EQ(text.find(from, at + 1), text.npos) << from << " is not unique";
  if (at != text.npos) text.replace(at, from.size(), to);
  return text;
}

inline void ExpectError(const Status& status, std::string_view part) {
  ASSERT_FALSE(status.ok()) << "expected an error that says: " << part;
  EXPECT_NE(status.message().find(part), std::string::npos)
      << "message:  " << status.message() << "\nexpected: " << part;
}

}  // namespace thalweg::checkpoint
