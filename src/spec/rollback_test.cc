// The arithmetic of rollback says exactly when a sequence's bounded state is whole: a simulation
// writes drafted rows, rejects them, and compares everything that is read afterwards with a
// sequence that never drafted. 140 ring rows serve two blocks of six rows, 139 do not.
#include "spec/rollback.h"

#include <gtest/gtest.h>

#include <set>

#include "spec/test_world.h"

namespace thalweg::spec {
namespace {

struct Cell {
  int64_t position = -1;
  int32_t token = -1;
  bool operator==(const Cell&) const = default;
};

// Window rings, half groups, hash history and compressed rows, as the pool keeps them.
class Simulation {
 public:
  explicit Simulation(const StateSizes& s)
      : s_(s),
        ring_(static_cast<size_t>(s.ring_rows)),
        halves_(static_cast<size_t>(s.pending_rows)),
        history_(static_cast<size_t>(s.history_rows)) {}

  void WriteRow(int64_t position, int32_t token) {
    const Cell cell = {position, token};
    ring_[Place(position, s_.ring_rows)] = cell;
    history_[Place(position, s_.history_rows)] = cell;
    if (s_.pending_rows == 0) return;
    Cell& half = halves_[Place(position / 2, s_.pending_rows)];
    if (position % 2 == 0) {
      half = cell;
      return;
    }
    const auto group = static_cast<size_t>(position / 2);
    if (compressed_.size() <= group) compressed_.resize(group + 1);
    compressed_[group] = {half, cell};
  }

  // Everything that rows from `length` on, and the drafts before them, may read.
  bool IsWhole(int64_t length, std::span<const int32_t> tokens) const {
    for (int64_t p = OldestForDrafts(length, s_.window); p < length; ++p)
      if (!Holds(ring_[Place(p, s_.ring_rows)], p, tokens)) return false;
    for (int64_t p = std::max<int64_t>(0, length - s_.history_tokens); p < length; ++p)
      if (!Holds(history_[Place(p, s_.history_rows)], p, tokens)) return false;
    if (s_.pending_rows == 0) return true;
    if (length % 2 != 0 && !Holds(halves_[Place(length / 2, s_.pending_rows)], length - 1, tokens))
      return false;
    for (int64_t g = 0; g < length / 2; ++g)
      if (!RowIsRight(g, tokens)) return false;
    return true;
  }

  // Compressed rows that are not what plain decoding of `tokens` has there, or that it lacks.
  std::set<int64_t> WrongRows(std::span<const int32_t> tokens) const {
    std::set<int64_t> wrong;
    for (size_t g = 0; g < compressed_.size(); ++g)
      if (!RowIsRight(static_cast<int64_t>(g), tokens)) wrong.insert(static_cast<int64_t>(g));
    return wrong;
  }

 private:
  static size_t Place(int64_t at, int64_t rows) { return static_cast<size_t>(at % rows); }
  static bool Holds(const Cell& cell, int64_t position, std::span<const int32_t> tokens) {
    return position < static_cast<int64_t>(tokens.size()) &&
           cell == Cell{position, tokens[static_cast<size_t>(position)]};
  }
  bool RowIsRight(int64_t group, std::span<const int32_t> tokens) const {
    const auto& [first, second] = compressed_[static_cast<size_t>(group)];
    return Holds(first, 2 * group, tokens) && Holds(second, 2 * group + 1, tokens);
  }

