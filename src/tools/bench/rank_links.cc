#include "tools/bench/rank_links.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "comm/thread_group.h"
#include "engine/rank_model.h"
#include "hub/hub.h"
#include "model/expert_parallel.h"
#include "sim/predict.h"
#include "tools/bench/clock.h"
#include "tools/bench/costs.h"
#include "tools/bench/trace.h"

namespace thalweg::tools::bench {
namespace {

using base::Json;

constexpr int64_t kShort = 256;  // bytes
constexpr int64_t kLong = 1 << 18;
constexpr int kTurns = 200;
constexpr int kRounds = 5;

// Seconds of an exchange of so many bytes with each other rank, the fastest round.
double ExchangeSeconds(comm::Communicator& group, int64_t bytes, int turns) {
  const auto ranks = static_cast<size_t>(group.size());
  const std::vector<int64_t> each(ranks, bytes);
  std::vector<std::byte> out(ranks * static_cast<size_t>(bytes)), in(out.size());
  double least = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    static_cast<void>(group.Barrier());
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < turns; ++i) static_cast<void>(group.AllToAll(out, each, in, each));
    least = std::min(least, SecondsSince(begin) / turns);
  }
  return least;
}

std::vector<int64_t> BatchesAround(int64_t batch) {
  const std::set<int64_t> some = {std::max<int64_t>(1, batch / 2), batch, 2 * batch};
  return {some.begin(), some.end()};
}

// Costs of a model on one thread; with several ranks, of one that exchanges rows with itself.
Result<sim::Costs> CostsOf(const engine::EngineOptions& options,
                           const checkpoint::Checkpoint& checkpoint, const RankLoad& load) {
  TW_ASSIGN(const kernels::Ops* ops, engine::FindOps(options));
  const base::ThreadTeam team(1, base::Pinning::kOff);
  const checkpoint::Config& config = checkpoint.config();
  const CostsOptions what{.source = "bench ranks-decode",
                          .batches = BatchesAround(load.batch),
                          .contexts = {load.context},
                          .chunks = {16, 32, 64}};
  OpTrace trace(*ops, config.vocab_size);
  comm::ThreadGroup group(1);
  const std::unique_ptr<comm::Communicator> self = group.Join(0);
  TW_ASSIGN(const parallel::PlacementShape shape,
            parallel::ShapeFor(config.n_routed_experts, 1, 0));
  TW_ASSIGN(
      const auto experts,
      model::ExpertParallel::Make(self.get(), parallel::InOrder(shape, config.num_hidden_layers)));
  model::ModelOptions model_options;
  model_options.ops = &trace.ops();
  model_options.team = &team;
  model_options.max_sequences = what.batches.back();
  model_options.max_rows = std::max(model_options.max_sequences, what.chunks.back());
  model_options.max_tokens = CostsTokens(what);
  model_options.repack = options.repack;
  if (load.ranks > 1) model_options.expert_parallel = experts.get();
  TW_ASSIGN(const auto model, model::Model::Load(checkpoint, model_options));
  TW_ASSIGN(const Json json, MeasureCosts(*model, trace, what));
  return sim::ParseCosts(json.dump(), "measured costs");
}

sim::ModelShape ShapeOf(const checkpoint::Config& config) {
  return {.hidden = config.hidden_size,
          .experts = config.n_routed_experts,
          .topk = config.num_experts_per_tok,
          .kv_bytes = 0};
}

}  // namespace

sim::Link MeasureThreadLink(int ranks) {
  comm::ThreadGroup group(ranks);
  double quick = 0, slow = 0;
  std::vector<std::jthread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, end = std::shared_ptr(group.Join(r)), r] {
      const double small = ExchangeSeconds(*end, kShort, kTurns);
      const double large = ExchangeSeconds(*end, kLong, kTurns / 10);
      if (r == 0) quick = small, slow = large;
    });
  }
  threads.clear();
  const auto bytes = static_cast<double>((ranks - 1) * (kLong - kShort));
  return {.latency_us = quick * 1e6, .gb_per_s = bytes / std::max(slow - quick, 1e-9) / 1e9};
}

Result<double> PredictStep(const engine::EngineOptions& options, const RankLoad& load,
                           const parallel::ExpertCounts& counts) {
  TW_ASSIGN(hub::HubOptions hub, hub::HubOptions::FromEnvironment());
  hub.offline = true;
  TW_ASSIGN(const std::filesystem::path folder, hub::FindModel(options.model, hub));
  TW_ASSIGN(const auto checkpoint,
            checkpoint::Checkpoint::Open(folder, {.draft = false, .vision = false}));
  sim::Cluster cluster;
  cluster.model = ShapeOf(checkpoint.config());
  TW_ASSIGN(cluster.costs, CostsOf(options, checkpoint, load));
  cluster.counts = counts;
  cluster.node_ranks = load.ranks;
  if (load.ranks > 1) cluster.in_node = MeasureThreadLink(static_cast<int>(load.ranks));
  cluster.between_nodes = cluster.in_node;
  cluster.decode = {
      .ranks = load.ranks, .batches = {load.batch}, .context = static_cast<double>(load.context)};
  TW_ASSIGN(const std::vector<sim::Prediction> all, sim::Predict(cluster));
  return all.front().step_us / 1e3;
}

}  // namespace thalweg::tools::bench
