// What Model::Step and Model::Draft refuse: the right code, and nothing has changed - no length, no
// byte of any sequence, no block of the pool. The same step without its fault then works.
#include <gtest/gtest.h>

#include "tests/model/world.h"

namespace thalweg::tests {
namespace {

using base::Code;
using model::Chunk;

constexpr uint32_t kPurpose = 17;

// Two open sequences with some content, in a pool of few blocks.
struct Scene {
  explicit Scene(const World& world)
      : config(world.config()),
        draws(world.seed(), kPurpose),
        text(RandomText(config, 420, &draws)),
        model(world.Load(Options(world))),
        first(model.get(), text),
        second(model.get(), text) {
    first.Feed(draws.Between(1, 20));
    second.Feed(draws.Between(1, 20));
  }

  // Three blocks for two sequences.
  static model::ModelOptions Options(const World& world) {
    model::ModelOptions options = world.Options(1, 2);
    options.max_rows = 150;
    options.max_tokens = 64;
    return options;
  }

  std::vector<Snapshot> TakeAll() {
    return {TakeRaw(&model->pool(), first.id()), TakeRaw(&model->pool(), second.id())};
  }

  template <typename Call>
  void ExpectRefusal(Code code, const char* what, const Call& call) {
    SCOPED_TRACE(what);
    const std::vector<Snapshot> before = TakeAll();
    const Status status = call();
    EXPECT_EQ(status.code(), code) << status.ToString();
    EXPECT_FALSE(status.message().empty());
    const std::vector<Snapshot> after = TakeAll();
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(Difference(before[i], after[i]), "");
  }

  // The faulty chunk comes behind a good one, so that a half-done step would show.
  void ExpectStepRefusal(Code code, const char* what, const Chunk& bad) {
    ExpectRefusal(code, what, [&] {
      const Chunk chunks[] = {first.NextChunk(2), bad};
      model::StepOutput out;
      return model->Step(chunks, &out);
    });
  }

