// Drawn routing has the shares that were counted; bytes between ranks are those of the dispatch
// formula, and every chosen expert of every row is run once.
#include "sim/routing.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "sim/cluster.h"

namespace thalweg::sim {
namespace {

TEST(SimRouting, RowsHaveDistinctExpertsByTheirShares) {
  const Router router(std::vector<int64_t>{10, 20, 30, 40, 0}, 2);
  const auto chosen = router.Draw(20000, 3, 1);
  ASSERT_EQ(chosen.size(), 40000u);
  std::vector<double> first(5);
  for (size_t row = 0; row < 20000; ++row) {
    EXPECT_NE(chosen[2 * row], chosen[2 * row + 1]);
    first[static_cast<size_t>(chosen[2 * row])] += 1.0 / 20000;
  }
  const double wanted[] = {0.1, 0.2, 0.3, 0.4, 0};
  for (size_t e = 0; e < 5; ++e) EXPECT_NEAR(first[e], wanted[e], 0.015) << e;
  EXPECT_EQ(chosen, router.Draw(20000, 3, 1));
  EXPECT_NE(chosen, router.Draw(20000, 3, 2));
}

TEST(SimRouting, WithoutCountsThereAreEnoughExperts) {
  const Router router(std::vector<int64_t>(4, 0), 4);
  const auto chosen = router.Draw(10, 0, 0);
  for (size_t row = 0; row < 10; ++row)
    EXPECT_EQ(std::set<int32_t>(&chosen[4 * row], &chosen[4 * row] + 4).size(), 4u);
}

TEST(SimRouting, BytesAreThoseOfTheDispatchFormula) {
  const parallel::ExpertCounts counts = ZipfCounts(1, 32, 1);
  const TrafficShape shape{parallel::ShapeFor(32, 5, 1).value(), 5120, 6, 2};
  const auto placement = parallel::Balance({shape.placement}, counts.Loads()).value();
  const std::vector<int64_t> rows = {7, 0, 30, 1, 12};
  const auto chosen = Router(counts.layers[0], 6).Draw(50, 0, 0);
  const LayerTraffic traffic = TrafficOf(shape, placement.layers[0], chosen, rows);

  const parallel::ReplicaTable replicas(placement.layers[0], 32);
  int64_t first = 0, formula = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const parallel::RoutedRows routed{
        rows[r], 6,
        std::span(chosen).subspan(static_cast<size_t>(first * 6), static_cast<size_t>(rows[r] * 6)),
        static_cast<int>(r), first};
    const auto plan = parallel::PlanDispatch(routed, replicas, shape.placement);
    const auto bytes = parallel::FormulaBytes(plan, static_cast<int>(r), 5120);
    formula += bytes.dispatch + bytes.combine;
    const RankTraffic& out = traffic.dispatch[r];
    EXPECT_EQ(out.sent_in_node + out.sent_between, bytes.dispatch) << r;
    const RankTraffic& back = traffic.combine[r];
    EXPECT_EQ(back.received_in_node + back.received_between, bytes.combine) << r;
    first += rows[r];
  }
  EXPECT_GT(formula, 0);
  EXPECT_EQ(traffic.bytes, formula);
  int64_t entries = 0, sent = 0, received = 0;
  for (const RankTraffic& rank : traffic.dispatch) {
    entries = std::accumulate(rank.slot_rows.begin(), rank.slot_rows.end(), entries);
    sent += rank.sent_in_node + rank.sent_between;
    received += rank.received_in_node + rank.received_between;
  }
  EXPECT_EQ(entries, 50 * 6);
  EXPECT_EQ(sent, received);
}

TEST(SimRouting, OneRankSendsNothing) {
  const TrafficShape shape{parallel::ShapeFor(8, 1, 0).value(), 64, 2, 1};
  const auto placement = parallel::InOrder(shape.placement, 1);
  const auto chosen = Router(std::vector<int64_t>(8, 1), 2).Draw(9, 0, 0);
  const LayerTraffic traffic =
      TrafficOf(shape, placement.layers[0], chosen, std::vector<int64_t>{9});
  EXPECT_EQ(traffic.bytes, 0);
}

}  // namespace
}  // namespace thalweg::sim
