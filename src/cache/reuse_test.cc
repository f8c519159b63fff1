// ChooseStart against the dependencies themselves: a table says which values of a run are those of
// a cold run, and the chosen start makes every new row and all state exact, while two rows later
// would not.
#include "cache/reuse.h"

#include <gtest/gtest.h>

#include <vector>

namespace thalweg::cache {
namespace {

struct Case {
  ReplayReach reach;
  ReuseQuery query;
  int64_t length = 0;  // rows run up to here
};

// Which values are exact when rows [start.start, length) run as ChooseStart says.
class Dependencies {
 public:
  Dependencies(const Case& c, const ReuseStart& start) : case_(c), start_(start) {
    const auto layers = static_cast<size_t>(c.reach.window_layers);
    const std::vector<bool> none(static_cast<size_t>(c.length));
    window_.assign(layers, none);
    output_.assign(layers + 1, none);  // [layer]: input of that layer; the last one: the output
    if (start.restore) Restore();
    for (int64_t row = start.start; row < c.length; ++row) Run(row);
  }

  // New rows are those of a cold run: what goes into compressed rows, and every output that a cold
  // run has.
  bool NewRowsExact() const {
    for (int64_t row = case_.query.hit; row < case_.length; ++row) {
      if (!Input(case_.reach.encoder_layers, row)) return false;
      if (row < case_.query.decoder_from) continue;
      if (!Input(case_.reach.window_layers, row)) return false;
    }
    return !case_.reach.draft || TapsExact();
  }

  // Windows at `position` hold what a cold run's hold.
  bool WindowsExact(int64_t position) const {
    for (int64_t layer = 0; layer < case_.reach.window_layers; ++layer) {
      const int64_t floor = ColdFloor(layer);
      if (position <= floor) continue;
      for (int64_t r = First(position - 1, floor) + 1; r < position; ++r) {
        if (!window_[At(layer)][At(r)]) return false;
      }
    }
    return true;
  }

 private:
  static size_t At(int64_t i) { return static_cast<size_t>(i); }
  bool Encoder(int64_t layer) const { return layer < case_.reach.encoder_layers; }
  bool Input(int64_t layer, int64_t row) const { return output_[At(layer)][At(row)]; }
  int64_t ColdFloor(int64_t layer) const { return Encoder(layer) ? 0 : case_.query.decoder_from; }
  int64_t First(int64_t row, int64_t floor) const {
    return std::max(floor, row - case_.reach.window + 1);
  }

  // Draft stages look back one window on the last layer's rows; there are none below D.
  bool TapsExact() const {
    const int64_t from = First(case_.query.hit, case_.query.decoder_from);
    if (case_.query.hit <= case_.query.decoder_from || start_.restore) return true;
    for (int64_t row = from; row < case_.query.hit; ++row) {
      if (!Input(case_.reach.window_layers, row)) return false;
    }
    return true;
  }

  // A checkpoint's windows: the encoder's always, the decoder's where its kind says so.
  void Restore() {
    for (int64_t layer = 0; layer < case_.reach.window_layers; ++layer) {
      if (!Encoder(layer) && start_.start <= case_.query.decoder_from) continue;
      for (int64_t r = First(start_.start - 1, 0); r < start_.start; ++r) {
        if (r >= 0) window_[At(layer)][At(r)] = true;
      }
    }
  }

  void Run(int64_t row) {
    output_[0][At(row)] = true;
    for (int64_t layer = 0; layer < case_.reach.window_layers; ++layer) {
      if (!Encoder(layer) && row < start_.decoder_from) return;
      window_[At(layer)][At(row)] = Input(layer, row);
      const int64_t floor = Encoder(layer) ? start_.encoder_floor
                                           : std::max(start_.decoder_floor, start_.decoder_from);
      // A row that the cold run sees and this one is told not to look at is missing.
      bool exact = First(row, floor) == First(row, ColdFloor(layer));
      for (int64_t r = First(row, ColdFloor(layer)); r <= row; ++r) {
        exact = exact && window_[At(layer)][At(r)];
      }
      output_[At(layer + 1)][At(row)] = exact && Input(layer, row);
    }
  }

