// The device of a thread. CUDA keeps one for each thread, 0 at first; a queue has the one that it
// was opened on, and whoever works on it is there for that long.
#pragma once

#include "base/status.h"

namespace thalweg::kernels::cuda {

inline constexpr int kMostDevices = 16;  // that have a queue for streams without one

// 0 without a driver.
int DeviceCount();
// Of this thread from here on; whole_process: of every thread that never chose.
Status ChooseDevice(int device, bool whole_process);
// The one that this thread chose, or the process; this thread is there now.
int EnterOwnDevice();
// This thread is there now. Cheap when it was.
void EnterDevice(int device);

}  // namespace thalweg::kernels::cuda
