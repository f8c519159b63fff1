#include "kernels/devices.h"

#include <fmt/format.h>

#include "kernels/exchange.h"
#include "kernels/routed_exchange.h"

#ifdef THALWEG_HAS_CUDA
#include "kernels/cuda/chosen_device.h"
#include "kernels/cuda/exchange_ops.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/routed_exchange.h"
#endif

namespace thalweg::kernels {

#ifdef THALWEG_HAS_CUDA

int DeviceCount(const Ops& ops) {
  return ops.memory == &cuda::CudaMemory() ? cuda::DeviceCount() : 0;
}

Status UseDevice(const Ops& ops, int device, bool whole_process) {
  const int count = DeviceCount(ops);
  if (count == 0) return {};
  if (device < 0 || device >= count)
    return base::InvalidArgument(
        fmt::format("there is no device {}: this process sees {}", device, count));
  return cuda::ChooseDevice(device, whole_process);
}

const ExchangeOps* ExchangeOpsOf(const Ops& ops) {
  return ops.memory == &cuda::CudaMemory() ? &cuda::CudaExchangeOps() : nullptr;
}

const RoutedExchange* RoutedExchangeOf(const Ops& ops) {
  return ops.memory == &cuda::CudaMemory() ? &cuda::CudaRoutedExchange() : nullptr;
}

#else

int DeviceCount(const Ops& /*ops*/) { return 0; }
Status UseDevice(const Ops& /*ops*/, int /*device*/, bool /*whole_process*/) { return {}; }
const ExchangeOps* ExchangeOpsOf(const Ops& /*ops*/) { return nullptr; }
const RoutedExchange* RoutedExchangeOf(const Ops& /*ops*/) { return nullptr; }

#endif

}  // namespace thalweg::kernels
