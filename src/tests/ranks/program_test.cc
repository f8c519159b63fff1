// The program under mpirun: `thalweg batch` over 2 and 3 processes writes what one process writes,
// byte for byte; ranks that were started differently, or are too many, say so and end; a rank that
// is killed in the middle takes all others along within seconds, with a message that names it, and
// no line is answered wrongly: the same command goes on where it ended.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/mapped_file.h"
#include "tests/ranks/job.h"

namespace thalweg::tests {
namespace {

using std::chrono::seconds;

constexpr seconds kLong{120};

std::string Model() { return std::string(THALWEG_SOURCE_DIR) + "/models/nano"; }

// Greedy and sampled lines of different lengths.
std::string Lines(int count, int max_tokens) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    std::string prompt;
    for (int k = 0; k <= i % 7; ++k) prompt += "One upon a time there was a river. ";
    text += fmt::format(R"({{"id":"{}","prompt":"{}","max_tokens":{},"temperature":{},)"
                        R"("logprobs":2,"ignore_eos":true}})"
                        "\n",
                        i, prompt, max_tokens, i % 2 == 0 ? "0" : "0.8");
  }
  return text;
}

std::string NewFile(const std::string& name, const std::string& text) {
  const std::string path =
      fmt::format("{}/thalweg-program-{}-{}", testing::TempDir(), getpid(), name);
  std::remove(path.c_str());
  if (!text.empty()) {
    EXPECT_TRUE(base::WriteFile(path, text).ok());
  }
  return path;
}

std::vector<std::string> Batch(const std::string& in, const std::string& out) {
  return {THALWEG_PROGRAM,
          "batch",
          in,
          out,
          "--model",
          Model(),
          "--threads",
          "1",
          "--cache-tokens",
          "8192",
          "--max-sequences",
          "8"};
}

std::multiset<std::string> LinesOf(const std::string& path) {
  std::ifstream file(path);
  std::multiset<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.insert(line);
  return lines;
}

TEST(Program, TwoAndThreeProcessesWriteWhatOneDoes) {
  const std::string in = NewFile("in", Lines(9, 8));
  const std::string alone = NewFile("out1", "");
  EXPECT_EQ(Job(1, Batch(in, alone)).Wait(kLong).code, 0);
  EXPECT_EQ(LinesOf(alone).size(), 9u);
  for (const int ranks : {2, 3}) {
    const std::string out = NewFile("out", "");
    const JobResult result = Job(ranks, Batch(in, out)).Wait(kLong);
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_EQ(LinesOf(out), LinesOf(alone)) << ranks;
  }
}

// Likewise where processes share the rows of prompts, and a last one is left over.
TEST(Program, ProcessesThatShareThePromptsWriteWhatOneDoes) {
  const std::string in = NewFile("in", Lines(9, 8));
  const std::string alone = NewFile("out1", "");
  EXPECT_EQ(Job(1, Batch(in, alone)).Wait(kLong).code, 0);
  for (const int ranks : {2, 3}) {
    const std::string out = NewFile("out", "");
    std::vector<std::string> words = Batch(in, out);
    words.insert(words.end(), {"--context-ranks", "2"});
    const JobResult result = Job(ranks, words).Wait(kLong);
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_EQ(LinesOf(out), LinesOf(alone)) << ranks;
  }
}

TEST(Program, PrefillIsMeasuredOverProcesses) {
  const JobResult result =
      Job(2, {THALWEG_PROGRAM, "bench", "ranks", "--model", Model(), "--prompt", "300", "--json"})
          .Wait(kLong);
  EXPECT_EQ(result.code, 0) << result.output;
  for (const char* name : {"1 rank, 2 threads", "2 ranks, 1 thread each", "experts over them"})
    EXPECT_NE(result.output.find(name), std::string::npos) << result.output;
}

TEST(Program, MoreRanksThanExpertsSaySo) {
  const std::string in = NewFile("in", Lines(1, 1));
  const JobResult result = Job(17, Batch(in, NewFile("out", ""))).Wait(kLong);
  EXPECT_TRUE(result.ended);
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.output.find("17 ranks cannot share 16 experts"), std::string::npos)
      << result.output;
}

TEST(Program, RanksThatDifferSaySo) {
  const std::string in = NewFile("in", Lines(1, 1)), out = NewFile("out", "");
  std::vector<std::string> words = Batch(in, out);
  const std::vector<std::string> other = Batch(in, out);
  words.insert(words.end(), {":", "-n", "1"});
  words.insert(words.end(), other.begin(), other.end());
  words.insert(words.end(), {"--max-rows", "64"});
  const JobResult result = Job(1, words).Wait(kLong);
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.output.find("option --max-rows is 512 on rank 0 and 64 on rank 1"),
            std::string::npos)
      << result.output;
}

// Processes whose command line names the file, without mpirun.
std::vector<pid_t> PidsWith(const std::string& file) {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream stream(entry.path() / "cmdline");
    std::stringstream words;
    words << stream.rdbuf();
    const std::string line = words.str();
    if (line.starts_with(THALWEG_PROGRAM) && line.find(file) != std::string::npos)
      pids.push_back(static_cast<pid_t>(std::stol(name)));
  }
  std::sort(pids.begin(), pids.end());
  return pids;
}

bool WaitFor(const std::function<bool()>& what) {
  for (int i = 0; i < 600 && !what(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return what();
}

TEST(Program, AKilledRankEndsAllAndTheSameCommandGoesOn) {
  const std::string in = NewFile("in", Lines(40, 30));
  const std::string alone = NewFile("out1", ""), out = NewFile("killed", "");
  EXPECT_EQ(Job(1, Batch(in, alone)).Wait(kLong).code, 0);
  {
    Job job(3, Batch(in, out), {"--enable-recovery"});
    ASSERT_TRUE(WaitFor([&] { return !LinesOf(out).empty(); }));
    const std::vector<pid_t> pids = PidsWith(out);
    ASSERT_EQ(pids.size(), 3u);
    kill(pids.back(), SIGKILL);
    const JobResult result = job.Wait(seconds(15));
    EXPECT_TRUE(result.ended);
    EXPECT_TRUE(AllGone(pids, seconds(1)));
    EXPECT_NE(result.output.find("rank 0: "), std::string::npos) << result.output;
    EXPECT_NE(result.output.find("rank 2"), std::string::npos) << result.output;
  }
  const JobResult again = Job(2, Batch(in, out)).Wait(kLong);
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(LinesOf(out), LinesOf(alone));
}

}  // namespace
}  // namespace thalweg::tests
