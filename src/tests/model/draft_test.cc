// The drafter (spec/model.md 2.8): a draft leaves the caches as they were, does not depend on the
// other sequences of the call, and after a rollback, after halo replay, and after compact replay of
// a prompt that is kept whole, equals the draft of a sequence that took the straight way.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/model/world.h"

namespace thalweg::tests {
namespace {

constexpr uint32_t kPurpose = 16;

model::DraftOutput DraftOf(model::Model* model, std::span<const model::DraftRequest> requests) {
  model::DraftOutput out;
  const Status status = model->Draft(requests, &out);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return out;
}

model::DraftOutput DraftOf(model::Model* model, const Runner& runner, int32_t token) {
  const model::DraftRequest request{runner.id(), token};
  return DraftOf(model, {&request, 1});
}

// Draft number `i` of a call.
model::DraftOutput PartOf(const model::DraftOutput& all, const checkpoint::Config& c, size_t i) {
  const auto block = static_cast<size_t>(c.dspark_block_size);
  const size_t logits = block * static_cast<size_t>(c.vocab_size);
  const auto cut = [i](const auto& from, size_t size) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(i * size);
    return std::decay_t<decltype(from)>(begin, begin + static_cast<std::ptrdiff_t>(size));
  };
  return {cut(all.tokens, block), cut(all.confidence, block), cut(all.logits, logits)};
}

void ExpectSameDraft(const model::DraftOutput& a, const model::DraftOutput& b, int64_t vocab) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_TRUE(SameBits(a.confidence, b.confidence, 1));
  EXPECT_TRUE(SameBits(a.logits, b.logits, vocab));
}

// Caches before and after, and the same draft twice.
void CheckCachesUntouched(const World& world) {
  if (!world.config().HasDraft()) return;
  const auto model = world.Load();
  Runner runner(model.get(), world.prompt());
  runner.Feed(world.prompt().size());
  const Snapshot before = TakeRaw(&model->pool(), runner.id());
  const model::DraftOutput once = DraftOf(model.get(), runner, 5);
  EXPECT_EQ(Difference(before, TakeRaw(&model->pool(), runner.id())), "");
  ExpectSameDraft(once, DraftOf(model.get(), runner, 5), world.config().vocab_size);
  const size_t block = static_cast<size_t>(world.config().dspark_block_size);
  EXPECT_EQ(once.tokens.size(), block);
  EXPECT_EQ(once.logits.size(), block * static_cast<size_t>(world.config().vocab_size));
  model::DraftOutput nothing;
  EXPECT_TRUE(model->Draft({}, &nothing).ok());
  EXPECT_TRUE(nothing.tokens.empty());
}

void CheckDraftsInABatch(const World& world) {
  if (!world.config().HasDraft()) return;
  Draws draws(world.seed(), kPurpose);
  const auto model = world.Load(world.threads(), 3);
  const Text texts[] = {world.prompt(), RandomText(world.config(), draws.Between(1, 40), &draws),
                        RandomText(world.config(), draws.Between(1, 9), &draws)};
  Runner a(model.get(), texts[0]), b(model.get(), texts[1]), c(model.get(), texts[2]);
  Runner* runners[] = {&a, &b, &c};
  std::vector<model::DraftRequest> requests;
  std::vector<model::DraftOutput> alone;
  for (size_t i = 0; i < 3; ++i) {
    runners[i]->Feed(texts[i].size());
    const auto token = static_cast<int32_t>(draws.Between(0, world.config().vocab_size - 1));
    requests.push_back({runners[i]->id(), token});
    alone.push_back(DraftOf(model.get(), *runners[i], token));
  }
  std::swap(requests[0], requests[2]);
  std::swap(alone[0], alone[2]);
  const model::DraftOutput together = DraftOf(model.get(), requests);
  for (size_t i = 0; i < 3; ++i)
    ExpectSameDraft(alone[i], PartOf(together, world.config(), i), world.config().vocab_size);
}

// Draft, verify the block with other tokens behind it, take it back: as if nothing had been.
void CheckDraftAfterRollback(const World& world) {
  if (!world.config().HasDraft()) return;
  Draws draws(world.seed(), kPurpose + 100);
  const auto model = world.Load();
  const Text astray = RandomText(world.config(), world.prompt().size() + 20, &draws);
  Runner straight(model.get(), world.prompt());
  straight.Feed(world.prompt().size());
  const model::DraftOutput expected = DraftOf(model.get(), straight, 6);
  Runner winding(model.get(), world.prompt());
  winding.Feed(world.prompt().size());
  for (int i = 0; i < 3; ++i) {
    DraftOf(model.get(), winding, 7);
    winding.FeedFrom(astray, draws.Between(1, world.rollback()));
    DraftOf(model.get(), winding, 8);
    winding.Truncate(world.prompt().size());
  }
  ExpectSameDraft(expected, DraftOf(model.get(), winding, 6), world.config().vocab_size);
}

void CheckDraftAfterReplay(const World& world) {
  if (!world.config().HasDraft()) return;
  Draws draws(world.seed(), kPurpose + 200);
  const bool halo = draws.Chance(50);
  const int64_t kept =
      halo ? model::HaloTokens(world.config()) : model::DefaultKeepTokens(world.config());
  const auto replay =
      model::Replay::Make(halo ? model::ReplayMode::kHalo : model::ReplayMode::kCompact, {},
                          world.config())
          .value();
  const int64_t length = halo && kept < 90 ? kept + draws.Between(1, 20) : draws.Between(1, kept);
  const Text text = RandomText(world.config(), length, &draws);
  const auto model = world.Load();
  Runner full(model.get(), text);
  full.Feed(length);
  Runner replayed(model.get(), text);
  replayed.FeedInPieces(length, length, &draws, replay.DecoderFrom(length, world.config()));
  EXPECT_EQ(Difference(full.Take(world.rollback()), replayed.Take(world.rollback())), "");
  ExpectSameDraft(DraftOf(model.get(), full, 6), DraftOf(model.get(), replayed, 6),
                  world.config().vocab_size);
}

// Every slot's logits depend on the token and on the context: the comparison is of something.
void CheckDraftsDiffer(const World& world) {
  if (!world.config().HasDraft()) return;
  Draws draws(world.seed(), kPurpose + 300);
  const auto model = world.Load();
  Runner one(model.get(), world.prompt());
  one.Feed(world.prompt().size());
  EXPECT_NE(DraftOf(model.get(), one, 5).logits, DraftOf(model.get(), one, 6).logits);
}

class Draft : public ::testing::TestWithParam<int> {};

TEST_P(Draft, LeavesTheCachesAlone) { ForEachWorld(GetParam(), CheckCachesUntouched); }
TEST_P(Draft, DoesNotDependOnNeighbours) { ForEachWorld(GetParam(), CheckDraftsInABatch); }
TEST_P(Draft, AfterARollbackIsTheStraightOne) { ForEachWorld(GetParam(), CheckDraftAfterRollback); }
TEST_P(Draft, AfterExactReplayIsThatOfFull) { ForEachWorld(GetParam(), CheckDraftAfterReplay); }
TEST_P(Draft, DependsOnItsToken) { ForEachWorld(GetParam(), CheckDraftsDiffer, 8); }

INSTANTIATE_TEST_SUITE_P(Shard, Draft, ::testing::Range(0, kShards));

}  // namespace
}  // namespace thalweg::tests
