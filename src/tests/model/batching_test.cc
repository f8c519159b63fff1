// Neighbours change no bit: sequences of different lengths that share steps in random order and
// random pieces, on one to three threads, with sequences opened, closed and reserved around them,
// get the logits and caches they get alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "tests/model/world.h"

namespace thalweg::tests {
namespace {

constexpr uint32_t kPurpose = 12;
constexpr int kSequences = 3;

struct Alone {
  Text text;
  std::vector<float> logits;  // of all rows
  Snapshot kept;
};

std::vector<Alone> RunAlone(const World& world, Draws* draws) {
  std::vector<Alone> out;
  const auto model = world.Load();
  for (int i = 0; i < kSequences; ++i) {
    Alone a;
    a.text = i == 0 ? world.prompt() : RandomText(world.config(), draws->Between(1, 40), draws);
    Runner runner(model.get(), a.text);
    a.logits = runner.Feed(a.text.size());
    a.kept = runner.Take(world.rollback());
    out.push_back(std::move(a));
  }
  return out;
}

// A sequence of the shared model and what it has got so far.
struct Shared {
  Shared(model::Model* model, const Alone& of) : alone(&of), runner(model, of.text) {}
  int64_t left() const { return alone->text.size() - runner.length(); }

  const Alone* alone;
  Runner runner;
  std::vector<float> logits;
};

// The sequences of one step, in random order, each with a random piece.
std::vector<std::pair<Shared*, int64_t>> DrawStep(std::deque<Shared>* all, Draws* draws) {
  std::vector<std::pair<Shared*, int64_t>> step;
  for (Shared& s : *all) {
    if (s.left() == 0 || draws->Chance(30)) continue;
    const int64_t most = draws->Chance(50) ? 6 : 60;
    const auto at = step.begin() + draws->Between(0, static_cast<int64_t>(step.size()));
    step.insert(at, {&s, std::min(draws->Between(1, most), s.left())});
  }
  return step;
}

void RunStep(model::Model* model, const std::vector<std::pair<Shared*, int64_t>>& step,
             int64_t vocab) {
  std::vector<model::Chunk> chunks;
  for (const auto& [shared, count] : step) chunks.push_back(shared->runner.NextChunk(count));
  model::StepOutput out;
  const Status status = model->Step(chunks, &out);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const float* from = out.logits.data();
  for (const auto& [shared, count] : step) {
    shared->logits.insert(shared->logits.end(), from, from + count * vocab);
    from += count * vocab;
  }
}

// Opens, feeds, reserves or closes a sequence that nobody compares.
void Disturb(model::Model* model, const Text& text, std::optional<Runner>* stranger, Draws* draws) {
  if (!stranger->has_value()) {
    stranger->emplace(model, text);
    return;
  }
  const int64_t length = (*stranger)->length();
  switch (draws->Between(0, 2)) {
    case 0: (*stranger)->Feed(std::min<int64_t>(draws->Between(1, 9), text.size() - length)); break;
    case 1:
      EXPECT_TRUE(model->pool().Reserve((*stranger)->id(), draws->Between(1, 300)).ok());
      break;
    default: break;
  }
  if ((*stranger)->length() == text.size() || draws->Chance(40)) stranger->reset();
}

void CheckNeighbours(const World& world) {
  Draws draws(world.seed(), kPurpose);
  const std::vector<Alone> alone = RunAlone(world, &draws);
  const Text noise = RandomText(world.config(), 50, &draws);
  const auto model = world.Load(world.threads(), kSequences + 1);
  std::optional<Runner> stranger;
  std::deque<Shared> shared;
  // Late sequences open while others are under way.
  while (shared.size() < alone.size() ||
         std::ranges::any_of(shared, [](const Shared& s) { return s.left() > 0; })) {
    if (shared.size() < alone.size() && draws.Chance(60))
      shared.emplace_back(model.get(), alone[shared.size()]);
    if (draws.Chance(40)) Disturb(model.get(), noise, &stranger, &draws);
    const auto step = DrawStep(&shared, &draws);
    if (!step.empty()) RunStep(model.get(), step, world.config().vocab_size);
  }
  for (size_t i = 0; i < shared.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_TRUE(SameBits(alone[i].logits, shared[i].logits, world.config().vocab_size));
    EXPECT_EQ(Difference(alone[i].kept, shared[i].runner.Take(world.rollback())), "");
  }
}

class Batching : public ::testing::TestWithParam<int> {};

TEST_P(Batching, NeighboursAndThreadsChangeNoBit) { ForEachWorld(GetParam(), CheckNeighbours); }

INSTANTIATE_TEST_SUITE_P(Shard, Batching, ::testing::Range(0, kShards));

}  // namespace
}  // namespace thalweg::tests
