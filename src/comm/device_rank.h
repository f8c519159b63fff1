// The ranks of a group as devices, where each has one of its own.
#pragma once

#include <memory>

#include "comm/communicator.h"

namespace thalweg::comm {

// Every rank of `control` calls this. device: its own, by number in this process; negative: it has
// none, or shares one. Null where a rank has none or cannot reach those of others (no NCCL in the
// build or on its host); *why says what is missing on this rank then, or that another lacks it.
// Messages of the new group lie in device memory (cuda/nccl_rank.h); `control` outlives it. Errors:
// those of the group, what NCCL says when it begins.
Result<std::unique_ptr<Communicator>> JoinDevices(Communicator* control, int device, Status* why);

}  // namespace thalweg::comm
