// Steps that are launched one behind the other, with tokens that the device chooses and the host
// has not seen, give the tokens of steps that are waited for and sampled by the host.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sampling/sampler.h"
#include "tests/device/device.h"
#include "tests/model/world.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kSequences = 5;
constexpr int64_t kPrompt = 9;
constexpr int64_t kTokens = 24;

step::SamplingParams ParamsOf(size_t sequence) {
  constexpr double kTemperatures[] = {0, 1, 0.7, 1.3, 100};
  step::SamplingParams params;
  params.temperature = kTemperatures[sequence % 5];
  params.seed = 1000 + sequence;
  return params;
}

struct Sequences {
  Sequences(const World& world, const kernels::Ops& ops) {
    model::ModelOptions options = world.Options(1, kSequences);
    options.ops = &ops;
    model = world.Load(options);
    for (int64_t s = 0; s < kSequences; ++s) {
      Draws draws(world.seed() + static_cast<uint64_t>(s), 91);
      Text text = RandomText(world.config(), kPrompt, &draws);
      tokens.push_back(text.ids);
      ids.push_back(model->pool().Open().value());
    }
  }
  std::unique_ptr<model::Model> model;
  std::vector<std::vector<int32_t>> tokens;
  std::vector<kvpool::SequenceId> ids;
};

std::vector<std::vector<int32_t>> OnHost(const World& world, const kernels::Ops& ops) {
  Sequences s(world, ops);
  sampling::Scratch scratch;
  for (int64_t t = 0; t < kTokens; ++t) {
    std::vector<model::Chunk> chunks;
    for (size_t i = 0; i < s.ids.size(); ++i) {
      const auto done = static_cast<size_t>(s.model->pool().length(s.ids[i]));
      chunks.push_back({.sequence = s.ids[i], .tokens = std::span(s.tokens[i]).subspan(done)});
    }
    model::StepOutput out;
    EXPECT_TRUE(s.model->Step(chunks, &out).ok());
    const auto vocab = static_cast<size_t>(world.config().vocab_size);
    for (size_t i = 0; i < s.ids.size(); ++i) {
      const sampling::SequenceState state(ParamsOf(i), world.config().vocab_size, s.tokens[i],
                                          kPrompt);
      const auto row = std::span(out.logits).subspan(i * vocab, vocab);
      const auto sample = sampling::SampleRow(row, state, static_cast<int64_t>(s.tokens[i].size()),
                                              nullptr, &scratch);
      EXPECT_TRUE(sample.ok());
      s.tokens[i].push_back(sample->token);
    }
  }
  return s.tokens;
}

// One step behind another: token t is read by step t + 1 before the host has it.
class Launcher {
 public:
  Launcher(const World& world, const kernels::Ops& ops) : s_(world, ops) {}

  std::vector<std::vector<int32_t>> Run() {
    for (int64_t t = 0; t < kTokens; ++t) {
      Launch(t);
      if (t > 0) Collect();
    }
    Collect();
    return s_.tokens;
  }

 private:
  void Launch(int64_t t) {
    static constexpr int32_t kAny = 0;
    std::vector<model::Chunk> chunks;
    for (size_t i = 0; i < s_.ids.size(); ++i) {
      model::Chunk chunk{
          .sequence = s_.ids[i],
          .tokens = t == 0 ? std::span<const int32_t>(s_.tokens[i]) : std::span(&kAny, 1)};
      const auto slot = static_cast<int32_t>(i);
      if (t > 0) chunk.newest_slot = slot;
      chunk.choose = {.seed = ParamsOf(i).seed,
                      .position = kPrompt + t,
                      .temperature = ParamsOf(i).temperature,
                      .slot = slot};
      chunks.push_back(chunk);
    }
    const Status status = s_.model->Launch(chunks);
    EXPECT_TRUE(status.ok()) << status.ToString();
    s_.model->Choose({});
  }

  void Collect() {
    model::StepOutput out;
    const Status status = s_.model->Collect(&out);
    EXPECT_TRUE(status.ok()) << status.ToString();
    ASSERT_EQ(out.chosen.size(), s_.ids.size());
    for (size_t i = 0; i < s_.ids.size(); ++i) {
      const auto position = static_cast<int64_t>(s_.tokens[i].size());
      s_.tokens[i].push_back(out.chosen[i]);
      if (s_.model->pool().length(s_.ids[i]) > position)
        s_.model->Learn(s_.ids[i], position, out.chosen[i]);
    }
  }

  Sequences s_;
};

class DeviceLaunches : public OnDevice {};

TEST_F(DeviceLaunches, TokensOfTheHostsSampler) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const World world(seed);
    SCOPED_TRACE(world.Describe());
    EXPECT_EQ(Launcher(world, ops()).Run(), OnHost(world, ops()));
  }
}

}  // namespace
}  // namespace thalweg::tests
