// Ranks of a command that runs its model itself, a step at a time and without an engine (thalweg
// run and score): the others go through every forward with it, for the experts of its rows lie on
// all of them.
#pragma once

#include <memory>

#include "checkpoint/checkpoint.h"
#include "engine/options.h"
#include "engine/ranks.h"
#include "model/expert_parallel.h"

namespace thalweg::engine {

class ForwardRanks {
 public:
  // Null: this process runs alone. Otherwise the others, threads or processes, make what they share
  // of the model meanwhile. The checkpoint, which rank 0 has opened, outlives this. Errors: ranks
  // that have opened another one, too many ranks.
  static Result<std::unique_ptr<ForwardRanks>> Start(const EngineOptions& options,
                                                     const checkpoint::Checkpoint& checkpoint);
  // What rank 0's model is loaded with; it ends before this.
  void Lead(model::ModelOptions* model);
  // Returns when all ranks have theirs. `made`: whether rank 0's is there.
  Status Meet(const Status& made) { return MeetRanks(ranks_->group(), made); }
  // Of rank 0's team.
  int threads() const;
  // Tells the others to stop.
  ~ForwardRanks();

 private:
  ForwardRanks(EngineOptions options, std::unique_ptr<Ranks> ranks);

  EngineOptions options_;
  std::unique_ptr<Ranks> ranks_;
  std::unique_ptr<comm::Communicator> devices_;
  std::unique_ptr<model::ExpertParallel> experts_;
};

// What the others of such a command need of its options: a model without caches to speak of.
EngineOptions OptionsOfFollower(EngineOptions options);
Sizes SizesOfFollower();

}  // namespace thalweg::engine
