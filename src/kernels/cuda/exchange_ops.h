// The device's side of kernels/exchange.h.
#pragma once

#include "kernels/exchange.h"

namespace thalweg::kernels::cuda {

const ExchangeOps& CudaExchangeOps();

}  // namespace thalweg::kernels::cuda