  const checkpoint::Config& config;
  Draws draws;
  Text text;
  std::unique_ptr<model::Model> model;
  Runner first;
  Runner second;
};

void ExpectBadTokens(Scene* s) {
  for (const int64_t id : {int64_t{-1}, s->config.vocab_size, int64_t{1} << 30}) {
    const int32_t tokens[] = {5, static_cast<int32_t>(id), 5};
    s->ExpectStepRefusal(Code::kInvalidArgument, "token outside the vocabulary",
                         {.sequence = s->second.id(), .tokens = tokens});
  }
}

void ExpectBadChunks(Scene* s) {
  Chunk chunk = s->second.NextChunk(4);
  chunk.tokens = {};
  chunk.image = {};
  s->ExpectStepRefusal(Code::kInvalidArgument, "empty chunk", chunk);
  chunk = s->second.NextChunk(4);
  chunk.image = chunk.image.first(3);
  s->ExpectStepRefusal(Code::kInvalidArgument, "too few image marks", chunk);
  s->ExpectStepRefusal(Code::kInvalidArgument, "the same sequence twice", s->first.NextChunk(1));
  s->ExpectStepRefusal(Code::kInvalidArgument, "too many rows", s->second.NextChunk(149));
  s->ExpectRefusal(Code::kInvalidArgument, "no chunk at all", [&] {
    model::StepOutput out;
    return s->model->Step({}, &out);
  });
}

void ExpectBadReplay(Scene* s) {
  Chunk chunk = s->second.NextChunk(6);
  chunk.decoder_from = s->second.length() + 1;
  s->ExpectStepRefusal(Code::kInvalidArgument, "all logits, but the decoder skips rows", chunk);
  chunk.logits = model::LogitRows::kLast;
  chunk.decoder_from = s->second.length() + 6;
  s->ExpectStepRefusal(Code::kInvalidArgument, "last logits, but the decoder skips all", chunk);
}

// Either chunk fits alone; the one free block does not serve both.
void ExpectExhaustion(Scene* s) {
  const Chunk both[] = {s->first.NextChunk(65), s->second.NextChunk(65)};
  ASSERT_EQ(s->model->pool().free_blocks(), 1);
  s->ExpectRefusal(Code::kResourceExhausted, "blocks for one of two", [&] {
    model::StepOutput out;
    return s->model->Step(both, &out);
  });
}

void ExpectContextLimit(Scene* s) {
  const int64_t left = s->config.max_position_embeddings - s->second.length();
  s->ExpectStepRefusal(Code::kOutOfRange, "beyond the context", s->second.NextChunk(left + 1));
}

void CheckSteps(const World& world) {
  Scene scene(world);
  ExpectBadTokens(&scene);
  ExpectBadChunks(&scene);
  ExpectBadReplay(&scene);
  ExpectExhaustion(&scene);
  ExpectContextLimit(&scene);
  // And nothing stands in the way of the steps that were fine.
  const auto good = world.Load(1, 1);
  Runner alone(good.get(), scene.text);
  const int64_t length = scene.first.length();
  alone.Feed(length);
  EXPECT_TRUE(SameBits(alone.Feed(65), scene.first.Feed(65), scene.config.vocab_size));
}

void ExpectDraftRefusal(Scene* s, Code code, const char* what,
                        const std::vector<model::DraftRequest>& requests) {
  s->ExpectRefusal(code, what, [&] {
    model::DraftOutput out;
    return s->model->Draft(requests, &out);
  });
}

void CheckDrafts(const World& world) {
  Scene s(world);
  const model::DraftRequest good{s.first.id(), 5};
  if (!world.config().HasDraft()) {
    ExpectDraftRefusal(&s, Code::kUnsupported, "no draft module", {good});
    return;
  }
  const auto vocab = static_cast<int32_t>(s.config.vocab_size);
  ExpectDraftRefusal(&s, Code::kInvalidArgument, "token too large", {good, {s.second.id(), vocab}});
  ExpectDraftRefusal(&s, Code::kInvalidArgument, "token negative", {good, {s.second.id(), -1}});
  const auto many = static_cast<size_t>(150 / s.config.dspark_block_size + 1);
  ExpectDraftRefusal(&s, Code::kInvalidArgument, "too many rows",
                     std::vector<model::DraftRequest>(many, good));
  s.second.Truncate(0);
  ExpectDraftRefusal(&s, Code::kFailedPrecondition, "nothing before", {good, {s.second.id(), 5}});
}

// A drafter that the checkpoint has but the filter left out.
void CheckDraftLeftOut(const World& world) {
  const auto without =
      checkpoint::Checkpoint::Open(world.checkpoint().dir(), {.draft = false}).value();
  const auto model = model::Model::Load(without, world.Options(1, 1)).value();
  EXPECT_FALSE(model->has_draft());
  Runner runner(model.get(), world.prompt());
  const auto with = world.Load();
  Runner same(with.get(), world.prompt());
  const int64_t length = world.prompt().size();
  EXPECT_TRUE(SameBits(same.Feed(length), runner.Feed(length), world.config().vocab_size));
  const model::DraftRequest request{runner.id(), 5};
  model::DraftOutput out;
  EXPECT_EQ(model->Draft({&request, 1}, &out).code(), Code::kUnsupported);
}

class Errors : public ::testing::TestWithParam<int> {};

TEST_P(Errors, ARefusedStepChangesNothing) { ForEachWorld(GetParam(), CheckSteps, 4); }
TEST_P(Errors, ARefusedDraftChangesNothing) { ForEachWorld(GetParam(), CheckDrafts, 4); }
TEST_P(Errors, AModelWithoutItsDrafterStillRuns) { ForEachWorld(GetParam(), CheckDraftLeftOut, 4); }

INSTANTIATE_TEST_SUITE_P(Shard, Errors, ::testing::Range(0, kShards));

TEST(ErrorsOfLoading, TooFewRowsForDraftsAreRefused) {
  const World world(TheSweep().first_seed);
  model::ModelOptions options = world.Options(1, 2);
  options.max_rows = 0;
  EXPECT_EQ(model::Model::Load(world.checkpoint(), options).status().code(),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace thalweg::tests
