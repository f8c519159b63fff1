// What comes from users and servers is checked before it becomes a path, an address or a size;
// header lines and verdicts on answers say what they should.
#include "hub/names.h"

#include <gtest/gtest.h>

#include "hub/answer.h"
#include "hub/limits.h"
#include "hub/repo_info.h"
#include "hub/size_text.h"
#include "hub/transfer.h"

namespace thalweg::hub {
namespace {

constexpr const char* kSha1 = "0123456789abcdef0123456789abcdef01234567";

std::string Info(const std::string& siblings) {
  return std::string(R"({"sha": ")") + kSha1 + R"(", "siblings": [)" + siblings + "]}";
}

std::string Small(const std::string& name, const std::string& size = "1") {
  return R"({"rfilename": ")" + name + R"(", "size": )" + size + R"(, "blobId": ")" + kSha1 + "\"}";
}

void ExpectRefused(const std::string& text, const std::string& words) {
  const Result<RepoInfo> info = ParseRepoInfo(text);
  ASSERT_FALSE(info.ok()) << text;
  EXPECT_NE(info.status().message().find(words), std::string::npos) << info.status().ToString();
}

TEST(Names, RepositoryNames) {
  for (const char* good : {"gpt2", "deepseek-ai/DeepSeek-V4.1-Flash", "a/b", "A_1/b.c"})
    EXPECT_TRUE(CheckRepoName(good).ok()) << good;
  for (const char* bad : {"", "/", "a/", "/a", "a/b/c", ".a", "a-", "a..b", "a--b", "a b", "a\nb"})
    EXPECT_FALSE(CheckRepoName(bad).ok()) << bad;
  EXPECT_TRUE(CheckRepoName(std::string(kMaxRepoNameBytes, 'a')).ok());
  EXPECT_FALSE(CheckRepoName(std::string(kMaxRepoNameBytes + 1, 'a')).ok());
  EXPECT_EQ(CacheFolderName("org/name"), "models--org--name");
}

TEST(Names, FileNames) {
  for (const char* good : {"a", "a/b/c.json", "...", "..a", "a..", "weights (1).bin", "\xc3\xa9"})
    EXPECT_TRUE(CheckFileName(good).ok()) << good;
  for (const char* bad :
       {"", ".", "..", "/a", "a/", "a//b", "../a", "a/..", "a/./b", "a\\b", "a\nb"})
    EXPECT_FALSE(CheckFileName(bad).ok()) << bad;
  EXPECT_FALSE(CheckFileName(std::string_view("a\0b", 3)).ok());
  EXPECT_FALSE(CheckFileName(std::string(kMaxFileNamePartBytes + 1, 'a')).ok());
}

TEST(Names, PathsAndNamesAreToldApart) {
  for (const char* path : {"/a", "./a", "../a", "~/a", "a/b/c", "a/", ".", ".."})
    EXPECT_TRUE(LooksLikePath(path)) << path;
  for (const char* name : {"a", "org/name", ""}) EXPECT_FALSE(LooksLikePath(name)) << name;
}

TEST(Names, Encoding) {
  EXPECT_EQ(PercentEncode("a b/c#d?%", "/"), "a%20b/c%23d%3F%25");
  EXPECT_EQ(PercentEncode("refs/pr/1", ""), "refs%2Fpr%2F1");
}

TEST(RepoInfo, ReadsSizesAndHashes) {
  const std::string lfs = R"({"rfilename": "w.safetensors", "size": 9, "blobId": "x", "lfs":
      {"size": 1000, "sha256": ")" +
                          std::string(64, 'a') + R"(", "pointerSize": 134}})";
  const Result<RepoInfo> info = ParseRepoInfo(Info(Small("config.json", "7") + "," + lfs));
  ASSERT_TRUE(info.ok()) << info.status().ToString();
  EXPECT_EQ(info->commit, kSha1);
  EXPECT_EQ(info->total_bytes, 1007u);
  EXPECT_EQ(info->files[0].hash, kSha1);
  EXPECT_EQ(info->files[1].hash, std::string(64, 'a'));
}

