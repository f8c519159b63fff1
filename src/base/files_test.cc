// Files are mapped, read and written whole or not at all, and what goes wrong says which file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/mapped_file.h"

namespace thalweg::base {
namespace {

class FilesTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  size_t FilesInFolder() const {
    const std::filesystem::directory_iterator files(folder_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("thalweg_files_" + std::to_string(getpid()));
};

std::string Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST_F(FilesTest, EmptyFilesMapToNothing) {
  ASSERT_TRUE(WriteFile(folder_ / "empty", "").ok());
  const auto file = MappedFile::Open(folder_ / "empty");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->bytes().empty());
  EXPECT_EQ(*ReadFile(folder_ / "empty", 0), "");
}

TEST_F(FilesTest, MappingsMove) {
  ASSERT_TRUE(WriteFile(folder_ / "a", "first").ok());
  ASSERT_TRUE(WriteFile(folder_ / "b", "second").ok());
  auto a = MappedFile::Open(folder_ / "a");
  auto b = MappedFile::Open(folder_ / "b");
  ASSERT_TRUE(a.ok() && b.ok());
  MappedFile moved = std::move(a).value();
  EXPECT_EQ(Text(moved), "first");
  moved = std::move(b).value();
  EXPECT_EQ(Text(moved), "second");
  EXPECT_EQ(moved.path(), folder_ / "b");
}

TEST_F(FilesTest, WritingReplacesAndLeavesNothingBehind) {
  ASSERT_TRUE(WriteFile(folder_ / "a", "a longer first text").ok());
  ASSERT_TRUE(WriteFile(folder_ / "a", std::string("with\0byte", 9)).ok());
  EXPECT_EQ(ReadFile(folder_ / "a", 100)->size(), 9u);
  EXPECT_EQ(FilesInFolder(), 1u);
}

TEST_F(FilesTest, AMappingOutlivesTheReplacementOfItsFile) {
  ASSERT_TRUE(WriteFile(folder_ / "a", "old").ok());
  const auto old = MappedFile::Open(folder_ / "a");
  ASSERT_TRUE(old.ok());
  ASSERT_TRUE(WriteFile(folder_ / "a", "new").ok());
  EXPECT_EQ(Text(*old), "old");
  EXPECT_EQ(*ReadFile(folder_ / "a", 3), "new");
}

TEST_F(FilesTest, ErrorsNameTheFile) {
  const Status missing = WriteFile(folder_ / "no" / "such" / "folder", "x");
  EXPECT_FALSE(missing.ok());
  EXPECT_NE(missing.message().find("folder"), std::string::npos);
  const Status unread = ReadFile(folder_ / "absent", 1).status();
  EXPECT_EQ(unread.code(), Code::kNotFound);
  EXPECT_NE(unread.message().find("absent"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::base
