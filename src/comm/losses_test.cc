// A rank that fails, leaves, sleeps or does something else is named to every other rank, in the
// operation under way and in all that follow, and nobody waits longer than its patience.
#include <gtest/gtest.h>

#include <thread>

#include "comm/test_ranks.h"

namespace thalweg::comm {
namespace {

constexpr Limits kHasty{.patience = Milliseconds(300)};
constexpr Limits kPatient{.patience = Milliseconds(30'000)};

// Messages of all ranks but one, which does `other` in place of barriers.
std::vector<std::string> Survivors(int size, int odd_one,
                                   const std::function<void(Communicator&)>& other, Limits limits) {
  std::vector<std::string> messages(static_cast<size_t>(size));
  RunRanks(
      size,
      [&](Communicator& comm) {
        ASSERT_TRUE(comm.Barrier().ok());
        if (comm.rank() == odd_one) return other(comm);
        const Status first = comm.Barrier();
        EXPECT_FALSE(first.ok());
        const Status second = comm.Barrier();
        EXPECT_EQ(first.ToString(), second.ToString());
        messages[static_cast<size_t>(comm.rank())] = first.ToString();
      },
      limits);
  messages.erase(messages.begin() + odd_one);
  return messages;
}

void ExpectAll(const std::vector<std::string>& messages, std::string_view text) {
  for (const std::string& message : messages)
    EXPECT_NE(message.find(text), std::string::npos) << message;
}

TEST(Losses, AFailureIsHeardWithItsReason) {
  const auto messages = Survivors(
      4, 2, [](Communicator& comm) { comm.Fail(base::ResourceExhausted("no memory for blocks")); },
      kPatient);
  ExpectAll(messages, "barrier (operation 2 of rank ");
  ExpectAll(messages, "rank 2 failed: resource exhausted: no memory for blocks");
}

TEST(Losses, OneThatFailedDoesNothingMore) {
  RunRanks(2, [](Communicator& comm) {
    if (comm.rank() == 1) return;
    comm.Fail(base::Internal("broken"));
    std::array<std::byte, 4> bytes = {};
    EXPECT_EQ(comm.Send(1, bytes).message(), "broken");
    EXPECT_EQ(comm.Check().message(), "broken");
  });
}

TEST(Losses, OneThatLeavesIsNamed) {
  ExpectAll(Survivors(
                3, 0, [](Communicator&) {}, kPatient),
            "rank 0 has left the group");
}

TEST(Losses, OneThatSleepsIsNamed) {
  const auto messages = Survivors(
      3, 1, [](Communicator&) { std::this_thread::sleep_for(Milliseconds(1500)); }, kHasty);
  ExpectAll(messages, "for rank 1, which does not come");
}

// Rank 2 waits for rank 1, which sleeps; rank 0 waits for rank 2. Both blame rank 1.
TEST(Losses, TheOneAtTheEndOfTheChainIsNamed) {
  RunRanks(
      3,
      [](Communicator& comm) {
        std::array<std::byte, 1> byte = {};
        if (comm.rank() == 1) return std::this_thread::sleep_for(Milliseconds(1500));
        const Status status = comm.rank() == 0 ? comm.Receive(2, byte) : comm.Receive(1, byte);
        EXPECT_NE(status.message().find("for rank 1, which does not come"), std::string::npos)
            << status.message();
      },
      kHasty);
}

TEST(Losses, ABarrierMayHaveLessPatience) {
  RunRanks(
      2,
      [](Communicator& comm) {
        if (comm.rank() == 1) return std::this_thread::sleep_for(Milliseconds(800));
        const auto began = Clock::now();
        EXPECT_FALSE(comm.Barrier(Milliseconds(50)).ok());
        EXPECT_LT(Clock::now() - began, Milliseconds(600));
      },
      kPatient);
}

TEST(Losses, DifferentOperationsAreAnError) {
  std::vector<std::string> messages(2);
  RunRanks(
      2,
      [&](Communicator& comm) {
        std::array<std::byte, 4> bytes = {};
        const Status status = comm.rank() == 0 ? comm.Broadcast(0, bytes) : comm.Receive(0, bytes);
        messages[static_cast<size_t>(comm.rank())] = status.ToString();
      },
      kPatient);
  ExpectAll(messages, "rank 0 does a broadcast where rank 1 does a message");
}

TEST(Losses, DifferentLengthsAreAnError) {
  std::vector<std::string> messages(2);
  RunRanks(
      2,
      [&](Communicator& comm) {
        std::array<std::byte, 8> bytes = {};
        const auto rank = static_cast<size_t>(comm.rank());
        messages[rank] = comm.Broadcast(0, std::span(bytes).first(rank == 0 ? 8 : 4)).ToString();
      },
      kPatient);
  ExpectAll(messages, "rank 0 sends 8 bytes where rank 1 expects 4");
}

// Buffers are the caller's again after an error: another rank that comes late reads none of them.
TEST(Losses, LateRanksReadNoBufferOfOneThatGaveUp) {
  RunRanks(
      2,
      [](Communicator& comm) {
        std::vector<std::byte> bytes(1000, std::byte{1});
        if (comm.rank() == 0) {
          EXPECT_FALSE(comm.Send(1, bytes).ok());
          std::fill(bytes.begin(), bytes.end(), std::byte{2});
          return;
        }
        std::this_thread::sleep_for(Milliseconds(600));
        EXPECT_FALSE(comm.Receive(0, bytes).ok());
        EXPECT_EQ(bytes, std::vector<std::byte>(1000, std::byte{1}));
      },
      kHasty);
}

}  // namespace
}  // namespace thalweg::comm
