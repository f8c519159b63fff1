// Harm done to one rank of a working job, and what must come of it.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "tests/ranks/job.h"

namespace thalweg::tests {

enum class Harm {
  kKill,           // kill -9: mpirun sees it, names the rank and ends the others
  kStop,           // SIGSTOP: nobody sees it but the ranks
  kKillUnnoticed,  // kill -9 where the launcher leaves the others alone
};

struct HarmCase {
  int ranks = 3;
  int victim = 1;
  Harm harm = Harm::kKill;
  int delay_ms = 0;  // from the first step on
  int silence_ms = 4000;
};

// Every other rank is gone within ten seconds, with the right words and exit codes.
inline void HarmOneRank(const HarmCase& c) {
  SCOPED_TRACE(testing::Message() << "victim " << c.victim << " of " << c.ranks << ", harm "
                                  << static_cast<int>(c.harm) << " after " << c.delay_ms << " ms");
  using std::chrono::seconds;
  std::vector<std::string> flags;
  if (c.harm == Harm::kKillUnnoticed) flags = {"--enable-recovery"};
  Job job(c.ranks, {THALWEG_RANK_PROGRAM, "work", "FOLDER", std::to_string(c.silence_ms)}, flags);
  std::vector<pid_t> pids = job.Pids(seconds(30));
  ASSERT_FALSE(pids.empty());
  std::this_thread::sleep_for(std::chrono::milliseconds(c.delay_ms));
  const auto victim = static_cast<size_t>(c.victim);
  ASSERT_EQ(kill(pids[victim], c.harm == Harm::kStop ? SIGSTOP : SIGKILL), 0);
  pids.erase(pids.begin() + c.victim);
  EXPECT_TRUE(AllGone(pids, seconds(10)));
  const JobResult result = job.Wait(seconds(10));
  EXPECT_TRUE(result.ended) << result.output;
  const std::string name = "rank " + std::to_string(c.victim);
  if (c.harm == Harm::kKill) {
    EXPECT_TRUE(result.code == 128 + SIGKILL || result.code == 75) << result.code;
    EXPECT_NE(result.output.find(name), std::string::npos) << result.output;
  } else {
    if (c.harm == Harm::kStop) {
      EXPECT_EQ(result.code, 75) << result.output;
    }
    EXPECT_NE(result.output.find(name + " is gone: nothing heard of it for"), std::string::npos)
        << result.output;
  }
}

}  // namespace thalweg::tests
