// Ranks that are processes do what ranks that are threads do; whoever fails, differs, is killed or
// stopped is named, and nobody is left behind.
#include <gtest/gtest.h>

#include "tests/ranks/kill.h"

namespace thalweg::tests {
namespace {

using std::chrono::seconds;

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, FollowTheModel) {
  for (const char* delay : {"0", "12000"}) {
    Job job(GetParam(), {THALWEG_RANK_PROGRAM, "check", "5", "40", delay});
    const JobResult result = job.Wait(seconds(60));
    EXPECT_EQ(result.code, 0) << result.output;
    for (int r = 0; r < GetParam(); ++r)
      EXPECT_NE(result.output.find("rank " + std::to_string(r) + " of " +
                                   std::to_string(GetParam()) + " is done"),
                std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Mpi, Ranks, testing::Values(1, 2, 3, 4, 8));

TEST(Mpi, RanksThatDifferDoNotStart) {
  const JobResult result = Job(3, {THALWEG_RANK_PROGRAM, "agree", "1"}).Wait(seconds(20));
  EXPECT_EQ(result.code, 75) << result.output;
  for (const char* rank : {"0", "1", "2"})
    EXPECT_NE(result.output.find(std::string("rank ") + rank +
                                 ": failed precondition: the ranks differ: option --block-size is "
                                 "128 on rank 1 and 64 on ranks 0 and 2"),
              std::string::npos)
        << result.output;
}

TEST(Mpi, AFailureIsHeardWithItsReason) {
  const JobResult result = Job(3, {THALWEG_RANK_PROGRAM, "fail", "2"}).Wait(seconds(20));
  EXPECT_EQ(result.code, 75) << result.output;
  for (const char* rank : {"0", "1"})
    EXPECT_NE(result.output.find(std::string("rank ") + rank + ": "), std::string::npos)
        << result.output;
  EXPECT_NE(result.output.find("rank 2 failed: resource exhausted: no memory left"),
            std::string::npos)
      << result.output;
}

TEST(Mpi, RanksThatDoNotDoTheSameEnd) {
  const JobResult result = Job(2, {THALWEG_RANK_PROGRAM, "differ"}).Wait(seconds(20));
  EXPECT_EQ(result.code, 75) << result.output;
  EXPECT_NE(result.output.find("rank 1: input/output error: message (operation 1 of rank 1): "
                               "waited 3.0 s for rank 0, which does not come"),
            std::string::npos)
      << result.output;
}

TEST(Mpi, KilledAndStoppedRanksAreNamed) {
  for (const Harm harm : {Harm::kKill, Harm::kStop, Harm::kKillUnnoticed})
    HarmOneRank({.ranks = 3, .victim = 1, .harm = harm, .delay_ms = 70, .silence_ms = 1500});
}

}  // namespace
}  // namespace thalweg::tests
