#include <algorithm>
#include <cstdint>
#include <vector>

#include "comm/cuda/nccl_library.h"
#include "comm/cuda/nccl_rank.h"
#include "comm/device_rank.h"

namespace thalweg::comm {

Result<std::unique_ptr<Communicator>> JoinDevices(Communicator* control, int device, Status* why) {
  *why = device < 0 ? base::Unsupported("this rank has no device of its own") : LoadNccl().status();
  const uint8_t mine = why->ok() ? 1 : 0;
  std::vector<uint8_t> all(static_cast<size_t>(control->size()));
  TW_TRY(control->AllGather(std::as_bytes(std::span(&mine, 1)),
                            std::as_writable_bytes(std::span(all))));
  if (std::count(all.begin(), all.end(), uint8_t{1}) == control->size())
    return MakeNcclRank(control, device);
  if (why->ok()) *why = base::Unsupported("another rank has no device of its own, or no NCCL");
  return std::unique_ptr<Communicator>();
}

}  // namespace thalweg::comm
