// Who is given up, when, and with which words: failures are heard at once, silence counts after its
// limit and never when the listener was away itself, a wait in vain is blamed on the end of the
// chain of waiting ranks.
#include "comm/liveness.h"

#include <gtest/gtest.h>

namespace thalweg::comm {
namespace {

using testing::Test;

constexpr Limits kLimits{
    .patience = Milliseconds(60'000), .silence = Milliseconds(4'000), .period = Milliseconds(250)};

class LivenessTest : public Test {
 protected:
  static Clock::time_point At(int ms) { return Clock::time_point() + Milliseconds(1'000'000 + ms); }
  // Rank 0 looks around every 100 ms and hears the ranks of `beating`.
  void Live(int from_ms, int to_ms, const std::vector<int>& beating) {
    for (int ms = from_ms; ms <= to_ms; ms += 100) {
      for (const int r : beating) liveness_.Heard(r, {}, At(ms));
      liveness_.LookAround(At(ms));
    }
  }
  void Say(int rank, Health health, std::string_view text, int about = -1) {
    Pulse pulse;
    pulse.health = health;
    pulse.rank = about;
    pulse.Write(text);
    liveness_.Heard(rank, pulse, At(0));
  }
  void Wait(int rank, int for_rank) {
    Pulse pulse;
    pulse.rank = for_rank;
    pulse.number = 9;
    liveness_.Heard(rank, pulse, At(0));
  }
  Liveness liveness_{0, 4, kLimits, At(0)};
};

TEST_F(LivenessTest, SilenceCountsAfterItsLimit) {
  Live(0, 3'900, {1, 3});
  EXPECT_FALSE(liveness_.Judge(-1, At(3'900)));
  Live(4'000, 4'200, {1, 3});
  const auto loss = liveness_.Judge(-1, At(4'200));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 2);
  EXPECT_NE(loss->reason.find("rank 2 is gone: nothing heard of it for 4.2 s"), std::string::npos)
      << loss->reason;
}

TEST_F(LivenessTest, OneThatWasAwayBlamesNobody) {
  Live(0, 1'000, {1, 2, 3});
  liveness_.LookAround(At(30'000));
  EXPECT_FALSE(liveness_.Judge(-1, At(30'000)));
  Live(30'100, 34'200, {1, 2});
  const auto loss = liveness_.Judge(-1, At(34'200));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 3);
}

TEST_F(LivenessTest, WithoutALimitSilenceIsNothing) {
  Liveness liveness(0, 2, {.silence = Milliseconds(0)}, At(0));
  liveness.LookAround(At(1'000'000));
  EXPECT_FALSE(liveness.Judge(-1, At(1'000'000)));
}

TEST_F(LivenessTest, FailuresComeFirstAndStay) {
  Say(3, Health::kLostRank, "rank 1 is gone", 1);
  EXPECT_EQ(liveness_.Judge(-1, At(10))->rank, 1);
  EXPECT_EQ(liveness_.Judge(-1, At(10))->reason, "rank 1 is gone (found by rank 3)");
  EXPECT_TRUE(liveness_.Judge(-1, At(10))->told);
  Say(2, Health::kFailed, "no memory");
  Say(2, Health::kWell, "");
  Say(2, Health::kLeft, "");
  EXPECT_EQ(liveness_.Judge(-1, At(10))->reason, "rank 2 failed: no memory");
}

TEST_F(LivenessTest, OneThatLeftIsLostToThoseThatWaitForIt) {
  Say(2, Health::kLeft, "");
  Live(0, 9'000, {1, 3});
  EXPECT_FALSE(liveness_.Judge(-1, At(9'000)));
  EXPECT_FALSE(liveness_.Judge(1, At(9'000)));
  EXPECT_FALSE(liveness_.Judge(2, At(100)));
  EXPECT_EQ(liveness_.Judge(2, At(9'000))->reason, "rank 2 has left the group");
}

TEST_F(LivenessTest, TheEndOfTheChainIsBlamed) {
  Wait(1, 2);
  Wait(2, 3);
  Wait(3, -1);
  const Loss loss = liveness_.Blame(1, std::chrono::seconds(60), At(2'000));
  EXPECT_EQ(loss.rank, 3);
  EXPECT_EQ(
      loss.reason,
      "waited 60.0 s for rank 3, which does not come (last heard of 2.0 s ago, its last operation: "
      "nothing, number 9)");
}

TEST_F(LivenessTest, ACircleOfWaitingRanksEnds) {
  Wait(1, 2);
  Wait(2, 1);
  const int blamed = liveness_.Blame(1, std::chrono::seconds(60), At(2'000)).rank;
  EXPECT_TRUE(blamed == 1 || blamed == 2);
  Wait(3, 0);
  EXPECT_EQ(liveness_.Blame(3, std::chrono::seconds(60), At(2'000)).rank, 3);
}

}  // namespace
}  // namespace thalweg::comm
