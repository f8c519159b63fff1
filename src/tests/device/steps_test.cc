// On a device the bits of a row do not depend on how its step was run: recorded or not, alone or
// among others, filled up with rows of nobody, in one piece or in many.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/device/device.h"
#include "tests/model/world.h"

namespace thalweg::tests {

Sweep TheSweep() { return {.first_seed = 0, .seeds = 0, .longest_prompt = 200}; }

namespace {

constexpr uint64_t kWorlds = 6;
constexpr int64_t kRounds = 5;  // of steps alike: eager, recorded, replayed
constexpr int64_t kMostTogether = 64;

using Bits = std::vector<float>;

bool SameBits(const Bits& a, const Bits& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A model of a world on the device, and sequences that read tokens of their own.
class Steps {
 public:
  Steps(const World& world, const kernels::Ops& ops, bool graphs, int64_t sequences)
      : vocab_(world.config().vocab_size) {
    model::ModelOptions options = world.Options(1, sequences);
    options.ops = &ops;
    options.graphs = graphs;
    model_ = world.Load(options);
    for (int64_t s = 0; s < sequences; ++s) {
      Draws draws(world.seed() * 1000 + static_cast<uint64_t>(s), 77);
      texts_.push_back(RandomText(world.config(), 250, &draws));
      ids_.push_back(model_->pool().Open().value());
    }
  }

  // The next `rows` tokens of each of these sequences in one step; logits of all of them.
  std::vector<Bits> Read(const std::vector<size_t>& which, int64_t rows) {
    std::vector<model::Chunk> chunks;
    for (const size_t s : which) {
      const auto at = static_cast<size_t>(model_->pool().length(ids_[s]));
      const auto n = static_cast<size_t>(rows);
      chunks.push_back({.sequence = ids_[s],
                        .tokens = std::span(texts_[s].ids).subspan(at, n),
                        .image = std::span(texts_[s].image).subspan(at, n),
                        .logits = model::LogitRows::kAll});
    }
    model::StepOutput out;
    const Status status = model_->Step(chunks, &out);
    EXPECT_TRUE(status.ok()) << status.ToString();
    std::vector<Bits> all(which.size());
    const auto each = static_cast<std::ptrdiff_t>(rows * vocab_);
    for (size_t i = 0; i < which.size() && status.ok(); ++i) {
      const auto first = out.logits.begin() + static_cast<std::ptrdiff_t>(i) * each;
      all[i].assign(first, first + each);
    }
    return all;
  }

  Bits ReadOne(size_t which, int64_t rows) { return Read({which}, rows).front(); }

 private:
  int64_t vocab_;
  std::unique_ptr<model::Model> model_;
  std::vector<Text> texts_;
  std::vector<kvpool::SequenceId> ids_;
};

std::vector<size_t> FirstOf(int64_t count) {
  std::vector<size_t> which;
  for (int64_t i = 0; i < count; ++i) which.push_back(static_cast<size_t>(i));
  return which;
}

class DeviceSteps : public OnDevice {};

TEST_F(DeviceSteps, RecordedOrNot) {
  for (uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world(seed);
    SCOPED_TRACE(world.Describe());
    Steps recorded(world, ops(), true, 7), eager(world, ops(), false, 7);
    for (const int64_t together : {7, 3, 1}) {
      for (int64_t round = 0; round < kRounds; ++round) {
        const auto a = recorded.Read(FirstOf(together), 1 + round % 2);
        const auto b = eager.Read(FirstOf(together), 1 + round % 2);
        for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(SameBits(a[i], b[i])) << together;
      }
    }
  }
}

// Batches of every size that is filled up, and of those that are not.
TEST_F(DeviceSteps, AloneOrAmongOthers) {
  for (uint64_t seed = 0; seed < 2; ++seed) {
    const World world(seed);
    SCOPED_TRACE(world.Describe());
    Steps alone(world, ops(), true, 1), among(world, ops(), true, kMostTogether);
    for (const int64_t together : {1, 2, 3, 5, 8, 9, 17, 33, 63, 64}) {
      for (int64_t round = 0; round < 3; ++round) {
        const Bits one = alone.ReadOne(0, 1);
        EXPECT_TRUE(SameBits(one, among.Read(FirstOf(together), 1).front())) << together;
      }
    }
  }
}

TEST_F(DeviceSteps, AnyWidthOfVerification) {
  for (uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world(seed);
    SCOPED_TRACE(world.Describe());
    Steps single(world, ops(), true, 1), wide(world, ops(), true, 2);
    single.ReadOne(0, 11);
    wide.Read({0, 1}, 11);
    for (const int64_t width : {6, 1, 2, 6, 3, 6, 4, 5, 6, 6}) {
      Bits rows;
      for (int64_t i = 0; i < width; ++i) {
        const Bits one = single.ReadOne(0, 1);
        rows.insert(rows.end(), one.begin(), one.end());
      }
      EXPECT_TRUE(SameBits(rows, wide.Read({0, 1}, width).front())) << width;
    }
  }
}

TEST_F(DeviceSteps, WholeOrInPieces) {
  for (uint64_t seed = 0; seed < kWorlds; ++seed) {
    const World world(seed);
    SCOPED_TRACE(world.Describe());
    Steps whole(world, ops(), false, 1), pieces(world, ops(), true, 1);
    const Bits all = whole.ReadOne(0, 150);
    Bits joined;
    for (const int64_t rows : {64, 1, 37, 2, 46}) {
      const Bits piece = pieces.ReadOne(0, rows);
      joined.insert(joined.end(), piece.begin(), piece.end());
    }
    EXPECT_TRUE(SameBits(all, joined));
  }
}

// What is allocated while steps run stays within what was planned before.
TEST_F(DeviceSteps, TheMemoryPlanIsAnUpperBound) {
  const World world(1);
  model::ModelOptions options = world.Options(1, kMostTogether);
  options.ops = &ops();
  const model::MemoryPlan plan = model::PlanMemory(world.config(), options);
  const int64_t before = ops().memory->free_bytes();
  Steps steps(world, ops(), true, kMostTogether);
  for (const int64_t together : {1, 64, 33}) {
    for (int64_t round = 0; round < 3; ++round) steps.Read(FirstOf(together), 1);
  }
  steps.ReadOne(0, 100);
  const int64_t planned = plan.packed_weights + plan.cache_blocks + plan.sequence_slots +
                          plan.workspace + plan.device_work;
  constexpr int64_t kDriver = int64_t{512} << 20;  // its context, and allocation in whole pages
  EXPECT_LE(before - ops().memory->free_bytes(), planned + kDriver);
}

}  // namespace
}  // namespace thalweg::tests