TEST(RepoInfo, HostileAnswersAreRefused) {
  ExpectRefused("", "JSON");
  ExpectRefused("[]", "sha");
  ExpectRefused(R"({"sha": "../../evil", "siblings": []})", "sha");
  ExpectRefused(std::string(R"({"sha": ")") + kSha1 + "\"}", "siblings");
  ExpectRefused(Info("1"), "file name");
  ExpectRefused(Info(R"({"rfilename": "a"})"), "no size or hash");
  ExpectRefused(Info(Small("a", "-1")), "no size or hash");
  ExpectRefused(Info(Small("a", "1.5")), "no size or hash");
  ExpectRefused(Info(R"({"rfilename": "a", "size": 1, "blobId": "../../x"})"), "no size or hash");
  ExpectRefused(Info(Small("a", "18446744073709551615")), "limit");
  ExpectRefused(Info(Small("a") + "," + Small("a")), "twice");
  ExpectRefused(Info(Small("a") + "," + Small("a/b")), "a file and a folder");
  ExpectRefused(Info(Small("../a")), "\"..\"");
}

TEST(RepoInfo, SizesThatAddUpToTooMuchAreRefused) {
  const std::string most = std::to_string(kMaxFileBytes);
  std::string siblings = Small("f0", most);
  for (int i = 1; i < 5; ++i) siblings += "," + Small("f" + std::to_string(i), most);
  ExpectRefused(Info(siblings), "together");
}

TEST(RepoInfo, SelectionNeedsAConfiguration) {
  RepoInfo info = ParseRepoInfo(Info(Small("README.md") + "," + Small("x.gguf"))).value();
  EXPECT_FALSE(SelectFiles(info, true).ok());
  info.files.push_back({.name = "config.json", .size_bytes = 3, .hash = kSha1});
  EXPECT_EQ(SelectFiles(info, false)->files.size(), 2u);
  EXPECT_EQ(SelectFiles(info, false)->total_bytes, 4u);
  EXPECT_EQ(SelectFiles(info, true)->files.size(), 3u);
}

TEST(Headers, OfTheLastAnswerCount) {
  AnswerHead head;
  AddHeaderLine("HTTP/1.1 302 Found\r\n", &head);
  AddHeaderLine("Content-Length: 5\r\n", &head);
  AddHeaderLine("HTTP/1.1 206 Partial Content\r\n", &head);
  EXPECT_FALSE(head.content_length.has_value());
  AddHeaderLine("content-RANGE: bytes 100-199/200\r\n", &head);
  AddHeaderLine("Retry-After:  7 \r\n", &head);
  AddHeaderLine("X-Error-Message: go\x1b[2Jaway\r\n", &head);
  EXPECT_EQ(head.range_begin, 100u);
  EXPECT_EQ(head.retry_after_seconds, 7);
  EXPECT_EQ(head.error_message, "go [2Jaway");
  AddHeaderLine("Content-Range: bytes x-\r\n", &head);
  EXPECT_FALSE(head.range_begin.has_value());
  AddHeaderLine("Retry-After: Thu, 01 Jan 1970 00:00:01 GMT\r\n", &head);
  EXPECT_EQ(head.retry_after_seconds, 0);
}

TEST(ProgressLine, SaysHowMuchHowFastHowLong) {
  PullProgress progress = {.model = "org/name",
                           .files_done = 3,
                           .files = 9,
                           .bytes_done = 6u << 20,
                           .bytes = uint64_t{24} << 30,
                           .bytes_received = 0,
                           .seconds = 0.5};
  EXPECT_EQ(ProgressLine(progress), "org/name   0% of 24.0 GiB, 3 of 9 files");
  progress.bytes_done = uint64_t{12} << 30;
  progress.bytes_received = uint64_t{4} << 30;
  progress.seconds = 1000;
  EXPECT_EQ(ProgressLine(progress),
            "org/name  50% of 24.0 GiB, 3 of 9 files, 4.3 MB/s, 50m00s left");
  progress.seconds = 10'000;
  EXPECT_NE(ProgressLine(progress).find("8h20m left"), std::string::npos);
  EXPECT_EQ(SizeText(1536), "1.5 KiB");
  EXPECT_EQ(SizeText(7), "7 bytes");
}

TEST(Waits, DoubleUpToALimitAndHonourTheServer) {
  const RetryPolicy policy = {
      .first_wait_ms = 100, .longest_wait_ms = 1000, .longest_retry_after_ms = 5000};
  const Verdict plain;
  EXPECT_EQ(WaitBefore(1, plain, policy), 100);
  EXPECT_EQ(WaitBefore(3, plain, policy), 400);
  EXPECT_EQ(WaitBefore(40, plain, policy), 1000);
  EXPECT_EQ(WaitBefore(1, {.least_wait_ms = 3000}, policy), 3000);
  EXPECT_EQ(WaitBefore(1, {.least_wait_ms = 1'000'000}, policy), 5000);
}

}  // namespace
}  // namespace thalweg::hub
