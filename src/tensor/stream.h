// Where an op runs: the CPU team, or a device queue behind an opaque handle (no device header leaks
// out).
#pragma once

#include "base/thread_team.h"

namespace thalweg::tensor {

struct Stream {
  const base::ThreadTeam* team = nullptr;  // CPU backends
  void* device = nullptr;                  // a device backend's queue
};

}  // namespace thalweg::tensor
