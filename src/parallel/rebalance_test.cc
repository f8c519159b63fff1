// A rebalance plan, carried out move by move, makes the new placement of the old one; it changes
// nothing when that would help little, moves less than placing anew would, and is the same on every
// rank.
#include "parallel/rebalance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "parallel/test_draws.h"

namespace thalweg::parallel {
namespace {

ExpertCounts CountsOf(const std::vector<std::vector<double>>& loads) {
  ExpertCounts counts{static_cast<int64_t>(loads.front().size()), 1'000'000, {}};
  for (const auto& layer : loads) {
    auto& row = counts.layers.emplace_back();
    for (const double load : layer) row.push_back(static_cast<int64_t>(std::llround(load)));
  }
  return counts;
}

// Moves read the old slots, whatever their order, and write the new ones.
Placement Carry(const Placement& old, const std::vector<Move>& moves) {
  Placement moved = old;
  for (const Move& move : moves) {
    const auto layer = static_cast<size_t>(move.layer);
    EXPECT_EQ(old.layers[layer][static_cast<size_t>(move.from)], move.expert);
    moved.layers[layer][static_cast<size_t>(move.to)] = move.expert;
  }
  return moved;
}

TEST(Rebalance, MovesMakeTheNewPlacement) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    Draws draws(seed);
    const auto shape = ShapeFor(draws.Between(8, 40), draws.Between(1, 8), draws.Between(0, 2));
    ASSERT_TRUE(shape.ok());
    const auto before = Balance(
        {*shape}, {ZipfLoads(shape->experts, seed + 100), ZipfLoads(shape->experts, seed + 200)});
    const ExpertCounts counts =
        CountsOf({ZipfLoads(shape->experts, seed + 300), ZipfLoads(shape->experts, seed + 200)});
    const auto plan = PlanRebalance({*shape}, *before, counts, {});
    ASSERT_TRUE(plan.ok()) << plan.status().ToString();
    EXPECT_TRUE(CheckPlacement(plan->placement).ok());
    EXPECT_EQ(Carry(*before, plan->moves), plan->placement);
    const auto was = ImbalanceByLayer(*before, counts);
    const auto is = ImbalanceByLayer(plan->placement, counts);
    for (const int32_t layer : plan->changed)
      EXPECT_LE(is[static_cast<size_t>(layer)], was[static_cast<size_t>(layer)] - 0.05);
    // The second layer has the load that it was placed for.
    EXPECT_EQ(plan->placement.layers[1], before->layers[1]);
  }
}

TEST(Rebalance, LittleGainChangesNothing) {
  const auto shape = ShapeFor(64, 8, 1);
  const std::vector<double> loads = ZipfLoads(64, 1);
  const auto before = Balance({*shape}, {loads});
  std::vector<double> drifted = loads;
  Draws draws(3);
  for (double& load : drifted) load *= 1 + static_cast<double>(draws.Below(100)) / 2000;
  const auto plan = PlanRebalance({*shape}, *before, CountsOf({drifted}), {});
  EXPECT_TRUE(plan->changed.empty());
  EXPECT_TRUE(plan->moves.empty());
  EXPECT_EQ(plan->placement, *before);
}

TEST(Rebalance, FewRowsChangeNothing) {
  const auto shape = ShapeFor(64, 8, 1);
  ExpertCounts counts = CountsOf({ZipfLoads(64, 2)});
  counts.rows = 10;
  EXPECT_TRUE(PlanRebalance({*shape}, InOrder(*shape, 1), counts, {})->moves.empty());
}

TEST(Rebalance, MovesLessThanPlacingAnew) {
  const auto shape = ShapeFor(384, 32, 1);
  int64_t aligned = 0, anew = 0;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    std::vector<double> loads = ZipfLoads(384, seed);
    const auto before = BalanceLayer({*shape}, loads);
    // A tenth of the experts trade places in popularity.
    Draws draws(seed + 50);
    for (int i = 0; i < 20; ++i)
      std::swap(loads[static_cast<size_t>(draws.Below(384))],
                loads[static_cast<size_t>(draws.Below(384))]);
    const auto wanted = BalanceLayer({*shape}, loads);
    anew += static_cast<int64_t>(MovesBetween(0, before, wanted, *shape).size());
    const auto placed = AlignTo(before, wanted, *shape, 1);
    aligned += static_cast<int64_t>(MovesBetween(0, before, placed, *shape).size());
    EXPECT_DOUBLE_EQ(Imbalance(RankLoads(wanted, *shape, loads)),
                     Imbalance(RankLoads(placed, *shape, loads)));
  }
  EXPECT_LT(aligned, anew);
}

TEST(Rebalance, AlignmentKeepsWhatItCan) {
  const PlacementShape shape{.experts = 4, .ranks = 2, .slots_per_rank = 2};
  EXPECT_EQ(AlignTo({0, 1, 2, 3}, {3, 2, 1, 0}, shape, 1), (std::vector<int32_t>{0, 1, 2, 3}));
  // Ranks of different nodes are not exchanged.
  EXPECT_EQ(AlignTo({0, 1, 2, 3}, {3, 2, 1, 0}, shape, 2), (std::vector<int32_t>{3, 2, 1, 0}));
}

TEST(Rebalance, SourcesAreNearAndShared) {
  const PlacementShape shape{.experts = 3, .ranks = 3, .slots_per_rank = 3};
  const std::vector<int32_t> old = {0, 1, 1, 0, 2, 2, 2, 2, 1};
  const std::vector<int32_t> wanted = {0, 1, 0, 0, 2, 2, 0, 0, 1};
  // The first copy is made on the rank itself; the next two come from two ranks.
  EXPECT_EQ(MovesBetween(7, old, wanted, shape),
            (std::vector<Move>{{7, 0, 0, 2}, {7, 0, 0, 6}, {7, 0, 3, 7}}));
}

TEST(Rebalance, DifferentShapesAreRefused) {
  const PlacementShape shape{.experts = 4, .ranks = 2, .slots_per_rank = 2};
  const Placement placement = InOrder(shape, 2);
  EXPECT_EQ(PlanRebalance({shape}, placement, NoCounts(1, 4), {}).status().message(),
            "counts of 1 layers of 4 experts for a placement of 2 layers of 4");
  EXPECT_FALSE(PlanRebalance({{4, 2, 3}}, placement, NoCounts(2, 4), {}).ok());
}

}  // namespace
}  // namespace thalweg::parallel
