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

bool LaunchedByMpi() {
  return base::ReadEnvironment("OMPI_COMM_WORLD_SIZE").has_value() ||
         base::ReadEnvironment("PMIX_RANK").has_value() ||
         base::ReadEnvironment("PMI_RANK").has_value();
}

void LeaveBrokenGroup(const Communicator& communicator, const Status& reason) {
  fmt::print(stderr, "thalweg: rank {}: {}\n", communicator.rank(), reason.ToString());
  std::fflush(nullptr);
  std::this_thread::sleep_for(kLastWords);
  std::_Exit(kExitRankLost);
}

}  // namespace thalweg::comm
