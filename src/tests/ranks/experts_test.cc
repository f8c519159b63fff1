// Experts over several ranks change no bit: logits of every rank's text are those of one model
// alone, for 1, 2, 3, 4 and 8 ranks that run different texts in different pieces, with ranks that
// are idle or drop all rows in the middle of a step, with replicas, and with experts that move
// between steps. And the check can fail: a slot that holds another expert than its table says is
// found.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "comm/test_ranks.h"
#include "kernels/backends.h"
#include "kernels/test_kit.h"
#include "model/expert_parallel.h"
#include "parallel/balance.h"
#include "tests/device/pretend.h"
#include "tests/invariance/checkpoints.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kLongest = 33;
constexpr int64_t kMostSteps = 12;

// What one rank reads: rank 0 the longest text in wide pieces, the next ones less, every fourth
// nothing at all.
struct Reading {
  std::vector<int32_t> text;
  int64_t width = 1;
};

Reading ReadingOf(const checkpoint::Config& config, int rank) {
  if (rank % 4 == 3) return {};
  const int64_t length = kLongest - 11 * (rank % 4);
  return {SomeText(config, length, 10 + static_cast<uint32_t>(rank)), 3 + rank % 5};
}

// One piece of a text a step; the logits of all rows. The third piece runs the encoder alone.
class RankReader {
 public:
  RankReader(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops, int rank,
             model::ExpertParallel* experts)
      : team_(1), reading_(ReadingOf(checkpoint.config(), rank)) {
    model::ModelOptions options = OptionsFor(ops, 1, 1, kLongest + 8);
    options.team = &team_;
    options.graphs = false;  // a device that is pretended records none
    options.repack = model::Repack::kNever;
    options.expert_parallel = experts;
    model_ = LoadModel(checkpoint, options);
    sequence_ = model_->pool().Open().value();
  }

  Status Step() {
    const auto length = static_cast<int64_t>(reading_.text.size());
    const int64_t rows = std::min(reading_.width, length - at_);
    if (rows == 0) return model_->Idle();
    const bool encoder_alone = steps_ == 2;
    const model::Chunk chunk{
        .sequence = sequence_,
        .tokens =
            std::span(reading_.text).subspan(static_cast<size_t>(at_), static_cast<size_t>(rows)),
        .decoder_from = encoder_alone ? at_ + rows : 0,
        .logits = encoder_alone ? model::LogitRows::kNone : model::LogitRows::kAll};
    model::StepOutput output;
    TW_TRY(model_->Step({&chunk, 1}, &output));
    logits_.insert(logits_.end(), output.logits.begin(), output.logits.end());
    at_ += rows;
    ++steps_;
    return {};
  }
  bool done() const { return at_ == static_cast<int64_t>(reading_.text.size()); }
  const std::vector<float>& logits() const { return logits_; }

 private:
  base::ThreadTeam team_;
  Reading reading_;
  std::unique_ptr<model::Model> model_;
  kvpool::SequenceId sequence_ = {};
  int64_t at_ = 0;
  int64_t steps_ = 0;
  std::vector<float> logits_;
};

std::vector<float> Alone(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops,
                         int rank) {
  RankReader reader(checkpoint, ops, rank, nullptr);
  while (!reader.done()) EXPECT_TRUE(reader.Step().ok());
  return reader.logits();
}

parallel::Placement PlacementFor(const checkpoint::Config& config, int ranks, uint32_t seed) {
  const auto shape = parallel::ShapeFor(config.n_routed_experts, ranks, ranks > 1 ? 1 : 0);
  EXPECT_TRUE(shape.ok()) << shape.status().ToString();
  std::vector<std::vector<double>> loads;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    auto& of_layer = loads.emplace_back();
    for (int64_t e = 0; e < config.n_routed_experts; ++e)
      of_layer.push_back(
          base::Philox4x32({static_cast<uint32_t>(e), static_cast<uint32_t>(layer), 0, 0},
                           {seed, 5})[0] %
          1000);
  }
  return *parallel::Balance({*shape}, loads);
}

// Every rank's steps, with a pause before some, and other places for the experts after the fourth.
struct Ranks {
  const checkpoint::Checkpoint& checkpoint;
  const kernels::Ops& ops;
  int size;
  std::vector<std::vector<float>> logits = {};  // by rank
  std::vector<parallel::ExpertCounts> counts = {};

