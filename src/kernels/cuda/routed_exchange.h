// The device's side of kernels/routed_exchange.h.
#pragma once

#include "kernels/routed_exchange.h"

namespace thalweg::kernels::cuda {

const RoutedExchange& CudaRoutedExchange();

}  // namespace thalweg::kernels::cuda
