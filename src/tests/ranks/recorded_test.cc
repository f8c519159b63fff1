// Ranks that are GPUs decode as one does: steps that are recorded and run again give the logits of
// each rank's text on one GPU alone, with rows of other numbers than the recording's, ranks that
// are idle, and steps of other kinds between them; and a rank that fails ends the others' steps.
// One GPU is a group of one rank: what is recorded has no messages then.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "base/thread_team.h"
#include "comm/device_rank.h"
#include "comm/test_ranks.h"
#include "kernels/cuda/ops.h"
#include "kernels/devices.h"
#include "model/expert_parallel.h"
#include "tests/invariance/checkpoints.h"

namespace thalweg::tests {
namespace {

constexpr int64_t kSteps = 40;
constexpr int64_t kMost = 200;

// Two texts at a time, in pieces of one to three rows; a wide piece and one without logits between.
// The second text of a rank is shorter, and every third rank has none but its first piece.
class Decoder {
 public:
  Decoder(const checkpoint::Checkpoint& checkpoint, int rank, model::ExpertParallel* experts,
          bool graphs)
      : team_(1), rank_(rank) {
    model::ModelOptions options = OptionsFor(kernels::cuda::CudaOps(), 1, 2, kMost);
    options.team = &team_;
    options.graphs = graphs;
    options.expert_parallel = experts;
    model_ = LoadModel(checkpoint, options);
    for (uint32_t s = 0; s < 2; ++s) {
      texts_[s] = SomeText(checkpoint.config(), kMost, 20 + 2 * static_cast<uint32_t>(rank) + s);
      ids_[s] = model_->pool().Open().value();
    }
  }

  Status Step(int64_t step) {
    std::vector<model::Chunk> chunks;
    for (size_t s = 0; s < 2; ++s) AddChunk(step, s, &chunks);
    if (chunks.empty()) return model_->Idle();
    model::StepOutput output;
    TW_TRY(model_->Step(chunks, &output));
    logits_.insert(logits_.end(), output.logits.begin(), output.logits.end());
    return {};
  }
  const std::vector<float>& logits() const { return logits_; }
  int64_t launches() const { return model_->options().ops->gauges->launches(model_->stream()); }

 private:
  void AddChunk(int64_t step, size_t s, std::vector<model::Chunk>* chunks) {
    const int64_t ends = rank_ % 3 == 2 ? 1 : (s == 0 ? kSteps : kSteps - 12 - rank_);
    const bool pauses = (step + rank_) % 7 == 3 && s == 1;
    if (step >= ends || pauses || step % 13 == 5 + rank_) return;
    const bool wide = step == 9, quiet = step == 15;
    const int64_t rows = wide ? 20 : 1 + (step / 4 + static_cast<int64_t>(s)) % 3;
    chunks->push_back({.sequence = ids_[s],
                       .tokens = std::span(texts_[s]).subspan(static_cast<size_t>(at_[s]),
                                                              static_cast<size_t>(rows)),
                       .logits = quiet ? model::LogitRows::kNone : model::LogitRows::kAll});
    at_[s] += rows;
  }