  StateSizes s_;
  std::vector<Cell> ring_, halves_, history_;
  std::vector<std::pair<Cell, Cell>> compressed_ = {};
};

StateSizes SizesFor(int64_t window, int64_t slack) {
  return {.window = window,
          .ring_rows = window + slack,
          .pending_rows = slack / 2 + 2,
          .history_tokens = 3,
          .history_rows = 3 + slack};
}

// A sequence that drafts for a long time with two blocks under way; whether it stays whole.
bool StaysWhole(const StateSizes& sizes, int64_t most_drafts, int64_t blocks, uint64_t seed) {
  Simulation sim(sizes);
  std::vector<int32_t> tokens;  // that stay
  uint32_t draw = 0;
  const auto random = [&](int64_t n) {
    return static_cast<int64_t>(TestUniform(seed, draw++) * static_cast<double>(n));
  };
  while (tokens.size() < 700) {
    const auto length = static_cast<int64_t>(tokens.size());
    int64_t written = length;
    std::vector<int32_t> drafted = tokens;
    for (int64_t b = 0; b < blocks; ++b) {
      const int64_t rows = BlockRows(random(3) == 0 ? most_drafts : random(most_drafts + 1));
      for (int64_t row = 0; row < rows; ++row) {
        drafted.push_back(static_cast<int32_t>(random(1000)));
        sim.WriteRow(written, drafted.back());
        ++written;
      }
    }
    // Any number of rows stays; none when a sequence goes on from before the blocks.
    const int64_t kept = random(3) == 0 ? random(2) : random(written - length + 1);
    tokens.assign(drafted.begin(), drafted.begin() + LengthAfter(length, kept));
    if (!sim.IsWhole(static_cast<int64_t>(tokens.size()), tokens)) return false;
  }
  return true;
}

TEST(Rollback, StateIsWholeAfterAnyRejection) {
  EXPECT_EQ(SlackRows(5, 2), 12);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    EXPECT_TRUE(StaysWhole(SizesFor(128, SlackRows(5, 2)), 5, 2, seed)) << seed;
    EXPECT_TRUE(StaysWhole(SizesFor(128, SlackRows(5, 1)), 5, 1, seed)) << seed;
    EXPECT_TRUE(StaysWhole(SizesFor(16, SlackRows(3, 2)), 3, 2, seed)) << seed;
  }
}

// The same with a size that is one too small, and with a pad for shorter blocks.
TEST(Rollback, SmallerStateIsOverwritten) {
  const auto fails = [](const StateSizes& sizes) {
    bool whole = true;
    for (uint64_t seed = 0; seed < 12; ++seed) whole &= StaysWhole(sizes, 5, 2, seed);
    return !whole;
  };
  const StateSizes right = SizesFor(128, SlackRows(5, 2));
  StateSizes small = right;
  small.ring_rows = 139;
  EXPECT_TRUE(fails(small));
  small = right;
  small.history_rows -= 1;
  EXPECT_TRUE(fails(small));
  small = right;
  small.pending_rows = 6;
  EXPECT_TRUE(fails(small));
  EXPECT_TRUE(fails(SizesFor(128, SlackRows(4, 2))));
}

// For every state that may be: the predicate says what the simulation finds.
TEST(Rollback, PredicateAndSimulationAgree) {
  int64_t whole_count = 0, broken_count = 0;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const auto pick = [&](uint32_t at, int64_t n) {
      return static_cast<int64_t>(TestUniform(seed, at) * static_cast<double>(n));
    };
    StateSizes s;
    s.window = 1 + pick(0, 9);
    s.ring_rows = s.window + pick(1, 7);
    s.pending_rows = seed % 5 == 0 ? 0 : 1 + pick(2, 5);
    s.history_tokens = pick(3, 4);
    s.history_rows = 1 + s.history_tokens + pick(4, 7);
    const int64_t length = pick(5, 30);
    const int64_t written = length + pick(6, 9);
    Simulation sim(s);
    std::vector<int32_t> tokens;
    for (int64_t p = 0; p < length; ++p) {
      tokens.push_back(static_cast<int32_t>(p));
      sim.WriteRow(p, tokens.back());
    }
    const bool whole_before = sim.IsWhole(length, tokens);
    for (int64_t p = length; p < written; ++p) sim.WriteRow(p, 1000 + static_cast<int32_t>(p));
    ASSERT_EQ(sim.IsWhole(length, tokens), whole_before && MayGoOn(s, length, written))
        << "seed " << seed;
    ASSERT_TRUE(whole_before);
    (MayGoOn(s, length, written) ? whole_count : broken_count) += 1;
    if (length > 0) {
      const int64_t furthest = FurthestRow(s, length);
      EXPECT_TRUE(MayGoOn(s, length, furthest));
      EXPECT_FALSE(MayGoOn(s, length, furthest + 1));
    }
  }
  EXPECT_GT(whole_count, 400);
  EXPECT_GT(broken_count, 400);
}

TEST(Rollback, RejectedRowsSpoilTheCompressedRowsThatItSays) {
  const StateSizes s = SizesFor(32, 12);
  for (int64_t length = 0; length < 20; ++length) {
    for (int64_t rejected = 0; rejected <= 12; ++rejected) {
      Simulation sim(s);
      std::vector<int32_t> tokens;
      for (int64_t p = 0; p < length; ++p) tokens.push_back(static_cast<int32_t>(p));
      for (int64_t p = 0; p < length + rejected; ++p)
        sim.WriteRow(p, static_cast<int32_t>(p < length ? p : 1000 + p));
      const StaleRows stale = StaleCompressed(length, length + rejected, 2);
      std::set<int64_t> want;
      for (int64_t g = stale.begin; g < stale.end; ++g) want.insert(g);
      EXPECT_EQ(sim.WrongRows(tokens), want);
      // None of them is visible, and going on writes each before it is.
      EXPECT_GE(stale.begin, length / 2);
      for (int64_t p = length; p < length + 30; ++p) {
        tokens.push_back(static_cast<int32_t>(2000 + p));
        sim.WriteRow(p, tokens.back());
        ASSERT_TRUE(sim.IsWhole(p + 1, tokens)) << length << " " << rejected << " " << p;
      }
    }
  }
  EXPECT_EQ(StaleCompressed(7, 12, 1).begin, 7);
  EXPECT_EQ(StaleCompressed(7, 12, 1).end, 12);
}

TEST(Rollback, RingSlotsAreThoseOfTheRows) {
  for (int64_t ring = 1; ring < 9; ++ring) {
    for (int64_t begin = 0; begin < 20; ++begin) {
      for (int64_t end = begin; end <= begin + ring; ++end) {
        std::multiset<int64_t> want, got;
        for (int64_t p = begin; p < end; ++p) want.insert(p % ring);
        const RingSpans spans = RingSlots(begin, end, ring);
        for (const RingSpan& span : {spans.head, spans.tail})
          for (int64_t i = 0; i < span.count; ++i) got.insert(span.first + i);
        EXPECT_EQ(got, want);
      }
    }
  }
}

// Rows whose taps may enter the draft module's context: the anchor's and those of accepted drafts.
TEST(Rollback, LengthCountsTheRowsOfTokensThatCameOut) {
  EXPECT_EQ(LengthAfter(10, 1), 11);  // nothing accepted: the anchor's row stays
  EXPECT_EQ(LengthAfter(10, 6), 16);  // 5 drafts and the bonus: 6 rows
  EXPECT_EQ(BlockRows(0), 1);
}

}  // namespace
}  // namespace thalweg::spec
