// Ranks that cannot all be devices are told why, on every rank alike, and their group goes on.
#include "comm/device_rank.h"

#include <gtest/gtest.h>

#include "comm/test_ranks.h"

namespace thalweg::comm {
namespace {

void ExpectNone(const std::vector<int>& devices) {
  RunRanks(static_cast<int>(devices.size()), [&](Communicator& control) {
    Status why;
    const auto joined = JoinDevices(&control, devices[static_cast<size_t>(control.rank())], &why);
    ASSERT_TRUE(joined.ok()) << joined.status().ToString();
    EXPECT_EQ(*joined, nullptr);
    EXPECT_FALSE(why.ok());
    EXPECT_FALSE(why.message().empty());
    EXPECT_TRUE(control.Barrier().ok());
  });
}

TEST(DeviceRanks, WhereNobodyHasOne) { ExpectNone({-1, -1, -1}); }

TEST(DeviceRanks, WhereOneHasNone) {
  ExpectNone({0, -1});
  ExpectNone({-1, 0, 1});
}

}  // namespace
}  // namespace thalweg::comm
