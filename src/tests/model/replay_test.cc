// Bounded replay (spec/decoding.md 2): `halo` equals `full` bit for bit, in the last logits, in the
// caches, and after decoding and rollback; `compact` equals `full` while the prompt is kept whole,
// leaves the same compressed rows and encoder windows always, does not depend on how the prompt was
// cut, and leaves a neighbour that asks for full replay alone.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/world.h"

namespace thalweg::tests {
namespace {

constexpr uint32_t kPurpose = 14;
constexpr int64_t kDecoded = 6;  // tokens decoded behind the prompt

struct Case {
  Text text;  // prompt and what is decoded behind it
  int64_t prompt = 0;
  int64_t from = 0;  // first row of the decoder
};

// A prompt a little longer than `kept`, off every grid, or the world's own where that is too long.
Case DrawCase(const World& world, const model::Replay& replay, int64_t kept, Draws* draws) {
  const int64_t w = world.config().sliding_window;
  Case c;
  c.prompt = kept + draws->OneOf({1, 2, w / 2 + 1, w + 1, 2 * w - 1, 3 * w + 2});
  if (c.prompt > 2 * TheSweep().longest_prompt) c.prompt = world.prompt().size();
  c.text = RandomText(world.config(), c.prompt + kDecoded, draws);
  c.from = replay.DecoderFrom(c.prompt, world.config());
  return c;
}

model::Replay Compact(const World& world, Draws* draws) {
  const int64_t least = model::DefaultKeepTokens(world.config());
  const int64_t keep = least + (draws->Chance(50) ? 0 : draws->Between(1, 9));
  return model::Replay::Make(model::ReplayMode::kCompact, keep, world.config()).value();
}

// Both go on alike: single tokens, then a rollback of the whole budget and the same tokens again.
void ExpectSameDecoding(const World& world, const Case& c, Runner* a, Runner* b) {
  const int64_t vocab = world.config().vocab_size;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(SameBits(a->Feed(1), b->Feed(1), vocab)) << i;
  const int64_t back = std::max<int64_t>(1, a->length() - world.rollback());
  a->Truncate(back);
  b->Truncate(back);
  // At least one row of the decoder lies behind `from`, so that logits may be asked for.
  const int64_t count = c.text.size() - back;
  EXPECT_TRUE(SameBits(a->Feed(count), b->Feed(count), vocab)) << "after a rollback to " << back;
  EXPECT_EQ(Difference(a->Take(0), b->Take(0)), "");
}

void CheckHalo(const World& world) {
  Draws draws(world.seed(), kPurpose);
  const auto replay = model::Replay::Make(model::ReplayMode::kHalo, {}, world.config()).value();
  const Case c = DrawCase(world, replay, model::HaloTokens(world.config()), &draws);
  const int64_t vocab = world.config().vocab_size;
  const auto model = world.Load();
  Runner full(model.get(), c.text);
  Runner halo(model.get(), c.text);
  const std::vector<float> expected = full.Feed(c.prompt);
  const std::vector<float> logits = draws.Chance(50)
                                        ? halo.Feed(c.prompt, c.from)
                                        : halo.FeedInPieces(c.prompt, c.prompt, &draws, c.from);
  EXPECT_TRUE(SameBits(LastRows(expected, 1, vocab), LastRows(logits, 1, vocab), vocab));
  EXPECT_EQ(Difference(full.Take(world.rollback()), halo.Take(world.rollback())), "");
  ExpectSameDecoding(world, c, &full, &halo);
}

void CheckCompactOfShortPrompts(const World& world) {
  Draws draws(world.seed(), kPurpose + 100);
  const model::Replay replay = Compact(world, &draws);
  Case c;
  c.prompt = draws.Chance(50) ? replay.keep_tokens : draws.Between(1, replay.keep_tokens);
  c.text = RandomText(world.config(), c.prompt + kDecoded, &draws);
  c.from = replay.DecoderFrom(c.prompt, world.config());
  const auto model = world.Load();
  Runner full(model.get(), c.text);
  Runner compact(model.get(), c.text);
  EXPECT_TRUE(
      SameBits(full.Feed(c.prompt), compact.Feed(c.prompt, c.from), world.config().vocab_size));
  ExpectSameDecoding(world, c, &full, &compact);
}

void CheckCompactKeepsGlobalRows(const World& world) {
  Draws draws(world.seed(), kPurpose + 200);
  const model::Replay replay = Compact(world, &draws);
  const Case c = DrawCase(world, replay, replay.keep_tokens, &draws);
  const auto model = world.Load();
  Runner full(model.get(), c.text);
  Runner compact(model.get(), c.text);
  full.Feed(c.prompt);
  compact.FeedInPieces(c.prompt, c.prompt, &draws, c.from);
  const int64_t begin = world.config().DecoderBegin();
  EXPECT_EQ(Difference(WithoutWindows(full.Take(world.rollback()), begin),
                       WithoutWindows(compact.Take(world.rollback()), begin)),
            "");
}

// Pieces end anywhere, so the last one is often shorter than what is kept.
void CheckCompactInPieces(const World& world) {
  Draws draws(world.seed(), kPurpose + 300);
  const model::Replay replay = Compact(world, &draws);
  const Case c = DrawCase(world, replay, replay.keep_tokens, &draws);
  const int64_t vocab = world.config().vocab_size;
  const auto model = world.Load();
  Runner whole(model.get(), c.text);
  Runner pieces(model.get(), c.text);
  const std::vector<float> expected = whole.Feed(c.prompt, c.from);
  const std::vector<float> logits =
      pieces.FeedInPieces(c.prompt, draws.Chance(50) ? 9 : c.prompt, &draws, c.from);
  EXPECT_TRUE(SameBits(LastRows(expected, 1, vocab), LastRows(logits, 1, vocab), vocab));
  EXPECT_EQ(Difference(whole.Take(world.rollback()), pieces.Take(world.rollback())), "");
  ExpectSameDecoding(world, c, &whole, &pieces);
}

// One step holds a compact prompt, a full one with all logits, and a decoding sequence.
void CheckNeighboursOfCompact(const World& world) {
  Draws draws(world.seed(), kPurpose + 400);
  const model::Replay replay = Compact(world, &draws);
  const Case c = DrawCase(world, replay, replay.keep_tokens, &draws);
  const int64_t vocab = world.config().vocab_size;
  const auto model = world.Load(1, 3);
  Runner alone(model.get(), world.prompt());
  const std::vector<float> expected = alone.Feed(world.prompt().size());
  const Snapshot kept = alone.Take(world.rollback());
  Runner lone_compact(model.get(), c.text);
  const std::vector<float> expected_compact = lone_compact.Feed(c.prompt, c.from);
  alone.Truncate(0);
  lone_compact.Truncate(0);
  const model::Chunk full = alone.NextChunk(world.prompt().size());
  model::Chunk compact = lone_compact.NextChunk(c.prompt);
  compact.decoder_from = c.from;
  compact.logits = model::LogitRows::kLast;
  const bool first = draws.Chance(50);
  const model::Chunk chunks[] = {first ? compact : full, first ? full : compact};
  model::StepOutput out;
  const Status status = model->Step(chunks, &out);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const std::span<const float> logits(out.logits);
  const auto row = static_cast<size_t>(vocab);
  EXPECT_TRUE(
      SameBits(expected, first ? logits.subspan(row) : logits.first(logits.size() - row), vocab));
  EXPECT_TRUE(SameBits(LastRows(expected_compact, 1, vocab),
                       first ? logits.first(row) : logits.last(row), vocab));
  EXPECT_EQ(Difference(kept, alone.Take(world.rollback())), "");
}

// A prompt that is given up half-way and goes on otherwise: rows that were skipped do not exist,
// rows behind the cut do.
void CheckAbandonedPrompt(const World& world) {
  Draws draws(world.seed(), kPurpose + 500);
  const Text text = RandomText(world.config(), 60, &draws);
  const int64_t end = draws.Between(2, 40);
  const int64_t from = draws.Between(1, end + 10);
  const int64_t back = end - std::min(end - 1, draws.Between(0, world.rollback()));
  const auto model = world.Load();
  Runner straight(model.get(), text);
  straight.Feed(back, from);
  Runner given_up(model.get(), text);
  given_up.Feed(end, from);
  given_up.Truncate(back);
  const int64_t count = draws.Between(1, 15);
  EXPECT_TRUE(SameBits(straight.Feed(count), given_up.Feed(count), world.config().vocab_size))
      << "end " << end << " from " << from << " back " << back;
}

class Replay : public ::testing::TestWithParam<int> {};

TEST_P(Replay, HaloEqualsFull) { ForEachWorld(GetParam(), CheckHalo); }
TEST_P(Replay, CompactOfAShortPromptEqualsFull) {
  ForEachWorld(GetParam(), CheckCompactOfShortPrompts, 2);
}
TEST_P(Replay, CompactLeavesTheSameGlobalRows) {
  ForEachWorld(GetParam(), CheckCompactKeepsGlobalRows, 2);
}
TEST_P(Replay, CompactInPiecesEqualsCompactAtOnce) {
  ForEachWorld(GetParam(), CheckCompactInPieces);
}
TEST_P(Replay, FullNeighboursStayFull) { ForEachWorld(GetParam(), CheckNeighboursOfCompact, 2); }
TEST_P(Replay, AnAbandonedPromptGoesOn) { ForEachWorld(GetParam(), CheckAbandonedPrompt); }

INSTANTIATE_TEST_SUITE_P(Shard, Replay, ::testing::Range(0, kShards));

double KlDivergence(std::span<const float> p, std::span<const float> q) {
  const auto log_sum = [](std::span<const float> x) {
    double sum = 0;
    for (const float v : x) sum += std::exp(static_cast<double>(v));
    return std::log(sum);
  };
  const double p_sum = log_sum(p);
  const double q_sum = log_sum(q);
  double kl = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double lp = p[i] - p_sum;
    kl += std::exp(lp) * (lp - (q[i] - q_sum));
  }
  return kl;
}

// Compact is nearer to full than forgetting all but the tokens that it keeps. Single random models
// may disagree; the sum over many does not.
TEST(ReplayQuality, CompactIsNearerToFullThanForgetting) {
  double compact_kl = 0;
  double forgetting_kl = 0;
  for (uint64_t seed = TheSweep().first_seed; seed < TheSweep().first_seed + 24; ++seed) {
    const World world(seed);
    Draws draws(seed, kPurpose + 600);
    const int64_t keep = model::DefaultKeepTokens(world.config());
    const int64_t prompt = 2 * keep + 3;
    const Text text = RandomText(world.config(), prompt, &draws);
    Text tail;
    tail.ids.assign(text.ids.end() - keep, text.ids.end());
    tail.image.assign(text.image.end() - keep, text.image.end());
    const auto model = world.Load(1, 3);
    Runner full(model.get(), text);
    Runner compact(model.get(), text);
    Runner forgetting(model.get(), tail);
    const std::vector<float> all = full.Feed(prompt);
    const auto expected = LastRows(all, 1, world.config().vocab_size);
    compact_kl += KlDivergence(expected, compact.Feed(prompt, prompt - keep));
    const std::vector<float> tail_logits = forgetting.Feed(keep);
    forgetting_kl += KlDivergence(expected, LastRows(tail_logits, 1, world.config().vocab_size));
  }
  EXPECT_GT(compact_kl, 0);
  EXPECT_LT(compact_kl, forgetting_kl);
}

}  // namespace
}  // namespace thalweg::tests
