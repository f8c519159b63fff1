// What a device does at best, measured on it.
#pragma once

#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

const DeviceGauges& CudaGauges();

}  // namespace thalweg::kernels::cuda
