// A pull ends with every byte checked and in place, or with an error and nothing that could be
// taken for a model; what a cut connection, a busy server or a kill left behind is continued, not
// repeated. The server of tests/hub plays the Hub.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

#include "base/sha256.h"
#include "hub/hub.h"
#include "hub/test_hub.h"

namespace thalweg::hub {
namespace {

namespace fs = std::filesystem;
using base::Code;

const std::vector<std::string> kWanted = {
    "config.json", "tokenizer.json", "generation_config.json",      "LICENSE",
    kShard1,       kShard2,          "model.safetensors.index.json"};

std::string Fault(const std::string& key, const std::string& file, const std::string& value) {
  return "{\"" + key + "\": {\"" + file + "\": " + value + "}}";
}

void ExpectComplete(const TestHub& hub, const fs::path& snapshot) {
  for (const std::string& file : kWanted) {
    EXPECT_TRUE(fs::is_symlink(snapshot / file)) << file;
    EXPECT_TRUE(hub.Cached(snapshot, file) == hub.Content(file)) << file;
  }
  EXPECT_TRUE(hub.Blobs(".incomplete").empty());
}

void ExpectPull(const TestHub& hub) {
  const Result<PullReport> report = Pull("test/model", hub.Options());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  ExpectComplete(hub, report->folder);
}

// The pull fails so, and leaves nothing that looks like a model.
void ExpectFailure(const TestHub& hub, const HubOptions& options, Code code,
                   const std::string& words) {
  const Result<PullReport> report = Pull("test/model", options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), code) << report.status().ToString();
  EXPECT_NE(report.status().message().find(words), std::string::npos) << report.status().ToString();
  EXPECT_FALSE(fs::exists(options.cache / "models--test--model/snapshots" / hub.commit()));
  EXPECT_FALSE(fs::exists(options.cache / "models--test--model/refs/main"));
}

TEST(Pull, BringsWhatTheEngineReadsAndOnlyThat) {
  const TestHub hub;
  const Result<PullReport> report = Pull("test/model", hub.Options());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  ExpectComplete(hub, report->folder);
  EXPECT_EQ(report->folder, hub.folder() / "cache/models--test--model/snapshots" / hub.commit());
  EXPECT_EQ(report->files, static_cast<int64_t>(kWanted.size()));
  EXPECT_EQ(report->bytes, report->bytes_received);
  EXPECT_FALSE(fs::exists(report->folder / "pytorch_model.bin"));
  EXPECT_EQ(ReadText(hub.folder() / "cache/models--test--model/refs/main"), hub.commit());
  // LFS files are named by SHA-256, others by git's object id, as the Hub's client names them.
  const std::string target = fs::read_symlink(report->folder / kShard1).string();
  EXPECT_EQ(target.size(), std::string("../../blobs/").size() + 64);
  EXPECT_EQ(fs::read_symlink(report->folder / "LICENSE").string().size(),
            std::string("../../blobs/").size() + 40);
}

TEST(Pull, AllFilesOnRequestFoldersAndOddNamesToo) {
  const TestHub hub;
  HubOptions options = hub.Options();
  options.all_files = true;
  const Result<PullReport> report = Pull("test/model", options);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(hub.Cached(report->folder, "extra/notes #1.txt"), hub.Content("extra/notes #1.txt"));
  EXPECT_EQ(hub.Cached(report->folder, "pytorch_model.bin"), "not for us");
}

TEST(Pull, ASecondPullAsksOnceAndReceivesNothing) {
  const TestHub hub;
  ExpectPull(hub);
  const size_t before = hub.Requests().size();
  const Result<PullReport> again = Pull("test/model", hub.Options());
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->bytes_received, 0u);
  EXPECT_EQ(hub.Requests().size(), before + 1);
}

