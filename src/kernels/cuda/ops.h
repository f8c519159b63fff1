// The CUDA backend on one device. Exact numerics add products of bf16 operands in fp32; fast ones
// add those of fp4 and fp8 weights by FP8 instructions, 32 at a time, whose sums are cut off 13
// bits below the largest product (docs/numerics.md).
#pragma once

#include "kernels/ops.h"

namespace thalweg::kernels::cuda {

const Ops& CudaOps(Numerics numerics = Numerics::kExact);

}  // namespace thalweg::kernels::cuda
