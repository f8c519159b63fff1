// Every operation does on threads what the obvious model says, bit for bit, for any number of
// ranks, any lengths (most different, some zero) and any delays; sums do not depend on how they
// travel.
#include <gtest/gtest.h>

#include "comm/test_program.h"
#include "comm/test_ranks.h"

namespace thalweg::comm {
namespace {

class Programs : public testing::TestWithParam<int> {};

TEST_P(Programs, FollowTheModel) {
  for (uint64_t seed = 0; seed < 3; ++seed)
    RunRanks(GetParam(), [&](Communicator& comm) {
      const Status status = RunProgram(comm, {.seed = seed, .operations = 60});
      EXPECT_TRUE(status.ok()) << status.ToString();
    });
}

TEST_P(Programs, FollowTheModelWithDelays) {
  RunRanks(GetParam(), [&](Communicator& comm) {
    const Status status = RunProgram(comm, {.seed = 77, .operations = 40, .most_delay_us = 12'000});
    EXPECT_TRUE(status.ok()) << status.ToString();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Programs, testing::Values(1, 2, 3, 4, 8));

TEST(Sum, IsInTheOrderOfRanksWhateverTheLength) {
  // (1e8 + 1) - 1e8 is 0 in FP32 and 1 in FP64; another order gives 1 in FP32.
  const std::array<float, 3> addends = {1e8F, 1.0F, -1e8F};
  for (const size_t count : {size_t{1}, size_t{7}, size_t{5000}})
    RunRanks(3, [&](Communicator& comm) {
      std::vector<float> narrow(count, addends[static_cast<size_t>(comm.rank())]);
      std::vector<float> wide = narrow;
      ASSERT_TRUE(comm.Sum(std::span(narrow)).ok());
      ASSERT_TRUE(comm.Sum(std::span(wide), Accumulation::kFp64).ok());
      EXPECT_EQ(narrow, std::vector<float>(count, 0.0F));
      EXPECT_EQ(wide, std::vector<float>(count, 1.0F));
    });
}

TEST(Sum, OfCountersWraps) {
  RunRanks(2, [](Communicator& comm) {
    std::vector<int64_t> values = {INT64_MAX, 5};
    ASSERT_TRUE(comm.Sum(std::span(values)).ok());
    EXPECT_EQ(values, (std::vector<int64_t>{-2, 10}));
  });
}

TEST(Barrier, NobodyPassesBeforeTheLastHasCome) {
  std::atomic<int> came = 0;
  RunRanks(4, [&](Communicator& comm) {
    for (int round = 1; round <= 50; ++round) {
      ++came;
      ASSERT_TRUE(comm.Barrier().ok());
      EXPECT_GE(came.load(), 4 * round);
      ASSERT_TRUE(comm.Barrier().ok());
    }
  });
}

}  // namespace
}  // namespace thalweg::comm
