// Taking tokens back leaves no trace: after going ahead with other tokens and truncating, the next
// tokens get the logits, and leave the caches, of a sequence that never went ahead. Beyond the
// budget truncation is refused, length 0 starts over, and a reopened slot knows nothing of the
// sequence before.
#include <gtest/gtest.h>

#include "tests/model/world.h"

namespace thalweg::tests {
namespace {

constexpr uint32_t kPurpose = 13;

// A prompt, and a continuation to be decoded behind it.
struct Case {
  Text text;           // prompt and continuation
  int64_t prompt = 0;  // length of the prompt
  Text astray;         // as long as text, with other tokens
};

Case DrawCase(const World& world, Draws* draws) {
  Case c;
  c.text = world.prompt();
  c.prompt = c.text.size();
  const Text more = RandomText(world.config(), world.rollback() + 5, draws);
  c.text.ids.insert(c.text.ids.end(), more.ids.begin(), more.ids.end());
  c.text.image.insert(c.text.image.end(), more.image.begin(), more.image.end());
  c.astray = RandomText(world.config(), c.text.size(), draws);
  return c;
}

void Append(const std::vector<float>& logits, std::vector<float>* all) {
  all->insert(all->end(), logits.begin(), logits.end());
}

// From `at`: ahead by r tokens in pieces, then back.
void GoAstray(Runner* runner, const Case& c, int64_t r, Draws* draws) {
  const int64_t at = runner->length();
  while (runner->length() < at + r) {
    const int64_t piece = std::min(draws->Between(1, 6), at + r - runner->length());
    runner->FeedFrom(c.astray, piece);
  }
  runner->Truncate(at);
}

// Decodes the continuation with detours of at most the budget; logits of all its rows.
std::vector<float> DecodeWithDetours(Runner* runner, const Case& c, int64_t budget, Draws* draws) {
  std::vector<float> all;
  while (runner->length() < c.text.size()) {
    const int64_t room = c.text.size() - runner->length();
    const int64_t detours = draws->Between(0, 2);
    for (int64_t i = 0; i < detours; ++i)
      GoAstray(runner, c, std::min(draws->Between(1, budget), room), draws);
    Append(runner->Feed(std::min(draws->Between(1, 4), room)), &all);
  }
  return all;
}

void CheckDetours(const World& world) {
  Draws draws(world.seed(), kPurpose);
  const Case c = DrawCase(world, &draws);
  const auto model = world.Load();
  Runner straight(model.get(), c.text);
  straight.Feed(c.prompt);
  const std::vector<float> expected = straight.Feed(c.text.size() - c.prompt);
  Runner winding(model.get(), c.text);
  winding.Feed(c.prompt);
  const std::vector<float> logits = DecodeWithDetours(&winding, c, world.rollback(), &draws);
  EXPECT_TRUE(SameBits(expected, logits, world.config().vocab_size));
  // What a step can read now; the budget may be spent.
  EXPECT_EQ(Difference(straight.Take(0), winding.Take(0)), "");
}

// Truncates to the very end of the budget and goes on from there.
void CheckFullBudget(const World& world) {
  Draws draws(world.seed(), kPurpose + 100);
  const Case c = DrawCase(world, &draws);
  const auto model = world.Load();
  Runner straight(model.get(), c.text);
  straight.Feed(c.prompt);
  const Snapshot there = straight.Take(0);
  const std::vector<float> expected = straight.Feed(3);
  Runner back(model.get(), c.text);
  back.Feed(c.prompt);
  GoAstray(&back, c, world.rollback(), &draws);
  EXPECT_EQ(Difference(there, back.Take(0)), "");
  EXPECT_TRUE(SameBits(expected, back.Feed(3), world.config().vocab_size));
}

// Tokens of the prompt itself are taken back, wherever its chunks ended.
void CheckBackIntoPrompt(const World& world) {
  Draws draws(world.seed(), kPurpose + 200);
  const int64_t length = world.prompt().size();
  if (length < 2) return;
  const auto model = world.Load();
  Runner straight(model.get(), world.prompt());
  const std::vector<float> expected = straight.Feed(length);
  Runner back(model.get(), world.prompt());
  back.FeedInPieces(length, length, &draws);
  const int64_t to = std::max<int64_t>(1, length - draws.Between(1, world.rollback()));
  back.Truncate(to);
  const std::vector<float> logits = back.Feed(length - to);
  const int64_t vocab = world.config().vocab_size;
  EXPECT_TRUE(SameBits(LastRows(expected, length - to, vocab), logits, vocab));
  EXPECT_EQ(Difference(straight.Take(world.rollback()), back.Take(world.rollback())), "");
}

// Refused beyond the budget, with nothing changed; length 0 starts over.
void CheckRefusalAndRestart(const World& world) {
  Draws draws(world.seed(), kPurpose + 300);
  const Case c = DrawCase(world, &draws);
  const auto model = world.Load();
  Runner runner(model.get(), c.text);
  const std::vector<float> expected = runner.Feed(c.prompt);
  const Snapshot fresh = runner.Take(world.rollback());
  GoAstray(&runner, c, world.rollback(), &draws);
  const Snapshot raw = TakeRaw(&model->pool(), runner.id());
  if (c.prompt > 1) {
    const Status refused = model->pool().Truncate(runner.id(), c.prompt - 1);
    EXPECT_EQ(refused.code(), base::Code::kOutOfRange);
  }
  EXPECT_EQ(model->pool().Truncate(runner.id(), -1).code(), base::Code::kOutOfRange);
  EXPECT_EQ(Difference(raw, TakeRaw(&model->pool(), runner.id())), "");
  runner.Truncate(0);
  EXPECT_TRUE(SameBits(expected, runner.Feed(c.prompt), world.config().vocab_size));
  EXPECT_EQ(Difference(fresh, runner.Take(world.rollback())), "");
}

// A slot and its blocks, used before by a longer sequence with replay, serve a new one as if fresh.
void CheckReuseOfSlots(const World& world) {
  Draws draws(world.seed(), kPurpose + 400);
  const Case c = DrawCase(world, &draws);
  const auto fresh_model = world.Load(1, 1);
  Runner fresh(fresh_model.get(), c.text);
  const std::vector<float> expected = fresh.Feed(c.prompt);
  const auto used_model = world.Load(1, 1);
  {
    Runner before(used_model.get(), c.astray);
    before.Feed(c.astray.size(), draws.Between(0, c.astray.size()));
  }
  Runner after(used_model.get(), c.text);
  EXPECT_TRUE(SameBits(expected, after.Feed(c.prompt), world.config().vocab_size));
  EXPECT_EQ(Difference(fresh.Take(world.rollback()), after.Take(world.rollback())), "");
}

class Rollback : public ::testing::TestWithParam<int> {};

TEST_P(Rollback, DetoursLeaveNoTrace) { ForEachWorld(GetParam(), CheckDetours); }
TEST_P(Rollback, ReachesToTheEndOfTheBudget) { ForEachWorld(GetParam(), CheckFullBudget, 2); }
TEST_P(Rollback, ReachesIntoThePrompt) { ForEachWorld(GetParam(), CheckBackIntoPrompt); }
TEST_P(Rollback, IsRefusedBeyondTheBudget) { ForEachWorld(GetParam(), CheckRefusalAndRestart, 2); }
TEST_P(Rollback, ReopenedSlotsForget) { ForEachWorld(GetParam(), CheckReuseOfSlots, 2); }

INSTANTIATE_TEST_SUITE_P(Shard, Rollback, ::testing::Range(0, kShards));

}  // namespace
}  // namespace thalweg::tests
