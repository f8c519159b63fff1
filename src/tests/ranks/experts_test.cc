// Experts over several ranks change no bit: logits of every rank's text are those of one model
// alone, for 1, 2, 3, 4 and 8 ranks that run different texts in different pieces, with ranks that
// are idle or drop all rows in the middle of a step, with replicas, and with experts that move
// between steps. And the check can fail: a slot that holds another expert than its table says is
// found.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "comm/test_ranks.h"
#include "kernels/backends.h"
#include "kernels/test_kit.h"
#include "model/expert_parallel.h"
#include "parallel/balance.h"
#include "tensor/row_format.h"
#include "tests/device/pretend.h"
#include "tests/invariance/checkpoints.h"
#include "tests/ranks/queueing_rank.h"
#include "tests/ranks/reader.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kMostSteps = 12;

bool ReachesAllWeights(const kernels::Ops& ops) {
  return ops.memory->host || PretendedReachesAllWeights();
}

model::Repack RepackFor(const kernels::Ops& ops) {
  return ReachesAllWeights(ops) ? model::Repack::kNever : model::Repack::kAlways;
}

std::vector<float> Alone(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops,
                         int rank) {
  RankReader reader(checkpoint, ops, rank, nullptr, RepackFor(ops));
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

// Every rank's steps, with a pause before some, and other places for the experts after the fourth
// where that takes no move of weights.
struct Ranks {
  const checkpoint::Checkpoint& checkpoint;
  const kernels::Ops& ops;
  int size;
  bool devices = false;                         // rows stay on them
  bool routes = false;                          // and find their experts there, where they are few
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
    auto experts =
        model::ExpertParallel::Make(&comm, PlacementFor(config, size, 1), devices ? &comm : nullptr,
                                    &PretendedExchange(), routes ? &PretendedRouting() : nullptr);
    ASSERT_TRUE(experts.ok()) << experts.status().ToString();
    RankReader reader(checkpoint, ops, comm.rank(), experts->get(), RepackFor(ops));
    for (int64_t step = 0; step < kMostSteps; ++step) {
      if ((step + comm.rank()) % 3 == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(2 * comm.rank()));
      if (step == 4 && ReachesAllWeights(ops)) {
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
                       const std::vector<int>& sizes, bool devices = false, bool routes = false) {
  const checkpoint::Checkpoint& checkpoint = Shipped(name);
  std::vector<std::vector<float>> alone;
  for (int rank = 0; rank < *std::max_element(sizes.begin(), sizes.end()); ++rank)
    alone.push_back(Alone(checkpoint, ops, rank));
  for (const int size : sizes) {
    if (size > checkpoint.config().n_routed_experts) continue;
    Ranks ranks{checkpoint, ops, size, devices, routes};
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

// Rows that travel from device to device, on one that is pretended.
TEST(ExpertParallel, RowsThatStayOnDevices) {
  for (const char* name : {"tiny-a", "tiny-b"})
    ExpectSameAsAlone(name, PretendedDevice(), {1, 2, 3, 4, 8}, true);
  ExpectSameAsAlone("nano", PretendedDevice(), {2}, true);
}

// The same where steps of few rows are routed there: nothing of them is planned on the host.
TEST(ExpertParallel, RowsThatAreRoutedOnDevices) {
  for (const char* name : {"tiny-a", "tiny-b"})
    ExpectSameAsAlone(name, PretendedDevice(), {1, 2, 3, 4, 8}, true, true);
  ExpectSameAsAlone("nano", PretendedDevice(), {2}, true, true);
}

void ExpectAllCounted(bool routes) {
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-a");
  const kernels::Ops& ops = routes ? PretendedDevice() : Cpu(kernels::Numerics::kFast);
  Ranks ranks{checkpoint, ops, 2, routes, routes};
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

TEST(ExpertParallel, EveryRowIsCountedForEachOfItsExperts) { ExpectAllCounted(false); }
TEST(ExpertParallel, DevicesCountRowsThatTheyRoute) { ExpectAllCounted(true); }

// What the host waits for, on this thread: bytes of the device, and all of its ops.
struct Waits {
  int64_t downloads = 0, synchronizations = 0;
};
thread_local Waits waits;

// The pretended device, whose waits are counted.
const kernels::Ops& CountingDevice() {
  static const tensor::Memory memory = [] {
    tensor::Memory made = *PretendedDevice().memory;
    made.download = [](const tensor::Stream& stream, void* to, const void* from, int64_t bytes) {
      ++waits.downloads;
      PretendedDevice().memory->download(stream, to, from, bytes);
    };
    made.synchronize = [](const tensor::Stream& stream) {
      ++waits.synchronizations;
      return PretendedDevice().memory->synchronize(stream);
    };
    return made;
  }();
  static const kernels::Ops ops = [] {
    kernels::Ops made = PretendedDevice();
    made.memory = &memory;
    return made;
  }();
  return ops;
}

// A step whose rows are routed waits for its end and its logits, and in no layer; a rank that is
// idle for the end alone. One that plans on the host does, in every layer.
TEST(ExpertParallel, TheHostWaitsInNoLayer) {
  const checkpoint::Checkpoint& checkpoint = Shipped("tiny-a");
  for (const bool routes : {true, false}) {
    comm::RunRanks(2, [&](comm::Communicator& comm) {
      QueueingRank devices(&comm);
      auto experts =
          model::ExpertParallel::Make(&comm, PlacementFor(checkpoint.config(), 2, 1), &devices,
                                      &PretendedExchange(), routes ? &PretendedRouting() : nullptr);
      const int rank = comm.rank() == 0 ? 0 : 3;  // the other has no text
      RankReader reader(checkpoint, CountingDevice(), rank, experts->get());
      ASSERT_TRUE(reader.Step().ok());  // the first of its kind: tables are sent
      const int64_t before = devices.awaited();
      waits = {};
      ASSERT_TRUE(reader.Step().ok());
      EXPECT_EQ(waits.synchronizations, 1);
      if (!routes) {
        EXPECT_GE(waits.downloads, 2 * checkpoint.config().num_hidden_layers);
        EXPECT_EQ(devices.awaited(), 0);
        return;
      }
      EXPECT_EQ(waits.downloads, comm.rank() == 0 ? 1 : 0);
      EXPECT_EQ(devices.awaited() - before, 1);
    });
  }
}

// Of the released width, through random rows: what is sent is within one per cent of the formula,
// with messages of exact length; those of a fixed capacity are longer by just what they do not use.
struct Sending {
  int64_t rows = 0;
  parallel::EpBytes sent = {}, formula = {};
  int64_t padding = 0, expected_padding = 0;
};

kernels::Ops WithoutExperts() {
  kernels::Ops ops = Cpu(kernels::Numerics::kExact);
  ops.experts = [](const kernels::ExpertsParams& p) {
    std::fill_n(p.out, p.rows * p.hidden, tensor::BF16{});
  };
  return ops;
}

std::vector<int32_t> RandomExperts(int64_t rows, int64_t topk, int64_t experts, int rank) {
  std::vector<int32_t> chosen;
  for (int64_t row = 0; row < rows; ++row) {
    const auto draw =
        base::Philox4x32({static_cast<uint32_t>(row), static_cast<uint32_t>(rank), 0, 0}, {77, 0});
    for (int64_t k = 0; k < topk; ++k)
      chosen.push_back(static_cast<int32_t>((draw[0] + k * (2 * (draw[1] % 100) + 1)) % experts));
  }
  return chosen;
}

void Send(comm::Communicator& comm, Sending* sending) {
  const auto config =
      checkpoint::Config::Load(THALWEG_SOURCE_DIR "/tests/data/released_config.json").value();
  const int64_t rows = sending->rows, topk = config.num_experts_per_tok;
  const auto shape = parallel::ShapeFor(config.n_routed_experts, comm.size(), 0);
  const parallel::Placement placement = parallel::InOrder(*shape, 1);
  auto experts = model::ExpertParallel::Make(&comm, placement);
  const auto chosen = RandomExperts(rows, topk, config.n_routed_experts, comm.rank());
  const std::vector<float> weights(chosen.size(), 0.5F);
  const std::vector<tensor::BF16> x(static_cast<size_t>(rows * config.hidden_size));
  std::vector<tensor::BF16> out(x.size());
  const std::vector<kernels::FeedForward> all(static_cast<size_t>(config.n_routed_experts));
  kernels::ExpertsParams params = {};
  params.rows = rows;
  params.hidden = config.hidden_size;
  params.topk = topk;
  params.x = x.data();
  params.chosen = chosen.data();
  params.weights = weights.data();
  params.experts = all;
  params.quantise = tensor::RowFormat::kFp8E8M0;
  params.out = out.data();
  (*experts)->Mix(0, WithoutExperts(), params);
  ASSERT_TRUE((*experts)->status().ok()) << (*experts)->status().ToString();
  if (comm.rank() != 0) return;
  const parallel::DispatchPlan plan =
      parallel::PlanDispatch({rows, topk, chosen, 0, 0},
                             parallel::ReplicaTable(placement.layers[0], shape->experts), *shape);
  sending->sent = (*experts)->bytes();
  sending->padding = (*experts)->padding_bytes();
  sending->formula = parallel::FormulaBytes(plan, 0, config.hidden_size);
  const int64_t row_bytes = tensor::RowBytes(tensor::RowFormat::kFp8E8M0, config.hidden_size);
  sending->expected_padding =
      (comm.size() - 1) * parallel::FixedMessageBytes(rows, topk, row_bytes) -
      sending->sent.dispatch;
}

TEST(ExpertParallel, BytesOfTheReleasedWidth) {
  for (const int64_t rows : {2, 300}) {
    Sending sending{.rows = rows};
    comm::RunRanks(3, [&](comm::Communicator& comm) {
      Sending others{.rows = rows};
      Send(comm, comm.rank() == 0 ? &sending : &others);
    });
    const auto sum = [](const parallel::EpBytes& b) {
      return static_cast<double>(b.dispatch + b.combine);
    };
    EXPECT_NEAR(sum(sending.sent) / sum(sending.formula), 1, 0.01) << rows;
    EXPECT_EQ(sending.padding, rows == 2 ? sending.expected_padding : 0);
  }
}

// A layer of rows of one rank, with experts that do nothing.
void MixLayer(model::ExpertParallel* experts, const kernels::Ops& ops, int layer) {
  constexpr int64_t kRows = 3, kHidden = 64;
  const std::vector<int32_t> chosen = {0, 1, 2};
  const std::vector<float> weights(chosen.size(), 1.0F);
  const std::vector<tensor::BF16> x(kRows * kHidden);
  std::vector<tensor::BF16> out(x.size());
  const std::vector<kernels::FeedForward> all(4);
  kernels::ExpertsParams params = {};
  params.rows = kRows;
  params.hidden = kHidden;
  params.topk = 1;
  params.x = x.data();
  params.chosen = chosen.data();
  params.weights = weights.data();
  params.experts = all;
  params.quantise = tensor::RowFormat::kFp8E8M0;
  params.out = out.data();
  experts->Mix(layer, ops, params);
  EXPECT_TRUE(experts->status().ok()) << experts->status().ToString();
}

// Rank 1 sends its rows of the second layer only when rank 0's shared expert of that layer has run:
// if it ran behind the transfer, both would wait for ever.
TEST(ExpertParallel, TheSharedExpertRunsWhileRowsAreOnTheirWay) {
  static std::atomic<int> shared_runs;  // of rank 0
  static thread_local bool counts;
  shared_runs = 0;
  kernels::Ops ops = Cpu(kernels::Numerics::kExact);
  ops.experts = [](const kernels::ExpertsParams& p) {
    if (p.topk == 0 && counts) ++shared_runs;
  };
  comm::RunRanks(2, [&](comm::Communicator& comm) {
    counts = comm.rank() == 0;
    auto experts =
        model::ExpertParallel::Make(&comm, parallel::InOrder(*parallel::ShapeFor(4, 2, 0), 3));
    (*experts)->SetCut(2);
    MixLayer(experts->get(), ops, 0);
    const auto began = std::chrono::steady_clock::now();
    const auto waited = [&] { return std::chrono::steady_clock::now() - began; };
    while (comm.rank() == 1 && shared_runs < 2 && waited() < std::chrono::seconds(2))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_LT(waited(), std::chrono::seconds(2)) << "the shared expert waits for rows";
    MixLayer(experts->get(), ops, 1);
  });
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
