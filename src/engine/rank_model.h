// What one rank is made of: its threads, its share of the experts, the model and its executor.
#pragma once

#include <memory>

#include "base/thread_team.h"
#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "engine/options.h"
#include "engine/sizes.h"
#include "exec/model_executor.h"
#include "exec/timed_ops.h"
#include "model/context_parallel.h"
#include "model/expert_moves.h"
#include "model/expert_parallel.h"

namespace thalweg::engine {

struct RankModel {
  std::unique_ptr<base::ThreadTeam> team = {};
  std::unique_ptr<exec::TimedOps> timed_ops = {};        // with a trace
  std::unique_ptr<comm::Communicator> devices = {};      // of the group, where each has its own
  std::unique_ptr<model::ExpertParallel> experts = {};   // null: one rank
  std::unique_ptr<model::ContextParallel> context = {};  // null: prompts are not shared
  std::unique_ptr<exec::ModelExecutor> executor = {};
  std::unique_ptr<model::ExpertMoves> moves = {};  // null: experts stay where they are
};

// --threads are of the machine's ranks together, as far as they go: those of one. 0: the backend
// chooses.
int ThreadsOfRank(const EngineOptions& options, int ranks_here);

// The backend that options name.
Result<const kernels::Ops*> FindOps(const EngineOptions& options);

// The device of this rank, where the backend has some: this thread's from here on. And the group's
// ranks as devices: null where one has none of its own, which is logged. Every rank together.
Result<std::unique_ptr<comm::Communicator>> OpenDevices(const kernels::Ops& ops,
                                                        comm::Communicator* group, int ranks_here);

// The sizes of each of `ranks_here` that share this machine's memory and `ranks` that share the
// experts; logged.
Result<Sizes> SizesOfRank(const EngineOptions& options, const checkpoint::Config& config,
                          const kernels::Ops& ops, int ranks_here, int ranks);

// `group`: null for one rank alone. `ranks_here`: ranks that share this machine's cores. The
// checkpoint and the group outlive the rank.
Result<RankModel> MakeRank(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
                           const Sizes& sizes, comm::Communicator* group, int ranks_here);

// Whatever changes the bits of a cached row.
std::string CacheIdentity(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
                          const kernels::Ops& ops);

}  // namespace thalweg::engine
