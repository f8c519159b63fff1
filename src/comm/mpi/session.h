// MPI in this process: started once, ended once, and given up when a rank is lost.
#pragma once

#include <memory>
#include <string_view>

#include "comm/communicator.h"

namespace thalweg::comm {

// Exit code of a process that leaves because another rank was lost or failed (EX_TEMPFAIL: the job
// may be started again).
inline constexpr int kExitRankLost = 75;

// Whether mpirun, srun or the like started this process as one of several.
bool LaunchedByMpi();

class MpiSession {
 public:
  // Once for a process, before it has other threads that call MPI. A start that other ranks keep
  // from ending ends the process after kMostStart with kExitRankLost and a message.
  static Result<std::unique_ptr<MpiSession>> Start(Limits limits = {});
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  // Ends the session if nobody has, and says on stderr what went wrong.
  ~MpiSession();

  // Waits for the others to end too and frees what MPI holds, world() with it. After a loss it
  // returns the error and frees nothing: what has no peer cannot be ended in order, and the process
  // goes on to LeaveBrokenGroup.
  Status End();

  // Of all processes. A thread that beats for it is stopped before the session ends.
  Communicator& world() { return *world_; }
  // Place among the ranks of this host, for pinning and for the choice of a device.
  int rank_on_host() const { return rank_on_host_; }
  int ranks_on_host() const { return ranks_on_host_; }

 private:
  struct Handles;
  MpiSession(std::unique_ptr<Handles> handles, Limits limits);

  std::unique_ptr<Handles> handles_;
  std::unique_ptr<Communicator> world_;
  int rank_on_host_ = 0;
  int ranks_on_host_ = 1;
};

// The end of a process whose group is broken: prints "rank R: message", leaves others the time to
// print theirs, and exits with kExitRankLost without running what would wait for a lost rank.
[[noreturn]] void LeaveBrokenGroup(const Communicator& communicator, const Status& reason);

}  // namespace thalweg::comm
