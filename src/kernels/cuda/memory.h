// The memory of a CUDA device as the model sees it.
#pragma once

#include <string>

#include "base/status.h"
#include "tensor/memory.h"

namespace thalweg::kernels::cuda {

const tensor::Memory& CudaMemory();

// Why no device can be used here; kOk when one can.
Status DeviceStatus();
// What a person is told of the device, "NVIDIA H200"; empty without one.
std::string DeviceName();

}  // namespace thalweg::kernels::cuda
