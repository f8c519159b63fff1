// The CUDA backend: exact numerics on one device.
#pragma once

#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

const Ops& CudaOps();

}  // namespace thalweg::kernels::cuda
