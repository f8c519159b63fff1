// This process as one of several ranks that mpirun or srun started (docs/ranks.md). Rank 0 runs the
// command as it would alone; the others follow its engine.
#pragma once

#include <memory>
#include <thread>

#include "comm/agreement.h"
#include "comm/mpi/session.h"
#include "engine/options.h"
#include "engine/ranks.h"

namespace thalweg::engine {

class RankProcess {
 public:
  // Whether a launcher started this process as one of several.
  static bool Launched() { return comm::LaunchedByMpi(); }
  // Joins the others; at the beginning of the program. From now on a thread says that this process
  // lives, and ends it with comm::kExitRankLost when another one is lost: behind kLastAnswers, in
  // which requests under way are answered with an error.
  static Result<std::unique_ptr<RankProcess>> Start();
  // What Start made, until it ends; null in a process that runs alone.
  static RankProcess* Running();
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  ~RankProcess();

  comm::Communicator& world() { return session_->world(); }
  int ranks_here() const { return session_->ranks_on_host(); }
  // Place among the ranks of this host.
  int rank_on_host() const { return session_->rank_on_host(); }
  bool leads() { return world().rank() == 0; }
  // Rank 0: whether an engine has told the others what to do.
  bool led() const { return led_; }
  // Every rank calls it with what must be equal; all get the error that says who differs in what.
  Status Agree(const comm::AgreedFields& fields) { return comm::Agree(&world(), fields); }

  // The rest of a process with another rank than 0: loads its share of what rank 0's engine loads,
  // and runs its part of every step until that engine ends.
  Status Follow(const EngineOptions& options);
  // The same behind a command that runs its model itself (engine/forward_ranks.h).
  Status FollowForwards(const EngineOptions& options);
  // Tells the others why this rank cannot go on.
  void Fail(const Status& reason) { world().Fail(reason); }
  // Leaves with the others.
  Status End();
  // When something is wrong with the group, or with this rank: does not return.
  [[noreturn]] void Leave(const Status& reason);

 private:
  explicit RankProcess(std::unique_ptr<comm::MpiSession> session);
  friend std::unique_ptr<Ranks> MakeRankProcesses(RankProcess* process);
  void Watch(const std::stop_token& stop);
  void StopWatching();

  std::unique_ptr<comm::MpiSession> session_;
  bool led_ = false;
  std::jthread watch_;
};

// The ranks of a process that leads others.
std::unique_ptr<Ranks> MakeRankProcesses(RankProcess* process);

// What must be the same on all ranks beside options: the checkpoint, and where experts lie.
Result<comm::AgreedFields> IdentityOf(const EngineOptions& options,
                                      const checkpoint::Checkpoint& checkpoint);

// Whether all ranks have opened the same checkpoint: each calls it with what came of opening its
// own, which is null when that failed. The same error on all ranks.
Status AgreeOnCheckpoint(const EngineOptions& options, const Status& opened,
                         const checkpoint::Checkpoint* checkpoint);

// The smallest sizes of all ranks, which all of them have then.
Status AgreeOnSizes(comm::Communicator* group, Sizes* sizes);

}  // namespace thalweg::engine
