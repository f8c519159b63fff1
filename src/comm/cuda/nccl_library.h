// NCCL, found when it is needed: a program built with it also runs where there is none.
#pragma once

#include <nccl.h>

#include "base/status.h"

namespace thalweg::comm {

struct NcclLibrary {
  decltype(&ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
  decltype(&ncclCommSplit) split = nullptr;  // null before version 2.18
};

// Loaded once for the process; the error says what is missing.
Result<const NcclLibrary*> LoadNccl();

}  // namespace thalweg::comm
