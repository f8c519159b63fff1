#include "engine/rank_model.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/machine.h"
#include "base/math.h"
#include "base/sha256.h"
#include "comm/device_rank.h"
#include "engine/drafts.h"
#include "engine/expert_places.h"
#include "engine/rank_process.h"
#include "kernels/devices.h"
#include "kernels/exchange.h"

namespace thalweg::engine {
namespace {

void LogSizes(const Sizes& sizes, int64_t free_bytes) {
  const auto mib = [](int64_t bytes) { return bytes >> 20; };
  const model::MemoryPlan& plan = sizes.memory;
  spdlog::info(
      "memory in MiB: {} free; weights {} mapped, {} packed; cache of {} tokens {}; {} checkpoints "
      "{}; sequences {}; workspace {}; a device's own {}",
      mib(free_bytes), mib(plan.weights_mapped), mib(plan.packed_weights), sizes.cache_tokens,
      mib(plan.cache_blocks), sizes.checkpoints, mib(plan.checkpoints), mib(plan.sequence_slots),
      mib(plan.workspace), mib(plan.device_work));
}

model::ModelOptions ModelOptionsOf(const EngineOptions& options) {
  model::ModelOptions model;
  model.max_rows = options.max_rows;
  model.max_sequences = options.max_sequences;
  model.repack = options.repack;
  model.graphs = options.graphs;
  model.context_ranks = options.context_ranks;
  return model;
}

// Ranks differ in what steps cost, and all of them would have to measure together.
EngineOptions DraftOptionsOf(const EngineOptions& options, bool alone) {
  EngineOptions out = options;
  if (alone || !options.draft_costs || options.draft_tokens == 0) return out;
  spdlog::warn("several ranks do not measure what steps cost: whole blocks are drafted always");
  out.draft_costs = false;
  return out;
}

// Ranks of one host have a device each; processes share them where there are too few. The answer is
// the rank's own device; -1: it has none of its own.
Result<int> ChooseDevice(const kernels::Ops& ops, const comm::Communicator* group, int ranks_here) {
  const int devices = kernels::DeviceCount(ops);
  if (devices == 0 || group == nullptr) return -1;
  const RankProcess* process = RankProcess::Running();
  if (process == nullptr && ranks_here > devices)
    return base::InvalidArgument(fmt::format(
        "--ranks {} with {} device(s): ranks of one process have a device each; ask for "
        "fewer, or start processes with mpirun, which may share one",
        ranks_here, devices));
  const int here = process != nullptr ? process->rank_on_host() : group->rank();
  const int device = here % devices;
  spdlog::info("rank {} of {} works on device {} of {}", group->rank(), group->size(), device,
               devices);
  TW_TRY(kernels::UseDevice(ops, device, process != nullptr));
  return ranks_here <= devices ? device : -1;
}

// Ranks that share the memory that is asked for.
int SharersOf(const kernels::Ops& ops, int ranks) {
  const int devices = kernels::DeviceCount(ops);
  return devices == 0 ? ranks : base::CeilDiv(ranks, devices);
}

Status AddExperts(const EngineOptions& options, const checkpoint::Config& config,
                  comm::Communicator* group, RankModel* rank) {
  if (group == nullptr) return {};
  TW_ASSIGN(parallel::Placement placement, FirstPlacement(options, config, group));
  TW_ASSIGN(rank->experts,
            model::ExpertParallel::Make(group, std::move(placement), rank->devices.get()));
  rank->experts->SetQueued(options.queued_steps);
  return {};
}

// Packed experts of a rank: those of its slots, and where experts move one layer's slots more.
Result<int64_t> ExpertBlocks(const EngineOptions& options, const checkpoint::Config& config,
                             int ranks) {
  TW_ASSIGN(const int64_t slots, SlotsOfRank(options, config, ranks));
  const int64_t layers = config.num_hidden_layers;
  return slots * (layers + (options.rebalance_window > 0 ? 1 : 0));
}

// The ranks that this one shares the rows of prompts with: consecutive ones (parallel/mesh.h).
Status AddContext(const EngineOptions& options, comm::Communicator* group, RankModel* rank,
                  model::ModelOptions* model) {
  const int ranks = group == nullptr ? 1 : group->size();
  if (options.context_ranks > ranks)
    return base::InvalidArgument(fmt::format(
        "--context-ranks {} of {} ranks: as many at most; --ranks or mpirun starts more",
        options.context_ranks, ranks));
  if (options.context_ranks == 1) return {};
  TW_ASSIGN(const parallel::Mesh mesh,
            parallel::Mesh::Make({ranks, static_cast<int>(options.context_ranks)}));
  const parallel::Group own = mesh.AttentionGroupOf(group->rank());
  model->context_ranks = own.size;
  if (group->rank() == 0) spdlog::info("{}", mesh.Describe());
  if (own.size == 1) return {};
  TW_ASSIGN(rank->context, model::ContextParallel::Make(group, own, {}, rank->devices.get()));
  model->context_parallel = rank->context.get();
  return {};
}

// What this rank reads of the experts.
void LogShare(const model::ExpertParallel& experts, const model::Model& model,
              const comm::Communicator& group) {
  const checkpoint::Config& c = model.config();
  int64_t held = 0;
  for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
    for (int64_t e = 0; e < c.n_routed_experts; ++e)
      held += experts.Holds(static_cast<int>(layer), e) ? 1 : 0;
  spdlog::info("rank {} of {}: {} of {} experts; {} bytes of weights laid out anew", group.rank(),
               group.size(), held, c.num_hidden_layers * c.n_routed_experts, model.packed_bytes());
}

}  // namespace

int ThreadsOfRank(const EngineOptions& options, int ranks_here) {
  if (ranks_here == 1) return options.threads;
  const int threads = options.threads > 0 ? options.threads : base::AvailableProcessors();
  return std::max(1, threads / ranks_here);
}

Result<const kernels::Ops*> FindOps(const EngineOptions& options) {
  return kernels::FindBackend(
      {.name = options.backend, .numerics = options.numerics, .target = options.cpu_target});
}

Result<std::unique_ptr<comm::Communicator>> OpenDevices(const kernels::Ops& ops,
                                                        comm::Communicator* group, int ranks_here) {
  TW_ASSIGN(const int device, ChooseDevice(ops, group, ranks_here));
  std::unique_ptr<comm::Communicator> devices;
  if (group == nullptr || group->size() == 1 || kernels::ExchangeOpsOf(ops) == nullptr)
    return devices;
  Status why;
  TW_ASSIGN(devices, comm::JoinDevices(group, device, &why));
  if (devices == nullptr)
    spdlog::warn("rows go from rank to rank through host memory: {}", why.message());
  return devices;
}

Result<Sizes> SizesOfRank(const EngineOptions& options, const checkpoint::Config& config,
                          const kernels::Ops& ops, int ranks_here, int ranks) {
  model::ModelOptions model = ModelOptionsOf(options);
  model.ops = &ops;
  if (ranks > 1) {
    TW_ASSIGN(model.expert_blocks, ExpertBlocks(options, config, ranks));
  }
  const int64_t all = ops.memory->free_bytes();
  const int64_t free_bytes = all < 0 ? all : all / SharersOf(ops, ranks_here);
  TW_ASSIGN(const Sizes sizes, ChooseSizes(config, options, model, free_bytes));
  LogSizes(sizes, free_bytes);
  return sizes;
}

Result<RankModel> MakeRank(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
                           const Sizes& sizes, comm::Communicator* group, int ranks_here) {
  RankModel rank;
  TW_ASSIGN(const kernels::Ops* ops, FindOps(options));
  TW_ASSIGN(rank.devices, OpenDevices(*ops, group, ranks_here));
  rank.team =
      std::make_unique<base::ThreadTeam>(ThreadsOfRank(options, ranks_here), options.pinning);
  TW_TRY(AddExperts(options, checkpoint.config(), group, &rank));
  model::ModelOptions model = ModelOptionsOf(options);
  model.ops = ops;
  model.team = rank.team.get();
  model.expert_parallel = rank.experts.get();
  model.experts_move = group != nullptr && options.rebalance_window > 0;
  TW_TRY(AddContext(options, group, &rank, &model));
  const bool first = group == nullptr || group->rank() == 0;
  if (first && !options.trace_file.empty()) {
    TW_ASSIGN(rank.timed_ops, exec::TimedOps::Make(*ops));
    model.ops = &rank.timed_ops->ops();
  }
  model.max_tokens = sizes.cache_tokens;
  model.checkpoints = sizes.checkpoints;
  TW_ASSIGN(rank.executor, exec::ModelExecutor::Create(checkpoint, model));
  if (group != nullptr) LogShare(*rank.experts, rank.executor->model(), *group);
  TW_ASSIGN(const exec::DraftOptions drafts, ChooseDrafts(DraftOptionsOf(options, group == nullptr),
                                                          CacheIdentity(options, checkpoint, *ops),
                                                          checkpoint, &rank.executor->model()));
  TW_TRY(rank.executor->SetDrafts(drafts));
  if (!model.experts_move) return rank;
  TW_ASSIGN(rank.moves, model::ExpertMoves::Make(group, rank.experts.get(), &rank.executor->model(),
                                                 rank.devices.get()));
  return rank;
}

std::string CacheIdentity(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
                          const kernels::Ops& ops) {
  const std::string text = fmt::format("1 {} {} {} {} {}", checkpoint::ToJson(checkpoint.config()),
                                       checkpoint.dir().string(), checkpoint.total_bytes(),
                                       static_cast<int>(options.numerics), ops.name);
  return base::HexOf(base::Sha256Of(text));
}

}  // namespace thalweg::engine
