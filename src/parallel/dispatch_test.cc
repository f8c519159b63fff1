// Dispatch sends each row once to each rank that has one of its experts and nothing else, every
// choice comes back to its own place, messages say the same in both regimes, and their bytes are
// the formula's within one per cent.
#include "parallel/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "parallel/balance.h"
#include "parallel/test_draws.h"

namespace thalweg::parallel {
namespace {

constexpr int64_t kRowBytes = 12;

// A step of one source rank: rows with different experts each.
struct Step {
  Step(uint64_t seed, int64_t rows, int64_t topk, int64_t experts, int64_t ranks, int64_t spare)
      : shape(*ShapeFor(experts, ranks, spare)),
        slots(BalanceLayer({shape}, ZipfLoads(experts, seed))),
        replicas(slots, experts) {
    Draws draws(seed);
    for (int64_t r = 0; r < rows; ++r) {
      auto order = draws.Shuffled(experts);
      order.resize(static_cast<size_t>(topk));
      std::sort(order.begin(), order.end());
      for (const int64_t e : order) {
        chosen.push_back(static_cast<int32_t>(e));
        weights.push_back(static_cast<float>(draws.Below(1000)));
      }
    }
    for (int64_t i = 0; i < rows * kRowBytes; ++i)
      payload.push_back(static_cast<std::byte>(draws.Below(256)));
    routed = {rows, topk, chosen, static_cast<int>(draws.Below(ranks)), draws.Below(1000)};
    plan = PlanDispatch(routed, replicas, shape);
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  PlacementShape shape;
  std::vector<int32_t> slots;
  ReplicaTable replicas;
  std::vector<int32_t> chosen;
  std::vector<float> weights;
  std::vector<std::byte> payload;
  RoutedRows routed;
  DispatchPlan plan;
};

void ExpectRowsGoWhereTheirExpertsAre(const Step& step) {
  const DispatchPlan& plan = step.plan;
  std::set<std::pair<int64_t, int32_t>> seen;
  for (int rank = 0; rank < step.shape.ranks; ++rank) {
    for (int32_t i = plan.row_begin[static_cast<size_t>(rank)];
         i < plan.row_begin[static_cast<size_t>(rank) + 1]; ++i) {
      const auto at = static_cast<size_t>(i);
      if (i > plan.row_begin[static_cast<size_t>(rank)]) {
        EXPECT_LT(plan.rows[at - 1], plan.rows[at]);
      }
      EXPECT_LT(plan.entry_begin[at], plan.entry_begin[at + 1]);
      for (int32_t e = plan.entry_begin[at]; e < plan.entry_begin[at + 1]; ++e) {
        const DispatchEntry& entry = plan.entries[static_cast<size_t>(e)];
        const int64_t choice = plan.rows[at] * step.routed.topk + entry.choice;
        const int64_t slot = rank * step.shape.slots_per_rank + entry.local_slot;
        EXPECT_EQ(step.slots[static_cast<size_t>(slot)], step.chosen[static_cast<size_t>(choice)]);
        EXPECT_EQ(plan.returned_at[static_cast<size_t>(choice)], e);
        EXPECT_TRUE(seen.emplace(plan.rows[at], entry.choice).second);
      }
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), step.routed.rows * step.routed.topk);
}

ReceivedRows Received(const Step& step, int rank, bool fixed, std::vector<std::byte>* message) {
  const DispatchCounts counts = CountsOf(step.plan)[static_cast<size_t>(rank)];
  ReceivedRows received;
  const auto write = fixed ? WriteFixedMessage : WriteMessage;
  message->resize(
      static_cast<size_t>(fixed ? FixedMessageBytes(step.routed.rows, step.routed.topk, kRowBytes)
                                : MessageBytes(counts, kRowBytes)));
  write(step.plan, rank, step.payload, kRowBytes, step.weights, step.routed.topk, *message);
  const int64_t slots = step.shape.slots_per_rank;
  const Status status = fixed ? ReadFixedMessage(*message, kRowBytes, slots, &received)
                              : ReadMessage(*message, counts, kRowBytes, slots, &received);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return received;
}

void ExpectReceived(const Step& step, int rank, const ReceivedRows& received) {
  const DispatchPlan& plan = step.plan;
  const auto begin = static_cast<size_t>(plan.row_begin[static_cast<size_t>(rank)]);
  ASSERT_EQ(static_cast<int64_t>(received.payload.size()), plan.RowsTo(rank));
  ASSERT_EQ(static_cast<int64_t>(received.pairs.size()), plan.EntriesTo(rank));
  size_t pair = 0;
  for (size_t i = 0; i < received.payload.size(); ++i) {
    const int32_t row = plan.rows[begin + i];
    EXPECT_EQ(std::memcmp(received.payload[i], step.payload.data() + row * kRowBytes, kRowBytes),
              0);
    for (auto e = static_cast<size_t>(plan.entry_begin[begin + i]);
         e < static_cast<size_t>(plan.entry_begin[begin + i + 1]); ++e, ++pair) {
      EXPECT_EQ(received.pairs[pair].row, static_cast<int32_t>(i));
      EXPECT_EQ(received.pairs[pair].local_slot, plan.entries[e].local_slot);
      EXPECT_EQ(received.pairs[pair].weight,
                step.weights[static_cast<size_t>(row * step.routed.topk + plan.entries[e].choice)]);
    }
  }
}

TEST(Dispatch, RowsGoWhereTheirExpertsAre) {
  Draws draws(1);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const int64_t experts = draws.Between(4, 40);
    const Step step(seed, draws.Below(30), draws.Between(1, 4), experts,
                    draws.Between(1, std::min<int64_t>(experts, 8)), draws.Below(3));
    ExpectRowsGoWhereTheirExpertsAre(step);
    for (int rank = 0; rank < step.shape.ranks; ++rank)
      for (const bool fixed : {false, true}) {
        std::vector<std::byte> message;
        ExpectReceived(step, rank, Received(step, rank, fixed, &message));
      }
  }
}

TEST(Dispatch, MessagesOfSeveralRanksLieInOrder) {
  const Step a(1, 5, 3, 12, 3, 1), b(2, 4, 3, 12, 3, 1);
  ReceivedRows received;
  std::vector<std::byte> first, second;
  Received(a, 1, false, &first);
  Received(b, 1, false, &second);
  ASSERT_TRUE(ReadMessage(first, CountsOf(a.plan)[1], kRowBytes, 5, &received).ok());
  ASSERT_TRUE(ReadMessage(second, CountsOf(b.plan)[1], kRowBytes, 5, &received).ok());
  EXPECT_EQ(
      received.pair_begin,
      (std::vector<int32_t>{0, static_cast<int32_t>(a.plan.EntriesTo(1)),
                            static_cast<int32_t>(a.plan.EntriesTo(1) + b.plan.EntriesTo(1))}));
  EXPECT_EQ(received.pairs.back().row, static_cast<int32_t>(received.payload.size()) - 1);
}

// The released shape: 384 experts, six of them, rows of 5120 channels.
TEST(Dispatch, BytesAreTheFormulas) {
  for (const int64_t ranks : {2, 8, 32}) {
    const Step step(7, 200, 6, 384, ranks, 1);
    const EpBytes formula = FormulaBytes(step.plan, step.routed.source_rank, 5120);
    const EpBytes planned =
        PlannedBytes(step.plan, step.routed.source_rank, 5120, 5120 + 5120 / 32);
    EXPECT_GT(formula.dispatch, 0);
    EXPECT_NEAR(static_cast<double>(planned.dispatch) / static_cast<double>(formula.dispatch), 1,
                0.01);
    EXPECT_EQ(planned.combine, formula.combine);
  }
}

// With more ranks a row has fewer experts in common on one: never more rows than experts.
TEST(Dispatch, ARowGoesOnceToARank) {
  const Step step(9, 100, 6, 384, 2, 0);
  EXPECT_LE(step.plan.RowsTo(0), 100);
  EXPECT_LE(step.plan.RowsTo(1), 100);
  EXPECT_EQ(step.plan.EntriesTo(0) + step.plan.EntriesTo(1), 600);
}

TEST(Dispatch, OverflowIsRefused) {
  const Step step(3, 20, 2, 8, 2, 0);
  EXPECT_TRUE(CheckCapacity(step.plan, 20).ok());
  const Status status = CheckCapacity(step.plan, 3);
  EXPECT_EQ(status.code(), base::Code::kResourceExhausted);
  EXPECT_NE(status.message().find("there is room for 3"), std::string::npos);
}

TEST(Dispatch, MessagesThatLieAreRefused) {
  const Step step(4, 6, 2, 8, 2, 0);
  std::vector<std::byte> message;
  Received(step, 0, true, &message);
  ReceivedRows received;
  EXPECT_FALSE(ReadFixedMessage({message.data(), 4}, kRowBytes, 4, &received).ok());
  EXPECT_FALSE(ReadFixedMessage(message, kRowBytes, 1, &received).ok());
  DispatchCounts counts = CountsOf(step.plan)[0];
  const auto body = std::span(message).subspan(sizeof(DispatchCounts));
  ++counts.entries;
  EXPECT_FALSE(ReadMessage(body, counts, kRowBytes, 4, &received).ok());
  counts.entries = -1;
  EXPECT_FALSE(ReadMessage(body, counts, kRowBytes, 4, &received).ok());
}

}  // namespace
}  // namespace thalweg::parallel
