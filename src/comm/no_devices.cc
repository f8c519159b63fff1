// Where NCCL was not found when this was built: ranks that are devices meet in host memory.
#include "comm/device_rank.h"

namespace thalweg::comm {

Result<std::unique_ptr<Communicator>> JoinDevices(Communicator* /*control*/, int /*device*/,
                                                  Status* why) {
  *why = base::Unsupported("this build has no NCCL");
  return std::unique_ptr<Communicator>();
}

}  // namespace thalweg::comm
