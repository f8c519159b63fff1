// What the files of this folder share: calls of MPI as Status, and the lock that serialises them.
#pragma once

#include <mpi.h>

#include <mutex>
#include <string_view>

#include "base/status.h"

namespace thalweg::comm {

// ok, or the text of MPI's error.
Status MpiStatus(int code, std::string_view call);

// MPI is initialised with MPI_THREAD_SERIALIZED: every call after that is under this lock. None
// blocks.
std::mutex& MpiMutex();

}  // namespace thalweg::comm
