// Placements survive their file, bad files are refused with what is wrong, replicas are chosen by
// the place of the row alone and share rows evenly.
#include "parallel/placement.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace thalweg::parallel {
namespace {

std::string File(std::string_view layers,
                 std::string_view shape = R"("experts": 3, "ranks": 2, "slots_per_rank": 2)") {
  return R"({"format": "thalweg expert placement", "version": 1, )" + std::string(shape) +
         R"(, "layers": )" + std::string(layers) + "}";
}

void ExpectRefused(const std::string& text, std::string_view why) {
  const auto placement = ParsePlacement(text, "p.json");
  ASSERT_FALSE(placement.ok()) << text;
  EXPECT_EQ(placement.status().message(), "p.json: " + std::string(why));
}

TEST(Placement, SurvivesItsFile) {
  const Placement placement = InOrder({.experts = 5, .ranks = 3, .slots_per_rank = 2}, 4);
  EXPECT_EQ(placement.layers[3], (std::vector<int32_t>{0, 1, 2, 3, 4, 0}));
  const auto again = ParsePlacement(ToJson(placement), "p.json");
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(*again, placement);
}

TEST(Placement, BadFilesAreRefused) {
  EXPECT_TRUE(ParsePlacement(File("[[0, 1, 2, 2]]"), "p.json").ok());
  ExpectRefused(File("[[0, 1, 1, 1]]"), "layer 0: expert 2 has no slot");
  ExpectRefused(File("[[0, 1, 2, 2], [0, 1, 2]]"), "layer 1: 3 slots, 4 are due");
  ExpectRefused(File("[[0, 1, 2, 3]]"), "layer 0: expert 3 of 3");
  ExpectRefused(File("[[0, 1, 2, -1]]"), "layer 0: element: must be an integer from 0 to 65535");
  ExpectRefused(File("[[0, 1, 2, 1.0]]"), "layer 0: element: must be an integer from 0 to 65535");
  ExpectRefused(File("7"), "layers: must be a list of 4096 at most");
  ExpectRefused(File("[]", R"("experts": 3, "ranks": 0, "slots_per_rank": 2)"),
                "ranks: must be an integer from 1 to 4096");
  ExpectRefused(File("[]", R"("experts": 3, "ranks": 4096, "slots_per_rank": 1048576)"),
                "1048576 slots on each of 4096 ranks: 1048576 in all are possible");
  ExpectRefused(File("[]", R"("experts": 5, "ranks": 2, "slots_per_rank": 2)"),
                "5 experts do not fit 2 slots on each of 2 ranks");
  ExpectRefused(File("[]", R"("experts": 3, "ranks": 2, "slots_per_rank": 18446744073709551615)"),
                "slots_per_rank: must be an integer from 1 to 1048576");
  ExpectRefused(File("[]", R"("experts": 3, "ranks": 2)"), "slots_per_rank is missing");
  ExpectRefused(File("[]", R"("experts": 3, "ranks": 2, "slots_per_rank": 2, "x": 1)"),
                "unknown key x; known: format, version, layers, experts, ranks, slots_per_rank");
  ExpectRefused("[]", "must be an object");
}

TEST(Placement, ReplicasAreListedAscending) {
  const std::vector<int32_t> slots = {2, 0, 1, 2, 0, 2};
  const ReplicaTable table(slots, 3);
  EXPECT_TRUE(std::ranges::equal(table.Slots(2), std::vector<int32_t>{0, 3, 5}));
  EXPECT_TRUE(std::ranges::equal(table.Slots(1), std::vector<int32_t>{2}));
  EXPECT_EQ(table.Count(0), 2);
}

TEST(Placement, ReplicasShareRowsEvenly) {
  const std::vector<int32_t> slots = {0, 0, 0, 1};
  const ReplicaTable table(slots, 2);
  std::vector<int> rows(4);
  for (int source = 0; source < 4; ++source)
    for (int64_t row = 0; row < 3000; ++row) {
      const int32_t slot = table.Choose(0, source, row);
      EXPECT_EQ(slot, table.Choose(0, source, row));
      ++rows[static_cast<size_t>(slot)];
    }
  for (int s = 0; s < 3; ++s) EXPECT_NEAR(rows[static_cast<size_t>(s)], 4000, 200);
  EXPECT_EQ(table.Choose(1, 2, 17), 3);
}

TEST(Placement, LoadsAreSharedByReplicas) {
  const PlacementShape shape{.experts = 3, .ranks = 2, .slots_per_rank = 2};
  const std::vector<int32_t> slots = {0, 1, 0, 2};
  const std::vector<double> loads = {8, 1, 3};
  EXPECT_EQ(RankLoads(slots, shape, loads), (std::vector<double>{5, 7}));
  EXPECT_DOUBLE_EQ(Imbalance(std::vector<double>{5, 7}), 7.0 / 6);
  EXPECT_EQ(Imbalance(std::vector<double>{0, 0}), 1);
}

}  // namespace
}  // namespace thalweg::parallel
