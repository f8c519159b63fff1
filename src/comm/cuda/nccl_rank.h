// A rank that is a GPU: messages lie in its memory and travel by NCCL. What is said beside them,
// pulses and losses, goes over a group on the host of the same ranks.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace thalweg::comm {

// Every rank of `control` calls this with its own device (ordinal of this process). Operations of
// the new group run in order on a stream of their own; buffers must be ready on the device when an
// operation is called and are when it returns. Sum is not for device memory. `control` outlives it,
// and a loss there is one here. Errors: no NCCL, no such device, what NCCL says.
Result<std::unique_ptr<Communicator>> MakeNcclRank(Communicator* control, int device);

// How many GPUs this process sees; 0 where there is no driver.
int GpuCount();

}  // namespace thalweg::comm
