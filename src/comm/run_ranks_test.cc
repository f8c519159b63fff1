// Runs the ranks of other tests; and every rank that was asked for runs, once.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "comm/test_ranks.h"

namespace thalweg::comm {

void RunRanks(int size, const std::function<void(Communicator&)>& body, Limits limits) {
  ThreadGroup group(size, limits);
  std::vector<std::jthread> threads;
  for (int r = 0; r < size; ++r)
    threads.emplace_back([&body, rank = group.Join(r)] { body(*rank); });
}

namespace {

TEST(RunRanks, EveryRankRunsOnce) {
  std::array<std::atomic<int>, 5> ran = {};
  RunRanks(5, [&](Communicator& comm) {
    EXPECT_EQ(comm.size(), 5);
    ++ran[static_cast<size_t>(comm.rank())];
  });
  for (const auto& count : ran) EXPECT_EQ(count.load(), 1);
}

}  // namespace
}  // namespace thalweg::comm