  Case case_;
  ReuseStart start_;
  std::vector<std::vector<bool>> window_, output_;
};

ReuseStart Choose(const Case& c) { return ChooseStart(c.query, c.reach, PrefixExactness::kExact); }

// Starts two rows later, told so as the chosen one is.
ReuseStart Later(ReuseStart s) {
  s.start += 2;
  s.encoder_floor = s.start;
  return s;
}

template <typename Check>
void ForAllCases(const Check& check) {
  for (const bool draft : {false, true}) {
    for (const int64_t window : {1, 2, 4, 5}) {
      const ReplayReach reach = {
          .window = window, .encoder_layers = 3, .window_layers = 6, .draft = draft};
      for (int64_t hit = 0; hit <= 48; ++hit) {
        for (int64_t from = 0; from <= 56; ++from) {
          check(Case{.reach = reach, .query = {.hit = hit, .decoder_from = from}, .length = 60});
        }
      }
    }
  }
}

std::string Name(const Case& c) {
  return testing::PrintToString(std::vector<int64_t>{
      c.reach.window, c.query.hit, c.query.decoder_from, c.query.checkpoint, c.reach.draft});
}

TEST(Reuse, ReplayIsExact) {
  int64_t replays = 0;
  ForAllCases([&](const Case& c) {
    const ReuseStart s = Choose(c);
    EXPECT_FALSE(s.restore);
    EXPECT_EQ(s.start % 2, 0);
    EXPECT_LE(s.start, c.query.hit);
    EXPECT_EQ(s.write_from, c.query.hit);
    const Dependencies d(c, s);
    EXPECT_TRUE(d.NewRowsExact()) << Name(c);
    for (int64_t p = std::max(s.start + 1, s.exact_from); p <= c.length; ++p) {
      EXPECT_TRUE(d.WindowsExact(p)) << Name(c) << " at " << p;
    }
    replays += s.start > 0 ? 1 : 0;
  });
  EXPECT_GT(replays, 5000);
}

TEST(Reuse, TwoRowsLaterWouldNotBeExact) {
  int64_t checked = 0;
  ForAllCases([&](const Case& c) {
    const ReuseStart s = Choose(c);
    if (s.start == 0 || s.start + 2 > c.query.hit) return;
    EXPECT_FALSE(Dependencies(c, Later(s)).NewRowsExact()) << Name(c);
    ++checked;
  });
  EXPECT_GT(checked, 3000);
}

TEST(Reuse, ACheckpointIsExactAndTakenWhenItSavesRows) {
  int64_t restored = 0;
  ForAllCases([&](Case c) {
    const int64_t replay = Choose(c).start;
    for (c.query.checkpoint = 2; c.query.checkpoint <= c.query.hit; c.query.checkpoint += 3) {
      // Its decoder began where this one's does, or as late as a replay lets it.
      const int64_t latest = c.query.checkpoint - c.reach.window + 1;
      c.query.checkpoint_floor = c.query.decoder_from;
      if (c.query.checkpoint % 2 == 0) {
        c.query.checkpoint_floor = std::max(c.query.decoder_from, latest);
      }
      const ReuseStart s = Choose(c);
      EXPECT_EQ(s.restore, c.query.checkpoint >= replay) << Name(c);
      EXPECT_EQ(s.start, std::max(replay, c.query.checkpoint));
      const Dependencies d(c, s);
      EXPECT_TRUE(d.NewRowsExact()) << Name(c);
      for (int64_t p = std::max(s.start + 1, s.exact_from); p <= c.length; ++p) {
        EXPECT_TRUE(d.WindowsExact(p)) << Name(c) << " at " << p;
      }
      restored += s.restore ? 1 : 0;
    }
  });
  EXPECT_GT(restored, 5000);
}

// The release: 20 + 20 layers, windows of 128, 140 prompt rows for the decoder.
TEST(Reuse, FiguresOfTheRelease) {
  const ReplayReach reach = {.window = 128, .encoder_layers = 20, .window_layers = 40};
  const auto exact = [&](int64_t hit, int64_t from) {
    return ChooseStart({.hit = hit, .decoder_from = from}, reach, PrefixExactness::kExact);
  };
  EXPECT_EQ(exact(8192, 9000).start, 8192 - 20 * 127);
  EXPECT_EQ(exact(8192, 8100).start, 8100 - 20 * 127);
  EXPECT_EQ(exact(8192, 0).start, 8192 - 40 * 127);
  EXPECT_EQ(exact(8192, 0).decoder_from, 8192 - 20 * 127);
  EXPECT_EQ(exact(8192, 0).decoder_floor, 8192 - 20 * 127);
  EXPECT_EQ(exact(2496, 4000).start, 0);
  EXPECT_EQ(exact(2496, 4000).write_from, 2496);
}

TEST(Reuse, BoundedReplaysOneWindow) {
  const ReplayReach reach = {.window = 128, .encoder_layers = 20, .window_layers = 40};
  const auto bounded = [&](int64_t hit, int64_t from, int64_t checkpoint = 0) {
    return ChooseStart({.hit = hit, .decoder_from = from, .checkpoint = checkpoint}, reach,
                       PrefixExactness::kBounded);
  };
  ReuseStart s = bounded(512, 900);
  EXPECT_EQ(s.start, 384);
  EXPECT_EQ(s.encoder_floor, 384);
  EXPECT_EQ(s.decoder_from, 900);
  s = bounded(512, 450);
  EXPECT_EQ(s.start, 450 - 128);
  EXPECT_EQ(s.decoder_from, 450);
  s = bounded(512, 0);
  EXPECT_EQ(s.start, 384);
  EXPECT_EQ(s.decoder_from, 384);
  EXPECT_EQ(s.decoder_floor, 384);
  EXPECT_EQ(bounded(128, 0).write_from, 0) << "a hit of one window is not adopted";
  EXPECT_EQ(bounded(192, 0).start, 64);
  EXPECT_TRUE(bounded(512, 0, 384).restore) << "as good, and exact";
  EXPECT_FALSE(bounded(512, 0, 320).restore);
}

}  // namespace
}  // namespace thalweg::cache
