// For tests: ranks that are threads of one process share one GPU, which works in the host's memory,
// so that groups of threads may stand in for NCCL. A program with it is linked with
// --wrap=cudaFuncSetAttribute: what one thread allows a kernel another does not take back.
#pragma once

#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

const Ops& CudaOpsInHostMemory();

}  // namespace thalweg::kernels::cuda
