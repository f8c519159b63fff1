// The ranks of an engine: threads of this process (--ranks), or processes that mpirun started. Rank
// 0 plans and serves; the others run their parts of every step (exec/ranks.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/options.h"
#include "engine/rank_model.h"
#include "exec/ranks.h"

namespace thalweg::engine {

// What rank 0 knows of the ranks, its own included.
class Ranks {
 public:
  virtual ~Ranks() = default;
  // Lets the others make their models and take orders; rank 0 makes its own meanwhile and meets
  // them (MeetRanks).
  virtual void Begin(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
                     const Sizes& sizes) = 0;
  // Begins, and makes rank 0's model and its executor. The number of ranks is that of `group`.
  Result<RankModel> Make(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
                         const Sizes& sizes);
  virtual comm::Communicator* group() = 0;
  // Ranks of this process beside the first, for what is registered with executors; valid until the
  // engine ends.
  virtual std::vector<exec::ModelExecutor*> others() { return {}; }
  // Whether all ranks share this process's memory.
  virtual bool one_process() const = 0;
  virtual int ranks_here() const = 0;
};

// Threads. They are started by Begin and end when rank 0 says so.
std::unique_ptr<Ranks> MakeRankThreads(int ranks);

// The ranks that options and the launch of this process name. Null: one rank alone. Errors: both
// name some.
Result<std::unique_ptr<Ranks>> OpenRanks(const EngineOptions& options);

// One engine's other rank: makes its model as rank 0 does and takes orders until it is told to
// stop. `ready` is called when it is made.
Status RunRank(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
               const Sizes& sizes, comm::Communicator* group, int ranks_here,
               const std::function<void(exec::ModelExecutor*)>& ready);

// Returns when all ranks have come here with ok; otherwise the first error, on all of them. Waits
// for as long as others live.
Status MeetRanks(comm::Communicator* group, const Status& own);

}  // namespace thalweg::engine
