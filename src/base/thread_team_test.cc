// The thread team runs every index once whatever is called from where: nested, from several threads
// at a time, many times in a row, with more members than cores; and its size follows the machine.
#include "base/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/machine.h"

namespace thalweg::base {
namespace {

// Indices of [0, count) that were not run exactly once.
int64_t Missed(const ThreadTeam& team, int64_t count, int64_t grain) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
  team.ParallelFor(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
  });
  int64_t missed = 0;
  for (const auto& n : seen) missed += n.load() == 1 ? 0 : 1;
  return missed;
}

TEST(ThreadTeam, CoversEveryIndexOnce) {
  for (const int threads : {1, 2, 5}) {
    const ThreadTeam team(threads);
    for (const int64_t count : {0, 1, 2, 7, 100}) {
      for (const int64_t grain : {0, 1, 3, 200}) EXPECT_EQ(Missed(team, count, grain), 0);
    }
  }
}

TEST(ThreadTeam, ManyJobsInARowSeeWhatTheCallerWrote) {
  const ThreadTeam team(3);
  int64_t input = 0;
  std::vector<int64_t> output(12);
  for (int64_t job = 1; job <= 20000; ++job) {
    input = job;
    team.ParallelFor(12, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) output[static_cast<size_t>(i)] = input + i;
    });
    for (size_t i = 0; i < output.size(); ++i)
      ASSERT_EQ(output[i], job + static_cast<int64_t>(i)) << "job " << job;
  }
}

TEST(ThreadTeam, JobsAfterARestFindTheMembersAsleep) {
  const ThreadTeam team(3);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(Missed(team, 50, 1), 0);
  }
}

TEST(ThreadTeam, NestedCallsRunOnTheirOwnThread) {
  const ThreadTeam team(3);
  std::atomic<int64_t> sum = 0;
  team.ParallelFor(10, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const std::thread::id outer = std::this_thread::get_id();
      team.ParallelFor(10, 1, [&](int64_t first, int64_t last) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        sum += last - first;
      });
    }
  });
  EXPECT_EQ(sum.load(), 100);
}

TEST(ThreadTeam, CallersFromSeveralThreadsAreServed) {
  const ThreadTeam team(2);
  std::vector<std::thread> callers;
  std::atomic<int64_t> missed = 0;
  for (int c = 0; c < 3; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) missed += Missed(team, 40, 1);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(missed.load(), 0);
}

TEST(ThreadTeam, ComesAndGoesWithoutWork) {
  for (int i = 0; i < 50; ++i) const ThreadTeam team(1 + i % 4);
}

TEST(ThreadTeam, SizeFollowsTheMachineAndPinningTheSize) {
  EXPECT_EQ(ThreadTeam().size(), AvailableProcessors());
  EXPECT_EQ(ThreadTeam(7).size(), 7);
  EXPECT_FALSE(ThreadTeam(2, Pinning::kOff).pinned());
  EXPECT_TRUE(ThreadTeam(2, Pinning::kOn).pinned());
  const auto cores = static_cast<int>(PhysicalCores(AllowedProcessors()).size());
  EXPECT_FALSE(ThreadTeam(cores + 1).pinned());
  const size_t allowed = AllowedProcessors().size();
  std::thread([] { ThreadTeam(2, Pinning::kOn).PinCaller(); }).join();
  EXPECT_EQ(AllowedProcessors().size(), allowed);  // pinning is no limit for teams to come
}

}  // namespace
}  // namespace thalweg::base
