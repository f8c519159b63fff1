// Which of a machine's devices a thread works on, where a backend has several.
#pragma once

#include "base/status.h"
#include "kernels/ops.h"

namespace thalweg::kernels {

// How many devices a backend can choose from; 0: it works on the host.
int DeviceCount(const Ops& ops);

// What this thread takes from here on (memory, queues) is the device's, 0 to DeviceCount - 1, and
// so is what threads take that never chose, where the process has one rank (`whole_process`). Ops
// run where their stream's queue was opened, whatever thread calls them. Nothing where a backend
// has no devices. Errors: there is no such device.
Status UseDevice(const Ops& ops, int device, bool whole_process = false);

}  // namespace thalweg::kernels
