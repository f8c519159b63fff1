// A split covers every row once and in order, cuts at groups only, has the least dearest piece of
// all such splits (small cases, by trying all), and gives ranks equal cost for long prompts; halos
// are the rows just before a part.
#include "parallel/context_split.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "parallel/test_draws.h"

namespace thalweg::parallel {
namespace {

// Cost of a row of the released encoder in multiplications: 7.9e9 weights, and index scoring of 64
// heads of 128 channels in three layers with two tokens a key.
constexpr RowCost kReleased{.fixed = 7'860'000'000, .per_position = 3 * 64 * 128 / 2};

void ExpectCover(const ContextSplit& split, const std::vector<SequencePart>& rows, int64_t group) {
  std::vector<SequencePart> parts;
  for (const auto& of_rank : split.ranks)
    for (const SequencePart& part : of_rank) {
      EXPECT_LT(part.begin, part.end);
      if (!parts.empty() && parts.back().sequence == part.sequence &&
          parts.back().end == part.begin) {
        EXPECT_EQ(part.begin % group, 0);
        parts.back().end = part.end;
      } else {
        parts.push_back(part);
      }
    }
  std::vector<SequencePart> wanted;
  for (const SequencePart& part : rows)
    if (part.begin < part.end) wanted.push_back(part);
  EXPECT_EQ(parts, wanted);
}

int64_t Dearest(const ContextSplit& split, const RowCost& cost) {
  int64_t most = 0;
  for (const auto& parts : split.ranks) most = std::max(most, CostOf(parts, cost));
  return most;
}

// Every row with its cost, and whether a cut may lie before it.
struct PlainRow {
  int64_t cost;
  bool cut;
};

std::vector<PlainRow> PlainRows(const std::vector<SequencePart>& rows, const RowCost& cost,
                                int64_t group) {
  std::vector<PlainRow> plain;
  for (const SequencePart& part : rows)
    for (int64_t p = part.begin; p < part.end; ++p)
      plain.push_back({cost.fixed + cost.per_position * p, p == part.begin || p % group == 0});
  return plain;
}

int64_t BestDearest(const std::vector<PlainRow>& rows, size_t begin, int ranks) {
  if (begin == rows.size()) return 0;
  if (ranks == 0) return INT64_MAX;
  int64_t best = INT64_MAX, piece = 0;
  for (size_t end = begin; end < rows.size(); ++end) {
    piece += rows[end].cost;
    if (end + 1 < rows.size() && !rows[end + 1].cut) continue;
    best = std::min(best, std::max(piece, BestDearest(rows, end + 1, ranks - 1)));
  }
  return best;
}

TEST(ContextSplit, IsTheBestThereIs) {
  Draws draws(1);
  for (int i = 0; i < 300; ++i) {
    std::vector<SequencePart> rows;
    for (int32_t s = 0; s < static_cast<int32_t>(draws.Between(1, 3)); ++s) {
      const int64_t begin = draws.Below(20);
      rows.push_back({s, begin, begin + draws.Below(7)});
    }
    const RowCost cost{draws.Between(1, 30), draws.Below(5)};
    const int64_t group = draws.Between(1, 3);
    const int ranks = static_cast<int>(draws.Between(1, 4));
    const auto split = SplitContext(rows, cost, ranks, group);
    ASSERT_TRUE(split.ok());
    ExpectCover(*split, rows, group);
    EXPECT_EQ(Dearest(*split, cost), BestDearest(PlainRows(rows, cost, group), 0, ranks));
  }
}

// Level up to which ranks that have less to do can be filled with `rows` rows.
int64_t LevelOf(const std::vector<int64_t>& loads, int64_t rows) {
  for (int64_t level = 0;; ++level) {
    int64_t room = 0;
    for (const int64_t load : loads) room += std::max<int64_t>(0, level - load);
    if (room >= rows) return level;
  }
}

TEST(ContextSplit, HeedsWhatRanksHaveToDoBeside) {
  Draws draws(3);
  for (int i = 0; i < 200; ++i) {
    const std::vector<SequencePart> rows = {{0, 0, draws.Between(100, 400)}};
    std::vector<int64_t> loads;
    for (int r = 0; r < 4; ++r) loads.push_back(draws.Below(300));
    const auto split = SplitContext(rows, {}, 4, 2, loads);
    ASSERT_TRUE(split.ok());
    ExpectCover(*split, rows, 2);
    int64_t most = 0;
    for (size_t r = 0; r < 4; ++r) {
      if (!split->ranks[r].empty()) most = std::max(most, loads[r] + CostOf(split->ranks[r], {}));
    }
    EXPECT_LE(most, LevelOf(loads, rows[0].end) + 8);  // cuts are at every other row
  }
  EXPECT_FALSE(SplitContext({}, {}, 2, 1, std::vector<int64_t>{1}).ok());
  EXPECT_FALSE(SplitContext({}, {}, 1, 1, std::vector<int64_t>{-1}).ok());
}

TEST(ContextSplit, CoversWhateverTheBatch) {
  Draws draws(2);
  for (int i = 0; i < 200; ++i) {
    std::vector<SequencePart> rows;
    for (int32_t s = 0; s < static_cast<int32_t>(draws.Below(6)); ++s) {
      const int64_t begin = draws.Below(100'000);
      rows.push_back({s, begin, begin + draws.Below(3000)});
    }
    const int ranks = static_cast<int>(draws.Between(1, 9));
    const auto split = SplitContext(rows, kReleased, ranks, 2);
    ASSERT_TRUE(split.ok());
    EXPECT_EQ(split->ranks.size(), static_cast<size_t>(ranks));
    ExpectCover(*split, rows, 2);
  }
}

TEST(ContextSplit, CostsAreEqualWithin3PercentAt8Ranks) {
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>{0, 4096},
                                   {0, 16'383},
                                   {0, 131'072},
                                   {70'001, 131'071},
                                   {0, 1'000'000}}) {
    const std::vector<SequencePart> rows = {{0, begin, end}};
    for (const int ranks : {2, 3, 5, 7, 8}) {
      const auto split = SplitContext(rows, kReleased, ranks, 2);
      const double mean = static_cast<double>(CostOf(rows, kReleased)) / ranks;
      for (const auto& parts : split->ranks)
        EXPECT_NEAR(static_cast<double>(CostOf(parts, kReleased)) / mean, 1, 0.03);
    }
  }
}

// What equal numbers of rows would cost: the test above can fail.
TEST(ContextSplit, EqualRowsAreNotEqualCost) {
  const std::vector<SequencePart> last = {{0, 875'000, 1'000'000}}, all = {{0, 0, 1'000'000}};
  EXPECT_GT(static_cast<double>(CostOf(last, kReleased)) * 8 /
                static_cast<double>(CostOf(all, kReleased)),
            1.3);
}

TEST(ContextSplit, HaloIsWhatLiesJustBefore) {
  const ContextSplit split{{{{0, 100, 150}}, {{0, 150, 180}, {1, 0, 10}}, {{1, 10, 300}}, {}}};
  EXPECT_TRUE(HaloOf(split, 0, 127).empty());
  EXPECT_EQ(HaloOf(split, 1, 127), (std::vector<Halo>{{0, {0, 100, 150}}}));
  EXPECT_EQ(HaloOf(split, 1, 20), (std::vector<Halo>{{0, {0, 130, 150}}}));
  EXPECT_EQ(HaloOf(split, 2, 127), (std::vector<Halo>{{1, {1, 0, 10}}}));
  EXPECT_TRUE(HaloOf(split, 3, 127).empty());
}

// Short pieces: the look-back crosses several ranks, each row comes once.
TEST(ContextSplit, HaloCrossesShortPieces) {
  Draws draws(4);
  for (int i = 0; i < 100; ++i) {
    const std::vector<SequencePart> rows = {{0, draws.Below(50), 50 + draws.Between(1, 400)}};
    const auto split = SplitContext(rows, {1, 0}, 8, 2);
    for (int r = 0; r < 8; ++r) {
      const auto& parts = split->ranks[static_cast<size_t>(r)];
      if (parts.empty()) continue;
      int64_t at = std::max(rows[0].begin, parts[0].begin - 127);
      for (const Halo& halo : HaloOf(*split, r, 127)) {
        EXPECT_EQ(halo.rows.begin, at);
        EXPECT_LT(halo.from, r);
        at = halo.rows.end;
      }
      EXPECT_EQ(at, parts[0].begin);
    }
  }
}

TEST(ContextSplit, RanksWithoutRowsAreIdle) {
  const auto split = SplitContext(std::vector<SequencePart>{{0, 0, 4}}, {1, 0}, 8, 2);
  ASSERT_TRUE(split.ok());
  EXPECT_EQ(std::count_if(split->ranks.begin(), split->ranks.end(),
                          [](const auto& parts) { return parts.empty(); }),
            6);
  EXPECT_TRUE(SplitContext({}, {1, 0}, 3, 2).ok());
}

TEST(ContextSplit, BadSizesAreRefused) {
  const std::vector<SequencePart> rows = {{0, 0, 4}};
  EXPECT_FALSE(SplitContext(rows, {1, 0}, 0, 2).ok());
  EXPECT_FALSE(SplitContext(rows, {1, 0}, 2, 0).ok());
  EXPECT_FALSE(SplitContext(rows, {0, 0}, 2, 1).ok());
  EXPECT_FALSE(SplitContext(std::vector<SequencePart>{{0, 5, 4}}, {1, 0}, 2, 1).ok());
  EXPECT_FALSE(SplitContext(std::vector<SequencePart>{{0, 0, INT64_MAX}}, {1, 0}, 2, 1).ok());
}

}  // namespace
}  // namespace thalweg::parallel
