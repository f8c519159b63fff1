// In place of the device that is pretended a real one, for the same tests. What one rank hands
// another must be ready on the device when it is handed over, as with NCCL.
#include <gtest/gtest.h>

#include "kernels/cuda/exchange_ops.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/routed_exchange.h"
#include "kernels/cuda/threads_kit.h"
#include "tests/device/pretend.h"

namespace thalweg::tests {
namespace {

// Where there is no device nothing is tested, and the reason is said.
class NeedsDevice : public testing::Environment {
  void SetUp() override {
    const Status status = kernels::cuda::DeviceStatus();
    if (!status.ok()) GTEST_SKIP() << status.message();
  }
};
const testing::Environment* const kNeedsDevice = testing::AddGlobalTestEnvironment(new NeedsDevice);

}  // namespace

const kernels::Ops& PretendedDevice() { return kernels::cuda::CudaOpsInHostMemory(); }
const kernels::ExchangeOps& PretendedExchange() { return kernels::cuda::CudaExchangeOps(); }
const kernels::RoutedExchange& PretendedRouting() { return kernels::cuda::CudaRoutedExchange(); }
bool PretendedReachesAllWeights() { return false; }

}  // namespace thalweg::tests