TEST(Pull, BranchesWithSlashesAndCommits) {
  const TestHub hub;
  HubOptions options = hub.Options();
  options.revision = "refs/pr/1";
  ASSERT_TRUE(Pull("test/model", options).ok());
  EXPECT_EQ(ReadText(options.cache / "models--test--model/refs/refs/pr/1"), hub.commit());
  options.revision = hub.commit();
  ASSERT_TRUE(Pull("test/model", options).ok());
  EXPECT_FALSE(fs::exists(options.cache / "models--test--model/refs" / hub.commit()));
}

TEST(Pull, ACutConnectionIsContinuedWhereItBroke) {
  const TestHub hub;
  hub.SetFaults(Fault("cut", kShard1, "100000"));
  ExpectPull(hub);
  std::vector<std::string> ranges;
  for (const auto& request : hub.RequestsFor(kShard1))
    ranges.push_back(request["range"].is_null() ? "" : request["range"].get<std::string>());
  EXPECT_EQ(ranges, (std::vector<std::string>{"", "bytes=100000-", "bytes=200000-"}));
}

TEST(Pull, AServerThatNeverSendsAByteIsGivenUp) {
  const TestHub hub;
  hub.SetFaults(Fault("cut", kShard1, "0"));
  ExpectFailure(hub, hub.Options(), Code::kIo, "gave up after 4 attempts");
  EXPECT_EQ(hub.RequestsFor(kShard1).size(), 4u);
}

TEST(Pull, WithoutRangesItStartsOver) {
  const TestHub hub;
  hub.SetFaults(R"({"no_range": true, "cut": {")" + std::string(kShard1) +
                R"(": 1000}, "cut_times": {")" + kShard1 + R"(": 2}})");
  ExpectPull(hub);
}

TEST(Pull, ARefusedRangeStartsOver) {
  const TestHub hub;
  hub.SetFaults(R"({"range_refused": {")" + std::string(kShard1) + R"(": true}, "cut": {")" +
                kShard1 + R"(": 1000}, "cut_times": {")" + kShard1 + R"(": 1}})");
  ExpectPull(hub);
  const auto requests = hub.RequestsFor(kShard1);
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1]["range"], "bytes=1000-");
  EXPECT_TRUE(requests[2]["range"].is_null());
}

TEST(Pull, AnotherRangeThanAskedForIsRefused) {
  const TestHub hub;
  hub.SetFaults(R"({"bad_range": {")" + std::string(kShard1) + R"(": true}, "cut": {")" + kShard1 +
                R"(": 1000}, "cut_times": {")" + kShard1 + R"(": 1}})");
  ExpectFailure(hub, hub.Options(), Code::kInvalidArgument, "another range");
}

TEST(Pull, WrongBytesNeverGetAName) {
  for (const char* file : {kShard1, "LICENSE"}) {
    const TestHub hub;
    const std::string wrong(hub.Content(file).size(), 'w');
    hub.SetFaults(Fault("body", file, "\"" + wrong + "\""));
    ExpectFailure(hub, hub.Options(), Code::kInvalidArgument, "have the hash");
    EXPECT_EQ(hub.RequestsFor(file).size(), 2u) << "once more, then an error";
    hub.SetFaults("{}");
    ExpectPull(hub);
  }
}

TEST(Pull, ShorterThanAnnouncedIsNotDone) {
  const TestHub hub;
  hub.SetFaults(Fault("body", kShard1, "\"short\""));
  ExpectFailure(hub, hub.Options(), Code::kInvalidArgument, "5 bytes where 300000 were announced");
  EXPECT_EQ(hub.RequestsFor(kShard1).size(), 1u);
}

TEST(Pull, LongerThanAnnouncedIsCutOff) {
  const TestHub hub;
  hub.SetFaults(Fault("longer", kShard1, "5000000"));
  ExpectFailure(hub, hub.Options(), Code::kInvalidArgument, "more than the 300000 bytes");
  for (const std::string& name : hub.Blobs(".incomplete"))
    EXPECT_LE(fs::file_size(hub.folder() / "cache/models--test--model/blobs" / name), kShardBytes);
  hub.SetFaults("{}");
  ExpectPull(hub);
}

