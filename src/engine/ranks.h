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
  // Makes rank 0's model, while the others make theirs, and its executor. The number of ranks is
  // that of `group`.
  virtual Result<RankModel> Make(const EngineOptions& options,
                                 const checkpoint::Checkpoint& checkpoint, const Sizes& sizes) = 0;
  virtual comm::Communicator* group() = 0;
  // Ranks of this process beside the first, for what is registered with executors; valid until the
  // engine ends.
  virtual std::vector<exec::ModelExecutor*> others() { return {}; }
  // Whether all ranks share this process's memory.
  virtual bool one_process() const = 0;
  virtual int ranks_here() const = 0;
};

// Threads. They are started by Make and end when rank 0's executor does.
std::unique_ptr<Ranks> MakeRankThreads(int ranks);

// One engine's other rank: makes its model as rank 0 does and takes orders until it is told to
// stop. `ready` is called when it is made.
Status RunRank(const EngineOptions& options, const checkpoint::Checkpoint& checkpoint,
               const Sizes& sizes, comm::Communicator* group, int ranks_here,
               const std::function<void(exec::ModelExecutor*)>& ready);

// Returns when all ranks have come here with ok; otherwise the first error, on all of them. Waits
// for as long as others live.
Status MeetRanks(comm::Communicator* group, const Status& own);

}  // namespace thalweg::engine