  void Run() {
    logits.resize(static_cast<size_t>(size));
    counts.resize(static_cast<size_t>(size));
    comm::RunRanks(size, [this](comm::Communicator& comm) { RunRank(comm); });
  }
  void RunRank(comm::Communicator& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    const checkpoint::Config& config = checkpoint.config();
    auto experts = model::ExpertParallel::Make(&comm, PlacementFor(config, size, 1));
    ASSERT_TRUE(experts.ok()) << experts.status().ToString();
    RankReader reader(checkpoint, ops, comm.rank(), experts->get());
    for (int64_t step = 0; step < kMostSteps; ++step) {
      if ((step + comm.rank()) % 3 == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(2 * comm.rank()));
      if (step == 4) {
        ASSERT_TRUE((*experts)->Switch(PlacementFor(config, size, 2)).ok());
      }
      const Status status = reader.Step();
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    EXPECT_TRUE(reader.done());
    logits[rank] = reader.logits();
    counts[rank] = (*experts)->counts();
  }
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void ExpectSameAsAlone(const std::string& name, const kernels::Ops& ops,
                       const std::vector<int>& sizes) {
  const checkpoint::Checkpoint& checkpoint = Shipped(name);
  std::vector<std::vector<float>> alone;
  for (int rank = 0; rank < *std::max_element(sizes.begin(), sizes.end()); ++rank)
    alone.push_back(Alone(checkpoint, ops, rank));
  for (const int size : sizes) {
    if (size > checkpoint.config().n_routed_experts) continue;
    Ranks ranks{checkpoint, ops, size};
    ranks.Run();
    for (size_t r = 0; r < ranks.logits.size(); ++r)
      EXPECT_TRUE(SameBits(ranks.logits[r], alone[r])) << name << ", rank " << r << " of " << size;
  }
}

const kernels::Ops& Cpu(kernels::Numerics numerics) { return kernels::CpuOps(numerics); }

TEST(ExpertParallel, TinyAOnEveryNumberOfRanks) {
  ExpectSameAsAlone("tiny-a", Cpu(kernels::Numerics::kExact), {1, 2, 3, 4, 8});
}

TEST(ExpertParallel, TinyBOnEveryNumberOfRanks) {
  ExpectSameAsAlone("tiny-b", Cpu(kernels::Numerics::kExact), {1, 2, 3, 4, 8});
}

TEST(ExpertParallel, NanoOnEveryNumberOfRanks) {
  ExpectSameAsAlone("nano", Cpu(kernels::Numerics::kFast), {1, 2, 3, 4, 8});
}

TEST(ExpertParallel, FastNumericsToo) {
  ExpectSameAsAlone("tiny-a", Cpu(kernels::Numerics::kFast), {2, 3});
}

TEST(ExpertParallel, ReferenceBodiesToo) {
  ExpectSameAsAlone("tiny-b", kernels::ReferenceOps(), {2, 3});
}

// Rows that go through host memory, experts that run one row each, on a processor that pretends to
// be a device.
TEST(ExpertParallel, RowsOfADevice) {
  ExpectSameAsAlone("tiny-a", PretendedDevice(), {1, 2, 3});
  ExpectSameAsAlone("nano", PretendedDevice(), {2});
}

TEST(ExpertParallel, EveryRowIsCountedForEachOfItsExperts) {
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-a");
  Ranks ranks{checkpoint, Cpu(kernels::Numerics::kFast), 2};
  ranks.Run();
  for (size_t r = 0; r < 2; ++r) {
    const parallel::ExpertCounts& counts = ranks.counts[r];
    const auto text =
        static_cast<int64_t>(ReadingOf(checkpoint.config(), static_cast<int>(r)).text.size());
    EXPECT_EQ(counts.rows, text);
    int64_t chosen = 0;
    for (const int64_t count : counts.layers[0]) chosen += count;
    EXPECT_EQ(chosen, text * checkpoint.config().TopExperts(false));
  }
}

// A rank that fails in the middle: the step of the other ends with an error that says why.
TEST(ExpertParallel, ALostRankEndsTheStep) {
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-a");
  comm::RunRanks(2, [&](comm::Communicator& comm) {
    if (comm.rank() == 1) return comm.Fail(base::ResourceExhausted("no memory"));
    auto experts = model::ExpertParallel::Make(&comm, PlacementFor(checkpoint.config(), 2, 1));
    RankReader reader(checkpoint, Cpu(kernels::Numerics::kFast), 0, experts->get());
    const Status status = reader.Step();
    EXPECT_NE(status.message().find("rank 1 failed: resource exhausted: no memory"),
              std::string::npos)
        << status.ToString();
    EXPECT_FALSE(reader.Step().ok());
  });
}

TEST(ExpertParallel, PlacementsForOtherRanksAreRefused) {
  comm::RunRanks(1, [&](comm::Communicator& comm) {
    const auto made =
        model::ExpertParallel::Make(&comm, PlacementFor(Shipped("tiny-a").config(), 2, 1));
    EXPECT_EQ(made.status().message(), "a placement for 2 ranks, there are 1");
  });
}

// Negative control: a slot that holds another expert than its table says.
const kernels::Ops& SwappedExperts() {
  static const kernels::Ops ops = [] {
    kernels::Ops swapped = Cpu(kernels::Numerics::kExact);
    swapped.experts = [](const kernels::ExpertsParams& p) {
      std::vector<kernels::FeedForward> experts(p.experts.begin(), p.experts.end());
      if (p.topk == 1 && experts.size() > 1) std::swap(experts[0], experts[1]);
      kernels::ExpertsParams params = p;
      params.experts = experts;
      Cpu(kernels::Numerics::kExact).experts(params);
    };
    return swapped;
  }();
  return ops;
}

TEST(ExpertParallel, AWrongExpertIsFound) {
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-a");
  Ranks ranks{checkpoint, SwappedExperts(), 2};
  ranks.Run();
  EXPECT_FALSE(SameBits(ranks.logits[0], Alone(checkpoint, Cpu(kernels::Numerics::kExact), 0)));
}

}  // namespace
}  // namespace thalweg::tests