TEST(Pull, ARottenRemainderIsFoundAndReplaced) {
  const TestHub hub;
  hub.SetFaults(Fault("cut", kShard1, "100000"));
  HubOptions options = hub.Options();
  options.retry.attempts = 0;
  ASSERT_FALSE(Pull("test/model", options).ok());
  const std::vector<std::string> left = hub.Blobs(".incomplete");
  ASSERT_FALSE(left.empty());
  for (const std::string& name : left) {
    const fs::path blob = hub.folder() / "cache/models--test--model/blobs" / name;
    WriteText(blob, std::string(fs::file_size(blob), 'r'));
  }
  hub.SetFaults("{}");
  ExpectPull(hub);
}

TEST(Pull, TheTokenGoesToTheHubAndNowhereElse) {
  const TestHub hub;
  hub.SetFaults(R"({"token": "hf_secret", "cdn": true})");
  HubOptions options = hub.Options();
  options.token = "hf_secret";
  ASSERT_TRUE(Pull("test/model", options).ok());
  int cdn = 0;
  for (const auto& request : hub.Requests()) {
    cdn += request["cdn"].get<bool>() ? 1 : 0;
    EXPECT_EQ(request["authorization"].is_null(), request["cdn"].get<bool>()) << request.dump();
  }
  EXPECT_EQ(cdn, 3);  // two shards and the tokenizer
}

TEST(Pull, ARedirectedFileIsContinuedToo) {
  const TestHub hub;
  hub.SetFaults(R"({"cdn": true, "cut": {")" + std::string(kShard2) + R"(": 150000}})");
  ExpectPull(hub);
  const auto requests = hub.RequestsFor(kShard2);
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[3]["range"], "bytes=150000-");
  EXPECT_TRUE(requests[3]["cdn"].get<bool>());
}

TEST(Pull, RedirectsInACircleEnd) {
  const TestHub hub;
  hub.SetFaults(Fault("redirect_loop", kShard1, "true"));
  ExpectFailure(hub, hub.Options(), Code::kIo, "redirects");
}

TEST(Pull, NoAccessSaysWhatToDo) {
  const TestHub hub;
  hub.SetFaults(R"({"token": "hf_secret"})");
  ExpectFailure(hub, hub.Options(), Code::kFailedPrecondition, "set HF_TOKEN");
  HubOptions options = hub.Options();
  options.token = "hf_wrong";
  ExpectFailure(hub, options, Code::kFailedPrecondition, "the token (HF_TOKEN) is valid");
  hub.SetFaults(R"({"gated": true})");
  ExpectFailure(hub, hub.Options(), Code::kFailedPrecondition, "accept its terms");
  ExpectFailure(hub, options, Code::kFailedPrecondition, "ask for access");
}

TEST(Pull, UnknownNamesAndRevisionsAreNotFound) {
  const TestHub hub;
  const Result<PullReport> report = Pull("test/other", hub.Options());
  EXPECT_EQ(report.status().code(), Code::kNotFound);
  EXPECT_NE(report.status().message().find("check the name"), std::string::npos);
  HubOptions options = hub.Options();
  options.revision = "nowhere";
  ExpectFailure(hub, options, Code::kNotFound, "check --revision");
}

TEST(Pull, ABusyServerIsAskedAgainWhenItSaid) {
  const TestHub hub;
  hub.SetFaults(R"({"errors": {"info": ["429:1", 503], ")" + std::string(kShard1) +
                R"(": [500, 502, "429:1"]}})");
  const auto begin = std::chrono::steady_clock::now();
  ExpectPull(hub);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::seconds(2));
}

TEST(Pull, AServerThatStaysBusyIsAnError) {
  const TestHub hub;
  hub.SetFaults(R"({"errors": {"info": [429, 429, 429, 429, 429, 429]}})");
  ExpectFailure(hub, hub.Options(), Code::kResourceExhausted, "429");
}

TEST(Pull, RetryAfterIsHonouredUpToItsCap) {
  const TestHub hub;
  hub.SetFaults(R"({"errors": {"info": ["429:100000"]}})");
  HubOptions options = hub.Options();
  options.retry.longest_retry_after_ms = 50;
  EXPECT_TRUE(Pull("test/model", options).ok());
}

