// A sequence that begins behind shared compressed rows has, from there on, the bits of one that
// began at zero: restored from a checkpoint, or by a replay that reaches back far enough
// (spec/serving.md 5.2). A replay writes no shared row. One window of replay is not enough.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/model/world.h"

namespace thalweg::tests {
namespace {

constexpr uint32_t kPurpose = 21;
constexpr int64_t kBlock = 64;
constexpr int64_t kDecoded = 3;
constexpr int32_t kCheckpoint = 1;

struct Case {
  Text text;
  int64_t prompt = 0;
  int64_t hit = 0;   // tokens of shared blocks
  int64_t from = 0;  // first row of the decoder, of a run from zero
};

Case DrawCase(const World& world, bool compact, Draws* draws) {
  Case c;
  c.hit = kBlock * draws->Between(1, 2);
  c.prompt = c.hit + draws->OneOf({1, 2, 3, 31, 63, 64, 70});
  c.text = RandomText(world.config(), c.prompt + kDecoded, draws);
  if (compact) c.from = draws->Between(0, c.prompt - 1);
  return c;
}

std::unique_ptr<model::Model> LoadShared(const World& world) {
  model::ModelOptions options = world.Options(1, 2);
  options.blocks_from_outside = true;
  options.checkpoints = 2;
  return world.Load(options);
}

std::vector<int32_t> Blocks(int64_t first, int64_t count) {
  std::vector<int32_t> blocks(static_cast<size_t>(count));
  std::iota(blocks.begin(), blocks.end(), static_cast<int32_t>(first));
  return blocks;
}

// Everything that two sequences of one case may be compared by.
struct Outcome {
  std::vector<float> prompt_logits;
  std::vector<float> decoded;  // logits of the tokens behind the prompt
  Snapshot snapshot;
};

std::vector<float> Append(std::vector<float> a, const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

void Finish(const World& world, const Case& c, int64_t from, Runner* runner, Draws* draws,
            Outcome* out) {
  const int64_t vocab = world.config().vocab_size;
  const auto logits = runner->FeedInPieces(c.prompt, kBlock, draws, from);
  const auto last = LastRows(logits, 1, vocab);
  out->prompt_logits.assign(last.begin(), last.end());
  for (int64_t i = 0; i < kDecoded; ++i) out->decoded = Append(out->decoded, runner->Feed(1, from));
  out->snapshot = runner->Take(0);
}

// From zero, with a checkpoint saved at the hit.
Outcome RunCold(const World& world, const Case& c, model::Model* model, Runner* runner) {
  Draws draws(world.seed(), kPurpose + 1);
  EXPECT_TRUE(model->pool().Attach(runner->id(), Blocks(0, 5)).ok());
  runner->FeedInPieces(c.hit, c.hit, &draws, c.from);
  model->pool().SaveCheckpoint(runner->id(), kCheckpoint);
  Outcome out;
  Finish(world, c, c.from, runner, &draws, &out);
  return out;
}

// Tables of the second sequence: the shared blocks, then its own.
void Share(const Case& c, model::Model* model, const Runner& runner) {
  EXPECT_TRUE(model->pool().Attach(runner.id(), Blocks(0, c.hit / kBlock)).ok());
  EXPECT_TRUE(model->pool().Attach(runner.id(), Blocks(5, 4)).ok());
}

Outcome RunReplayed(const World& world, const Case& c, int64_t start, int64_t from,
                    model::Model* model, Runner* runner) {
  Draws draws(world.seed(), kPurpose + 2);
  Share(c, model, *runner);
  const auto n = static_cast<size_t>(start);
  EXPECT_TRUE(model
                  ->Begin(runner->id(),
                          {.length = start,
                           .encoder_floor = start,
                           .decoder_floor = std::min(from, start),
                           .write_from = c.hit},
                          std::span(c.text.ids).first(n), std::span(c.text.image).first(n))
                  .ok());
  Outcome out;
  Finish(world, c, from, runner, &draws, &out);
  return out;
}

void ExpectSame(const World& world, const Outcome& a, const Outcome& b) {
  const int64_t vocab = world.config().vocab_size;
  EXPECT_TRUE(SameBits(a.prompt_logits, b.prompt_logits, vocab));
  EXPECT_TRUE(SameBits(a.decoded, b.decoded, vocab));
  EXPECT_EQ(Difference(a.snapshot, b.snapshot), "");
}

// Where exact replays begin: back from the hit through the encoder with the decoder as in a run
// from zero, or back through all layers.
int64_t EncoderStart(const World& world, const Case& c) {
  const int64_t reach = world.config().DecoderBegin() * (world.config().sliding_window - 1);
  return std::max<int64_t>(0, std::min(c.hit, c.from) - reach) / 2 * 2;
}

int64_t FullStart(const World& world, const Case& c) {
  const checkpoint::Config& config = world.config();
  const int64_t reach = config.num_hidden_layers * (config.sliding_window - 1) +
                        (config.HasDraft() ? config.sliding_window : 0);
  return std::max<int64_t>(0, c.hit - reach) / 2 * 2;
}

void CheckReplay(const World& world) {
  for (const bool compact : {false, true}) {
    Draws draws(world.seed(), kPurpose);
    const Case c = DrawCase(world, compact, &draws);
    SCOPED_TRACE(testing::Message()
                 << "hit " << c.hit << " of " << c.prompt << ", decoder from " << c.from);
    const auto model = LoadShared(world);
    Runner cold(model.get(), c.text);
    const Outcome expected = RunCold(world, c, model.get(), &cold);
    {
      Runner replayed(model.get(), c.text);
      ExpectSame(world, expected,
                 RunReplayed(world, c, EncoderStart(world, c), c.from, model.get(), &replayed));
    }
    const int64_t full = FullStart(world, c);
    if (full <= c.from) continue;
    Runner replayed(model.get(), c.text);
    ExpectSame(world, expected, RunReplayed(world, c, full, full, model.get(), &replayed));
  }
}

void CheckCheckpoint(const World& world) {
  for (const bool compact : {false, true}) {
    Draws draws(world.seed(), kPurpose + 5);
    const Case c = DrawCase(world, compact, &draws);
    const auto model = LoadShared(world);
    Runner cold(model.get(), c.text);
    const Outcome expected = RunCold(world, c, model.get(), &cold);
    Runner restored(model.get(), c.text);
    Share(c, model.get(), restored);
    ASSERT_TRUE(
        model->pool()
            .RestoreCheckpoint(
                restored.id(), kCheckpoint,
                {.length = c.hit, .decoder_floor = std::min(c.from, c.hit), .write_from = c.hit})
            .ok());
    Outcome out;
    Finish(world, c, c.from, &restored, &draws, &out);
    ExpectSame(world, expected, out);
  }
}

// What a replay from too near gives, as a control that the comparisons above can fail.
int different = 0;
int compared = 0;

void CheckOneWindow(const World& world) {
  Draws draws(world.seed(), kPurpose + 9);
  const Case c = DrawCase(world, false, &draws);
  const int64_t start = c.hit - world.config().sliding_window / 2 * 2;
  const auto model = LoadShared(world);
  Runner cold(model.get(), c.text);
  const Outcome expected = RunCold(world, c, model.get(), &cold);
  const Snapshot shared = TakeSnapshot(&model->pool(), cold.id(), 0);
  Runner replayed(model.get(), c.text);
  const Outcome bounded = RunReplayed(world, c, start, start, model.get(), &replayed);
  EXPECT_EQ(Difference(shared, TakeSnapshot(&model->pool(), cold.id(), 0)), "")
      << "a replay wrote shared rows";
  ++compared;
  if (Difference(expected.snapshot, bounded.snapshot) != "") ++different;
}

TEST(Restart, ExactReplayShard0) { ForEachWorld(0, CheckReplay, 3); }
TEST(Restart, ExactReplayShard1) { ForEachWorld(1, CheckReplay, 3); }
TEST(Restart, ExactReplayShard2) { ForEachWorld(2, CheckReplay, 3); }
TEST(Restart, ExactReplayShard3) { ForEachWorld(3, CheckReplay, 3); }
TEST(Restart, CheckpointShard0) { ForEachWorld(0, CheckCheckpoint, 3); }
TEST(Restart, CheckpointShard1) { ForEachWorld(1, CheckCheckpoint, 3); }
TEST(Restart, CheckpointShard2) { ForEachWorld(2, CheckCheckpoint, 3); }
TEST(Restart, CheckpointShard3) { ForEachWorld(3, CheckCheckpoint, 3); }

TEST(Restart, OneWindowOfReplayIsNotEnough) {
  different = compared = 0;
  ForEachWorld(0, CheckOneWindow, 4);
  EXPECT_GT(different, compared / 2) << "of " << compared;
}

}  // namespace
}  // namespace thalweg::tests
