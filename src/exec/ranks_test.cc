// Orders survive the way to another rank; bytes that are no order are refused; every rank runs its
// part of every plan and the results come together; what a rank cannot read breaks the group.
#include "exec/ranks.h"

#include <gtest/gtest.h>

#include <cstring>

#include "comm/test_ranks.h"

namespace thalweg::exec {
namespace {

TEST(RankOrders, SurviveAndAreChecked) {
  const auto bytes = EncodeOrder({Order::kPlacement, 77});
  const Result<OrderHeader> header = DecodeOrder(bytes);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->order, Order::kPlacement);
  EXPECT_EQ(header->bytes, 77);
  EXPECT_FALSE(DecodeOrder(std::span(bytes).first(15)).ok());
  for (const size_t at : {size_t{0}, size_t{4}, size_t{15}}) {
    auto changed = bytes;
    changed[at] ^= std::byte{0x80};
    EXPECT_FALSE(DecodeOrder(changed).ok()) << at;
  }
}

TEST(RankOrders, PlacesSurviveAndAreChecked) {
  const PlacementOrder order{
      .kind = PlacementOrder::Kind::kBegin, .layer = 3, .bytes = 5, .slots = {1, 0, 2, 2}};
  const std::string bytes = EncodePlacementOrder(order);
  const Result<PlacementOrder> same = DecodePlacementOrder(bytes);
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  EXPECT_EQ(*same, order);
  EXPECT_FALSE(DecodePlacementOrder(bytes.substr(0, bytes.size() - 1)).ok());
  EXPECT_FALSE(DecodePlacementOrder(bytes.substr(0, 23)).ok());
  EXPECT_FALSE(DecodePlacementOrder(bytes + "x").ok());
  std::string unknown = bytes;
  unknown[0] = 4;
  EXPECT_FALSE(DecodePlacementOrder(unknown).ok());
}

// The token of a row: its sequence, on which rank it ran, and how many steps that rank has run.
class Echo : public Executor {
 public:
  explicit Echo(int rank) : rank_(rank) {}
  void Execute(const step::StepPlan& plan, step::StepResult* result) override {
    ++steps_;
    for (const step::SequenceRows& rows : plan.rows) {
      auto& own = result->sequences.emplace_back(
          step::SequenceResult{.slot = rows.slot, .sequence = rows.sequence});
      result->Append(&own,
                     {.token = static_cast<int32_t>(rows.sequence) * 100 + rank_ * 10 + steps_});
    }
  }

 private:
  int rank_;
  int32_t steps_ = 0;
};

step::SequenceRows Row(int32_t slot, uint64_t sequence) {
  return {.slot = slot, .sequence = sequence, .count = 1, .known_tokens = false, .sample = true};
}

TEST(RanksExecutor, EveryRankRunsItsPart) {
  comm::RunRanks(3, [](comm::Communicator& group) {
    auto own = std::make_unique<Echo>(group.rank());
    if (group.rank() > 0) {
      const Status status = FollowOrders(&group, {.executor = own.get()});
      EXPECT_TRUE(status.ok()) << status.ToString();
      return;
    }
    RanksExecutor executor(std::move(own), &group, 4);
    for (uint64_t number = 1; number <= 3; ++number) {
      const step::StepPlan plan = {.number = number, .rows = {Row(1, 7), Row(8, 5), Row(10, 6)}};
      step::StepResult result;
      executor.Execute(plan, &result);
      ASSERT_TRUE(result.status.ok()) << result.status.ToString();
      ASSERT_EQ(result.tokens.size(), 3u);
      const auto step = static_cast<int32_t>(number);
      EXPECT_EQ(result.tokens[0].token, 700 + step);
      EXPECT_EQ(result.tokens[1].token, 520 + step);
      EXPECT_EQ(result.tokens[2].token, 620 + step);
      EXPECT_EQ(result.sequences[2].slot, 10);
    }
  });
}

TEST(RanksExecutor, AnOrderThatCannotBeReadBreaksTheGroup) {
  comm::RunRanks(2, [](comm::Communicator& group) {
    if (group.rank() == 1) {
      Echo own(1);
      EXPECT_FALSE(FollowOrders(&group, {.executor = &own}).ok());
      return;
    }
    EXPECT_TRUE(SendOrders(&group, Order::kStep, {"", "no plan"}).ok());
    std::vector<std::string> answers;
    const Status status = ReceiveAnswers(&group, &answers);
    EXPECT_NE(status.message().find("rank 1 failed"), std::string::npos) << status.ToString();
  });
}

}  // namespace
}  // namespace thalweg::exec