TEST(Pull, AnUnreachableServerIsAnErrorThatNamesIt) {
  const TestHub hub;
  HubOptions options = hub.Options();
  options.endpoint = "http://127.0.0.1:1";
  ExpectFailure(hub, options, Code::kIo, "127.0.0.1:1");
}

TEST(Pull, OfflineAsksNobody) {
  const TestHub hub;
  HubOptions options = hub.Options();
  options.offline = true;
  ExpectFailure(hub, options, Code::kFailedPrecondition, "offline");
  EXPECT_TRUE(hub.Requests().empty());
}

TEST(Pull, TooLittleDiskIsFoundBeforeTheFirstByte) {
  const TestHub hub;
  hub.SetFaults(Fault("info", kShard1, R"({"lfs": {"size": 1125899906842624}})"));
  ExpectFailure(hub, hub.Options(), Code::kResourceExhausted, "needs 1125899907");
  EXPECT_TRUE(hub.RequestsFor("resolve").empty());
}

// A file system that is full in the middle: the limit on file sizes makes write() fail the same
// way.
TEST(Pull, AWriteThatFailsKeepsWhatIsThere) {
  const TestHub hub;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {.rlim_cur = 200'000, .rlim_max = 200'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = Pull("test/model", hub.Options()).status();
    const bool said = status.message().find("make room") != std::string::npos;
    _exit(status.code() == Code::kResourceExhausted && said ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  // The shards come beside each other, so which of them were cut depends on the machine.
  std::vector<std::string> cut;
  for (const std::string shard : {kShard1, kShard2}) {
    const std::string name = base::HexOf(base::Sha256Of(hub.Content(shard))) + ".incomplete";
    std::error_code error;
    const auto bytes =
        fs::file_size(hub.Options().cache / "models--test--model/blobs" / name, error);
    if (!error && bytes > 0) cut.push_back(shard);
  }
  EXPECT_FALSE(cut.empty());
  ExpectPull(hub);
  for (const std::string& shard : cut)
    EXPECT_FALSE(hub.RequestsFor(shard).back()["range"].is_null()) << shard << " is continued";
}

TEST(Pull, NamesThatLeaveTheCacheAreRefused) {
  const TestHub hub;
  for (const char* name :
       {"../evil", "/etc/passwd", "a/../../b", "a//b", "a\\u0000b", "..", "a/."}) {
    hub.SetFaults(R"({"extra": [{"rfilename": ")" + std::string(name) +
                  R"(", "size": 1, "blobId": "0123456789012345678901234567890123456789"}]})");
    ExpectFailure(hub, hub.Options(), Code::kInvalidArgument, "file name");
    EXPECT_TRUE(hub.RequestsFor("resolve").empty());
  }
}

TEST(Pull, AnAnswerWithoutEndIsRefused) {
  const TestHub hub;
  hub.SetFaults(R"({"huge_info": 70000000})");
  ExpectFailure(hub, hub.Options(), Code::kInvalidArgument, "limit");
}

TEST(Pull, TwoProcessesShareOneDownload) {
  const TestHub hub;
  hub.SetFaults(Fault("slow", kShard1, "10000"));
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    children.push_back(fork());
    if (children.back() == 0) _exit(Pull("test/model", hub.Options()).ok() ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  for (const std::string& file : kWanted)
    EXPECT_EQ(hub.RequestsFor("resolve/" + hub.commit() + "/" + file).size(), 1u) << file;
}

// Waits until a pull in another process has put so many bytes of the first shard on disk.
void WaitForBytes(const TestHub& hub, uint64_t bytes) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < end) {
    uint64_t there = 0;
    for (const std::string& name : hub.Blobs(".incomplete")) {
      std::error_code error;
      const auto size =
          fs::file_size(hub.folder() / "cache/models--test--model/blobs" / name, error);
      there += error ? 0 : size;
    }
    if (there >= bytes) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  FAIL() << "the other process does not download";
}

