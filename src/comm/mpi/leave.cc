// What a process knows of its launcher, with MPI or without.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "base/env.h"
#include "comm/mpi/session.h"

namespace thalweg::comm {
namespace {

// mpirun kills the other ranks as soon as one has left with an error; they have this long to say
// what they know.
constexpr Milliseconds kLastWords{300};

}  // namespace

// What launchers set for all that they start: mpirun of OpenMPI; srun and others that speak PMIx or
// PMI. A size of one, where it is said, is a process that runs alone.
bool LaunchedByMpi() {
  const auto is_set = [](const char* name) { return base::ReadEnvironment(name).has_value(); };
  if (!is_set("OMPI_COMM_WORLD_SIZE") && !is_set("PMIX_RANK") && !is_set("PMI_RANK")) return false;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) {
    const std::optional<std::string> size = base::ReadEnvironment(name);
    if (size.has_value()) return *size != "1";
  }
  return true;
}

void LeaveBrokenGroup(const Communicator& communicator, const Status& reason) {
  fmt::print(stderr, "thalweg: rank {}: {}\n", communicator.rank(), reason.ToString());
  std::fflush(nullptr);
  std::this_thread::sleep_for(kLastWords);
  std::_Exit(kExitRankLost);
}

}  // namespace thalweg::comm