  base::ThreadTeam team_;
  int rank_;
  std::unique_ptr<model::Model> model_;
  std::vector<int32_t> texts_[2];
  kvpool::SequenceId ids_[2] = {};
  int64_t at_[2] = {};
  std::vector<float> logits_;
};

parallel::Placement PlacementFor(const checkpoint::Config& config, int ranks) {
  return parallel::InOrder(*parallel::ShapeFor(config.n_routed_experts, ranks, ranks > 1 ? 1 : 0),
                           config.num_hidden_layers);
}

// Of each rank, with its part of the experts.
void OnDevices(
    const checkpoint::Checkpoint& checkpoint, int ranks, bool graphs,
    const std::function<void(comm::Communicator&, model::ExpertParallel&, Decoder&)>& body) {
  comm::RunRanks(ranks, [&](comm::Communicator& control) {
    ASSERT_TRUE(kernels::UseDevice(kernels::cuda::CudaOps(), control.rank()).ok());
    Status why;
    auto devices = comm::JoinDevices(&control, control.rank(), &why);
    ASSERT_TRUE(devices.ok()) << devices.status().ToString();
    if (*devices == nullptr) GTEST_SKIP() << why.message();
    auto experts = model::ExpertParallel::Make(&control, PlacementFor(checkpoint.config(), ranks),
                                               devices->get());
    ASSERT_TRUE(experts.ok()) << experts.status().ToString();
    {
      Decoder decoder(checkpoint, control.rank(), experts->get(), graphs);
      body(control, **experts, decoder);
    }
    static_cast<void>(control.Barrier());
  });
}

std::vector<float> LogitsAlone(const checkpoint::Checkpoint& checkpoint, int rank) {
  Decoder decoder(checkpoint, rank, nullptr, false);
  for (int64_t step = 0; step < kSteps; ++step) {
    // A rank that is alone has no idle steps.
    const Status status = decoder.Step(step);
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
  return decoder.logits();
}

int DeviceCount() { return kernels::DeviceCount(kernels::cuda::CudaOps()); }

void ExpectSameAsAlone(const std::string& name, bool graphs) {
  const checkpoint::Checkpoint& checkpoint = Shipped(name);
  for (int ranks = 1; ranks <= std::min(DeviceCount(), 4); ++ranks) {
    std::vector<std::vector<float>> alone;
    for (int r = 0; r < ranks; ++r) alone.push_back(LogitsAlone(checkpoint, r));
    OnDevices(checkpoint, ranks, graphs,
              [&](comm::Communicator& control, model::ExpertParallel&, Decoder& decoder) {
                for (int64_t step = 0; step < kSteps; ++step) {
                  const Status status = decoder.Step(step);
                  ASSERT_TRUE(status.ok()) << "step " << step << ": " << status.ToString();
                }
                const std::vector<float>& mine = decoder.logits();
                const std::vector<float>& one = alone[static_cast<size_t>(control.rank())];
                ASSERT_EQ(mine.size(), one.size());
                EXPECT_EQ(std::memcmp(mine.data(), one.data(), one.size() * sizeof(float)), 0)
                    << name << ", rank " << control.rank() << " of " << ranks;
              });
  }
}

TEST(RecordedRanks, DeviStepsOnTheQueueAreThoseOfOneGpu) {
  for (const char* name : {"tiny-a", "tiny-b", "nano"}) ExpectSameAsAlone(name, false);
}

TEST(RecordedRanks, DeviRecordedStepsAreThoseOfOneGpu) {
  for (const char* name : {"tiny-a", "tiny-b", "nano"}) ExpectSameAsAlone(name, true);
}

// A rank that fails when it has agreed on a step, whose recording on the other GPU waits for it.
TEST(RecordedRanks, DeviALossEndsARecordedStep) {
  if (DeviceCount() < 2) GTEST_SKIP() << "one GPU";
  OnDevices(
      Shipped("tiny-a"), 2, true,
      [](comm::Communicator& control, model::ExpertParallel& experts, Decoder& decoder) {
        for (int64_t step = 0; step < 8; ++step) ASSERT_TRUE(decoder.Step(step).ok());
        if (control.rank() == 1) {
          EXPECT_TRUE(experts.AgreeOnStep({.most_rows = 128, .few = true, .records = true}).routes);
          control.Fail(base::ResourceExhausted("no memory"));
          // As ranks of one process do (engine/ranks.cc): its memory ends when no GPU is busy.
          return std::this_thread::sleep_for(std::chrono::seconds(1));
        }
        const auto began = std::chrono::steady_clock::now();
        const Status status = decoder.Step(8);
        EXPECT_NE(status.message().find("rank 1 failed: resource exhausted: no memory"),
                  std::string::npos)
            << status.ToString();
        EXPECT_FALSE(decoder.Step(9).ok());
        EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(8));
      });
}

// Milliseconds of a step of `rows` sequences that decode, from call to logits.
double StepMs(model::Model* model, int64_t rows) {
  std::vector<kvpool::SequenceId> ids;
  for (int64_t s = 0; s < rows; ++s) ids.push_back(model->pool().Open().value());
  const std::vector<int32_t> token = {7};
  model::StepOutput output;
  std::vector<double> ms;
  for (int step = 0; step < 60; ++step) {
    std::vector<model::Chunk> chunks;
    for (const kvpool::SequenceId id : ids) chunks.push_back({.sequence = id, .tokens = token});
    const auto began = std::chrono::steady_clock::now();
    EXPECT_TRUE(model->Step(chunks, &output).ok());
    ms.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
                     .count());
  }
  for (const kvpool::SequenceId id : ids) model->pool().Close(id);
  std::sort(ms.begin(), ms.end());
  return ms[ms.size() / 2];
}

// experts: null: one GPU alone.
void PrintSteps(const comm::Communicator& control, model::ExpertParallel* experts, bool graphs) {
  const base::ThreadTeam team(1);
  model::ModelOptions options = OptionsFor(kernels::cuda::CudaOps(), 1, 64, 128);
  options.max_rows = 512;
  options.team = &team;
  options.graphs = graphs;
  options.expert_parallel = experts;
  const auto model = LoadModel(Shipped("nano"), options);
  for (const int64_t rows : {1, 8, 64}) {
    const double ms = StepMs(model.get(), rows);
    if (control.rank() != 0) continue;
    fmt::print("{} GPUs, {}, {}: {:2} rows a GPU, {:.3f} ms a step\n", control.size(),
               experts != nullptr ? "experts shared" : "alone",
               graphs ? "recorded" : "not recorded", rows, ms);
  }
}

// Prints what a decode step of nano takes: one GPU, and ranks, recorded or not.
TEST(RecordedRanks, DeviWhatAStepTakes) {
  for (int ranks = 1; ranks <= std::min(DeviceCount(), 4); ++ranks) {
    OnDevices(Shipped("nano"), ranks, false,
              [](comm::Communicator& control, model::ExpertParallel& experts, Decoder&) {
                for (const bool graphs : {false, true}) {
                  if (control.size() == 1) PrintSteps(control, nullptr, graphs);
                  PrintSteps(control, &experts, graphs);
                }
              });
  }
}

}  // namespace
}  // namespace thalweg::tests
