#include "tools/bench/rank_links.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "comm/thread_group.h"
#include "engine/rank_model.h"
#include "hub/hub.h"
#include "model/expert_parallel.h"
#include "tools/bench/clock.h"
#include "tools/bench/costs.h"
#include "tools/bench/rank_steps.h"
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

// Of an engine's step with so many rows of one rank behind so many tokens.
struct WholeSteps {
  engine::EngineOptions options;
  int64_t repeats = 3;

  static constexpr int64_t kTokens = 24;

  // Prompts end half the steps before the context that is asked for.
  Result<double> operator()(int64_t rows, int64_t context) const {
    const StepsLoad load{.sequences = rows,
                         .prompt = std::max<int64_t>(1, context - kTokens / 2),
                         .tokens = kTokens};
    std::vector<RankSteps> runs;
    for (int64_t i = 0; i < repeats; ++i) {
      TW_ASSIGN(RankSteps run, RunRankSteps(options, load));
      runs.push_back(std::move(run));
    }
    return MeanBusyUs(LeastOfRuns(runs));
  }
};

// One rank of one thread; a file of counts makes it one of a group.
engine::EngineOptions OptionsOfOne(const engine::EngineOptions& base, const std::string& counts) {
  engine::EngineOptions options = base;
  options.ranks = 1;
  options.threads = 1;
  options.expert_spare = 0;
  options.expert_placement.clear();
  options.rebalance_window = 0;
  options.expert_counts = counts;
  return options;
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

Result<checkpoint::Checkpoint> OpenForSteps(const engine::EngineOptions& options) {
  TW_ASSIGN(hub::HubOptions hub, hub::HubOptions::FromEnvironment());
  hub.offline = true;
  TW_ASSIGN(const std::filesystem::path folder, hub::FindModel(options.model, hub));
  return checkpoint::Checkpoint::Open(folder, {.draft = false, .vision = false});
}

CostsOptions CostsAround(const std::vector<int64_t>& batches, int64_t context) {
  std::set<int64_t> sizes = {1};
  for (const int64_t batch : batches)
    for (const int64_t size : {batch * 3 / 4, batch * 3 / 2})
      if (size > 0 && std::find(batches.begin(), batches.end(), size) == batches.end())
        sizes.insert(size);
  return {.source = "bench ranks-decode",
          .batches = {sizes.begin(), sizes.end()},
          .contexts = {std::max<int64_t>(16, context / 2), 2 * context},
          .chunks = {16, 32, 64}};
}

Result<sim::Costs> CostsOfRank(const engine::EngineOptions& options,
                               const checkpoint::Checkpoint& checkpoint, bool exchange,
                               CostsOptions what, int64_t repeats) {
  TW_ASSIGN(const kernels::Ops* ops, engine::FindOps(options));
  const base::ThreadTeam team(1, base::Pinning::kOff);
  const checkpoint::Config& config = checkpoint.config();
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
  if (exchange) model_options.expert_parallel = experts.get();
  const CountsFile counts;
  what.step_us = WholeSteps{OptionsOfOne(options, exchange ? counts.path() : ""), repeats};
  TW_ASSIGN(const auto model, model::Model::Load(checkpoint, model_options));
  TW_ASSIGN(const Json json, MeasureCosts(*model, trace, what));
  return sim::ParseCosts(json.dump(), "measured costs");
}

Result<sim::Prediction> PredictDecode(const checkpoint::Config& config, const sim::Costs& costs,
                                      const sim::Link& link, const parallel::ExpertCounts& counts,
                                      const RankLoad& load) {
  sim::Cluster cluster;
  cluster.model = ShapeOf(config);
  cluster.costs = costs;
  cluster.counts = counts;
  cluster.node_ranks = load.ranks;
  cluster.in_node = link;
  cluster.between_nodes = link;
  cluster.decode = {
      .ranks = load.ranks, .batches = {load.batch}, .context = static_cast<double>(load.context)};
  TW_ASSIGN(std::vector<sim::Prediction> all, sim::Predict(cluster));
  return std::move(all.front());
}

}  // namespace thalweg::tools::bench