TEST(Pull, AfterAKillItContinues) {
  const TestHub hub;
  hub.SetFaults(Fault("slow", kShard1, "1000"));
  const pid_t child = fork();
  if (child == 0) _exit(Pull("test/model", hub.Options()).ok() ? 0 : 1);
  WaitForBytes(hub, 20'000);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(fs::exists(hub.folder() / "cache/models--test--model/snapshots" / hub.commit()));
  hub.SetFaults("{}");
  ExpectPull(hub);  // the lock went with its holder
  const auto requests = hub.RequestsFor(kShard1);
  ASSERT_EQ(requests.size(), 2u);
  ASSERT_FALSE(requests[1]["range"].is_null());
  EXPECT_GE(requests[1]["range"].get<std::string>(), "bytes=1");
}

TEST(Pull, AnInterruptionKeepsWhatThereIs) {
  const TestHub hub;
  hub.SetFaults(Fault("slow", kShard1, "1000"));
  HubOptions options = hub.Options();
  PullProgress last;
  options.progress = [&](const PullProgress& progress) { last = progress; };
  options.interrupted = [&] { return last.bytes_received > 20'000 && last.files_done > 0; };
  ExpectFailure(hub, options, Code::kFailedPrecondition, "repeat to continue");
  EXPECT_EQ(hub.Blobs(".incomplete").size(), 1u);
  hub.SetFaults("{}");
  ExpectPull(hub);
  EXPECT_FALSE(hub.RequestsFor(kShard1).back()["range"].is_null());
}

TEST(Pull, ProgressGrowsToTheTotal) {
  const TestHub hub;
  HubOptions options = hub.Options();
  std::vector<PullProgress> reports;
  options.progress = [&](const PullProgress& progress) { reports.push_back(progress); };
  ASSERT_TRUE(Pull("test/model", options).ok());
  ASSERT_FALSE(reports.empty());
  EXPECT_TRUE(std::is_sorted(reports.begin(), reports.end(), [](const auto& a, const auto& b) {
    return a.bytes_done < b.bytes_done;
  }));
  EXPECT_EQ(reports.back().bytes_done, reports.back().bytes);
  EXPECT_EQ(reports.back().files_done, reports.back().files);
  EXPECT_NE(ProgressLine(reports.back()).find("test/model 100%"), std::string::npos);
}

// The most requests for files that the server had at once.
int MostAtOnce(const TestHub& hub, int jobs) {
  HubOptions options = hub.Options();
  options.jobs = jobs;
  options.cache = hub.folder() / ("cache" + std::to_string(jobs));
  const size_t before = hub.Requests().size();
  EXPECT_TRUE(Pull("test/model", options).ok());
  const std::vector<base::Json> requests = hub.Requests();
  int most = 0;
  for (size_t i = before + 1; i < requests.size(); ++i)
    most = std::max(most, requests[i]["active"].get<int>());
  return most;
}

TEST(Pull, FilesTravelInParallelAsManyAsAllowed) {
  const TestHub hub;
  hub.SetFaults(R"({"slow": {")" + std::string(kShard1) + R"(": 10000, ")" + kShard2 +
                R"(": 10000}})");
  EXPECT_EQ(MostAtOnce(hub, 1), 1);
  EXPECT_GE(MostAtOnce(hub, 4), 2);
}

TEST(Pull, BadNamesNeverReachTheNetwork) {
  const TestHub hub;
  for (const char* name : {"", "a/b/c", "../x", "a/..", "-a/b", "a/b.", "a--b", "a b", "a/b?x"}) {
    EXPECT_EQ(Pull(name, hub.Options()).status().code(), Code::kInvalidArgument) << name;
  }
  HubOptions options = hub.Options();
  for (const char* revision : {"../x", "a b", "/a", "a//b", "a%2f"}) {
    options.revision = revision;
    EXPECT_EQ(Pull("test/model", options).status().code(), Code::kInvalidArgument) << revision;
  }
  EXPECT_TRUE(hub.Requests().empty());
}

}  // namespace
}  // namespace thalweg::hub
