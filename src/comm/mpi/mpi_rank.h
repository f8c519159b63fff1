// A rank that is a process.
#pragma once

#include <mpi.h>

#include <memory>

#include "comm/communicator.h"

namespace thalweg::comm {

// On two communicators of this rank's own, one for messages and one for pulses; the caller keeps
// them.
std::unique_ptr<Communicator> MakeMpiRank(MPI_Comm messages, MPI_Comm pulses, Limits limits);

}  // namespace thalweg::comm
