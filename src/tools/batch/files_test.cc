// Lines come back as they were written, at any length; results survive a crash at any byte, belong
// to one run, and have one writer.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/mapped_file.h"
#include "tools/batch/line_reader.h"
#include "tools/batch/result_file.h"
#include "tools/batch/result_line.h"

namespace thalweg::tools::batch {
namespace {

namespace fs = std::filesystem;

class BatchFiles : public testing::Test {
 protected:
  BatchFiles()
      : path_(fs::path(testing::TempDir()) / ("thalweg_batch_files" + std::to_string(::getpid()))) {
    fs::remove(path_);
  }
  ~BatchFiles() override { fs::remove(path_); }

  void Put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string Text() const { return base::ReadFile(path_, 1 << 24).value(); }
  std::vector<Line> Lines(size_t max_bytes) const {
    LineReader reader = LineReader::Open(path_, max_bytes).value();
    std::vector<Line> lines;
    while (auto line = reader.Next().value()) lines.push_back(*line);
    return lines;
  }
  void ExpectRefused(const std::string& text, const std::string& part) const {
    Put(text);
    const auto file = ResultFile::Open(path_, "r");
    ASSERT_FALSE(file.ok()) << text;
    EXPECT_NE(file.status().message().find(part), std::string::npos) << file.status().message();
    EXPECT_EQ(Text(), text);  // as it was
  }

  fs::path path_;
};

std::string Result(int64_t line, const std::string& run = "r") {
  return ErrorLine({.number = line, .hash = HashOf("x")}, run, {.message = "m"});
}

TEST_F(BatchFiles, LinesOfAnyLengthComeBack) {
  for (const size_t bytes : {0u, 1u, 262143u, 262144u, 262145u, 600000u}) {
    const std::string text(bytes, 'a');
    Put(text + "\nsecond\r\nthird");
    const std::vector<Line> lines = Lines(1 << 20);
    ASSERT_EQ(lines.size(), 3u) << bytes;
    EXPECT_EQ(lines[0].text, text);
    EXPECT_EQ(lines[0].hash, HashOf(text));
    EXPECT_EQ(lines[0].end_offset, static_cast<int64_t>(bytes) + 1);
    EXPECT_EQ(lines[1].text, "second\r");
    EXPECT_TRUE(lines[1].ended);
    EXPECT_EQ(lines[2].text, "third");
    EXPECT_FALSE(lines[2].ended);
    EXPECT_EQ(lines[2].number, 3);
  }
}

TEST_F(BatchFiles, LongLinesAreReadOverButHashed) {
  const std::string text(1000, 'b');
  Put(text + "\nshort\n");
  const std::vector<Line> lines = Lines(999);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(lines[0].too_long);
  EXPECT_EQ(lines[0].text, "");
  EXPECT_EQ(lines[0].hash, HashOf(text));
  EXPECT_EQ(lines[1].text, "short");
  EXPECT_FALSE(Lines(1000)[0].too_long);
}

TEST_F(BatchFiles, OnlyRegularFilesAreRead) {
  EXPECT_FALSE(LineReader::Open("/dev/null", 100).ok());
  EXPECT_FALSE(LineReader::Open("/nonexistent", 100).ok());
  EXPECT_FALSE(LineReader::Open(testing::TempDir(), 100).ok());
}

TEST_F(BatchFiles, ATornLastLineIsCutAtAnyByte) {
  const std::string whole = Result(1) + Result(7);
  const size_t first = Result(1).size();
  for (size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    Put(whole.substr(0, bytes));
    const auto file = ResultFile::Open(path_, "r");
    ASSERT_TRUE(file.ok()) << bytes << file.status().message();
    const size_t kept = bytes < first ? 0 : bytes < whole.size() ? first : whole.size();
    EXPECT_EQ(Text(), whole.substr(0, kept)) << bytes;
    EXPECT_EQ(file->FindOld(1).has_value(), kept >= first);
    EXPECT_EQ(file->FindOld(7).has_value(), kept == whole.size());
  }
}

TEST_F(BatchFiles, ZerosAtTheEndAreCut) {
  Put(Result(1) + std::string(64, '\0'));
  ASSERT_TRUE(ResultFile::Open(path_, "r").ok());
  EXPECT_EQ(Text(), Result(1));
  Put(Result(1) + std::string(64, '\0') + "\n");
  ASSERT_TRUE(ResultFile::Open(path_, "r").ok());
  EXPECT_EQ(Text(), Result(1));
}

TEST_F(BatchFiles, OtherFilesAreLeftAlone) {
  ExpectRefused("dear diary\n", "no result of a batch");
  ExpectRefused(Result(1) + "{}\n" + Result(2), "line 2 is no result");
  ExpectRefused(Result(1) + Result(1), "second time");
  ExpectRefused(Result(1, "other"), "another model, seed");
  ExpectRefused("{\"line\":0,\"input\":\"0000000000000000\",\"run\":\"r\"}\n", "line is 0");
  ExpectRefused("{\"line\":1,\"input\":\"xyz\",\"run\":\"r\"}\n", "no hash");
}

TEST_F(BatchFiles, OneWriterAtATime) {
  const auto first = ResultFile::Open(path_, "r");
  ASSERT_TRUE(first.ok());
  const auto second = ResultFile::Open(path_, "r");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), base::Code::kFailedPrecondition);
}

TEST_F(BatchFiles, WhatIsAppendedIsFoundAgain) {
  {
    auto file = ResultFile::Open(path_, "r").value();
    ASSERT_TRUE(file.Append(Result(3)).ok());
    ASSERT_TRUE(file.Sync().ok());
    EXPECT_FALSE(file.FindOld(3).has_value());  // of this run, not of an earlier one
  }
  const auto file = ResultFile::Open(path_, "r").value();
  EXPECT_EQ(file.FindOld(3), HashOf("x"));
  EXPECT_EQ(file.old_results(), 1);
  EXPECT_EQ(file.old_errors(), 1);
}

// A limit on the size of files stands in for a disk without room: both take a part of a write.
TEST_F(BatchFiles, WithoutRoomNothingOfTheLineStays) {
  auto file = ResultFile::Open(path_, "r").value();
  ASSERT_TRUE(file.Append(Result(1)).ok());
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const rlimit tight = {.rlim_cur = Result(1).size() + 10, .rlim_max = old.rlim_max};
  ASSERT_NE(signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  const Status status = file.Append(Result(2));
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  EXPECT_EQ(status.code(), base::Code::kIo);
  EXPECT_EQ(Text(), Result(1));
  EXPECT_TRUE(file.Append(Result(2)).ok());
  EXPECT_EQ(Text(), Result(1) + Result(2));
}

}  // namespace
}  // namespace thalweg::tools::batch
