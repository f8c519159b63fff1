// The program under mpirun: `thalweg batch` over 2 and 3 processes writes what one process writes,
// byte for byte, with experts that move too, and so do run and score; ranks that were started
// differently, or are too many, say so and end; a rank that is killed in the middle takes all
// others along within seconds, with a message that names it, and no line is answered wrongly: the
// same command goes on where it ended.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <sstream>

#include "tests/ranks/job.h"
#include "tests/ranks/program_kit.h"

namespace thalweg::tests {
namespace {

using std::chrono::seconds;

constexpr seconds kLong{120};

TEST(Program, TwoAndThreeProcessesWriteWhatOneDoes) {
  const std::string in = NewFile("in", BatchLines(9, 8));
  const std::string alone = NewFile("out1", "");
  EXPECT_EQ(Job(1, BatchCommand(in, alone)).Wait(kLong).code, 0);
  EXPECT_EQ(LinesOf(alone).size(), 9u);
  for (const int ranks : {2, 3}) {
    const std::string out = NewFile("out", "");
    const JobResult result = Job(ranks, BatchCommand(in, out)).Wait(kLong);
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_EQ(LinesOf(out), LinesOf(alone)) << ranks;
  }
}

// Experts move while lines are answered; what was counted is saved, and inspect reads it.
TEST(Program, ARebalanceInTheMiddleChangesNoByte) {
  const std::string in = NewFile("in", BatchLines(24, 20));
  const std::string alone = NewFile("out1", ""), counts = NewFile("counts", "");
  EXPECT_EQ(Job(1, BatchCommand(in, alone)).Wait(kLong).code, 0);
  for (const int ranks : {2, 3}) {
    const std::string out = NewFile("out", "");
    std::remove(counts.c_str());  // experts lie in order
    std::vector<std::string> words = BatchCommand(in, out);
    words.insert(words.end(), {"--rebalance-window", "200", "--expert-spare", "1", "--log-level",
                               "info", "--expert-counts", counts});
    const JobResult result = Job(ranks, words).Wait(kLong);
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_NE(result.output.find(" lie anew from step "), std::string::npos) << result.output;
    EXPECT_EQ(LinesOf(out), LinesOf(alone)) << ranks;
  }
  const JobResult seen =
      Job(1, {THALWEG_PROGRAM, "inspect", "experts", counts, "--ranks", "2"}).Wait(kLong);
  EXPECT_EQ(seen.code, 0) << seen.output;
  std::remove(counts.c_str());
}

// What tells two runs apart: the digest of all logits of run, or the one line of score.
std::string Essence(const std::string& output) {
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("logits ") || line.starts_with("{")) return line;
  return "nothing";
}

// run and score drive their model themselves; a digest of all logits is among what run prints.
TEST(Program, RunAndScoreOverRanksSayWhatOneSays) {
  const std::string text = NewFile("text", "There was a river, and beside it a mill that stood.");
  const std::vector<std::vector<std::string>> commands = {
      {"run", "Tell me of the river.", "--seed", "5", "--temperature", "0.9", "--max-tokens", "20",
       "--stats"},
      {"score", "--text", text, "--json"}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.begin(), THALWEG_PROGRAM);
    words.insert(words.end(), {"--model", NanoFolder(), "--threads", "2"});
    const JobResult alone = Job(1, words).Wait(kLong);
    ASSERT_EQ(alone.code, 0) << alone.output;
    ASSERT_NE(Essence(alone.output), "nothing") << alone.output;
    for (const int ranks : {2, 3}) {
      const JobResult several = Job(ranks, words).Wait(kLong);
      EXPECT_EQ(several.code, 0) << several.output;
      EXPECT_EQ(Essence(several.output), Essence(alone.output));
    }
    words.insert(words.end(), {"--ranks", "3"});
    const JobResult threads = Job(1, words).Wait(kLong);
    EXPECT_EQ(threads.code, 0) << threads.output;
    EXPECT_EQ(Essence(threads.output), Essence(alone.output));
  }
}

TEST(Program, CommandsForOneRankSaySo) {
  const JobResult result =
      Job(2, {THALWEG_PROGRAM, "bench", "op", "--model", NanoFolder()}).Wait(kLong);
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.output.find("runs on one rank: start it without mpirun"), std::string::npos)
      << result.output;
}

// Likewise where processes share the rows of prompts, and a last one is left over.
TEST(Program, ProcessesThatShareThePromptsWriteWhatOneDoes) {
  const std::string in = NewFile("in", BatchLines(9, 8));
  const std::string alone = NewFile("out1", "");
  EXPECT_EQ(Job(1, BatchCommand(in, alone)).Wait(kLong).code, 0);
  for (const int ranks : {2, 3}) {
    const std::string out = NewFile("out", "");
    std::vector<std::string> words = BatchCommand(in, out);
    words.insert(words.end(), {"--context-ranks", "2"});
    const JobResult result = Job(ranks, words).Wait(kLong);
    EXPECT_EQ(result.code, 0) << result.output;
    EXPECT_EQ(LinesOf(out), LinesOf(alone)) << ranks;
  }
}

TEST(Program, PrefillIsMeasuredOverProcesses) {
  const JobResult result = Job(2, {THALWEG_PROGRAM, "bench", "ranks", "--model", NanoFolder(),
                                   "--prompt", "300", "--json"})
                               .Wait(kLong);
  EXPECT_EQ(result.code, 0) << result.output;
  for (const char* name : {"1 rank, 2 threads", "2 ranks, 1 thread each", "experts over them"})
    EXPECT_NE(result.output.find(name), std::string::npos) << result.output;
}

TEST(Program, MoreRanksThanExpertsSaySo) {
  const std::string in = NewFile("in", BatchLines(1, 1));
  const JobResult result = Job(17, BatchCommand(in, NewFile("out", ""))).Wait(kLong);
  EXPECT_TRUE(result.ended);
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.output.find("17 ranks cannot share 16 experts"), std::string::npos)
      << result.output;
}

TEST(Program, RanksThatDifferSaySo) {
  const std::string in = NewFile("in", BatchLines(1, 1)), out = NewFile("out", "");
  std::vector<std::string> words = BatchCommand(in, out);
  const std::vector<std::string> other = BatchCommand(in, out);
  words.insert(words.end(), {":", "-n", "1"});
  words.insert(words.end(), other.begin(), other.end());
  words.insert(words.end(), {"--max-rows", "64"});
  const JobResult result = Job(1, words).Wait(kLong);
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.output.find("option --max-rows is 512 on rank 0 and 64 on rank 1"),
            std::string::npos)
      << result.output;
}

TEST(Program, AKilledRankEndsAllAndTheSameCommandGoesOn) {
  const std::string in = NewFile("in", BatchLines(40, 30));
  const std::string alone = NewFile("out1", ""), out = NewFile("killed", "");
  EXPECT_EQ(Job(1, BatchCommand(in, alone)).Wait(kLong).code, 0);
  {
    Job job(3, BatchCommand(in, out), {"--enable-recovery"});
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
  const JobResult again = Job(2, BatchCommand(in, out)).Wait(kLong);
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(LinesOf(out), LinesOf(alone));
}

}  // namespace
}  // namespace thalweg::tests
