#include "tools/bench/rank_neighbours.h"

#include <utility>
#include <vector>

#include "parallel/placement.h"
#include "tools/bench/synthetic.h"
#include "tools/generate.h"

namespace thalweg::tools::bench {
namespace {

constexpr int64_t kSteps = 32;  // of a sequence, which is then begun anew at its length

}  // namespace

Result<LoneRank> LoneRank::Make(const checkpoint::Checkpoint& checkpoint, const kernels::Ops& ops,
                                model::ModelOptions options, bool exchange) {
  LoneRank rank;
  rank.team = std::make_unique<base::ThreadTeam>(1, base::Pinning::kOff);
  comm::ThreadGroup group(1);
  rank.self = group.Join(0);
  const checkpoint::Config& config = checkpoint.config();
  TW_ASSIGN(const parallel::PlacementShape shape,
            parallel::ShapeFor(config.n_routed_experts, 1, 0));
  TW_ASSIGN(rank.experts, model::ExpertParallel::Make(
                              rank.self.get(), parallel::InOrder(shape, config.num_hidden_layers)));
  options.ops = &ops;
  options.team = rank.team.get();
  if (exchange) options.expert_parallel = rank.experts.get();
  TW_ASSIGN(rank.model, model::Model::Load(checkpoint, options));
  return rank;
}

Neighbour::Neighbour(LoneRank rank)
    : rank_(std::move(rank)), thread_([this](const std::stop_token& stop) { Live(stop); }) {}

Neighbour::~Neighbour() = default;

Status Neighbour::Decode(int64_t rows, int64_t context) { return Do({rows, context}); }
Status Neighbour::Rest() { return Do({}); }

Status Neighbour::Do(const Load& load) {
  std::unique_lock lock(mutex_);
  wanted_ = load;
  changed_.notify_all();
  changed_.wait(lock, [&] { return does_ == load || !status_.ok(); });
  return status_;
}

bool Neighbour::Wanted(const Load& load) {
  const std::scoped_lock lock(mutex_);
  return wanted_ == load;
}

void Neighbour::Tell(const Load& load, const Status& status) {
  const std::scoped_lock lock(mutex_);
  does_ = load;
  if (!status.ok()) status_ = status;
  changed_.notify_all();
}

void Neighbour::Live(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    Load load;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return does_ != wanted_ || wanted_.rows > 0; });
      load = wanted_;
    }
    const Status status = load.rows > 0 ? Repeat(load, stop) : Status();
    if (load.rows == 0 || !status.ok()) Tell(load, status);
    if (!status.ok()) return;
  }
}

// Steps of sequences that begin behind so many tokens.
Status Neighbour::Repeat(const Load& load, const std::stop_token& stop) {
  model::Model& model = *rank_.model;
  std::vector<ScopedSequence> sequences;
  std::vector<model::Chunk> chunks;
  std::vector<int32_t> tokens(static_cast<size_t>(load.rows));
  for (size_t i = 0; i < tokens.size(); ++i) {
    TW_ASSIGN(const kvpool::SequenceId id, OpenFilled(model, load.context, kSteps + 1));
    sequences.push_back(ScopedSequence::Adopt(model, id));
    chunks.push_back({.sequence = id, .tokens = {&tokens[i], 1}});
  }
  model::StepOutput output;
  for (int64_t step = 0; step < kSteps && Wanted(load) && !stop.stop_requested(); ++step) {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>((static_cast<int64_t>(i) * 131 + step * 17) % 4096);
    TW_TRY(model.Step(chunks, &output));
    if (step == 0) Tell(load, {});
  }
  return {};
}

}  // namespace thalweg::tools::bench
