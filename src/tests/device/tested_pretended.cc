#include "kernels/backends.h"
#include "tests/device/pretend.h"
#include "tests/device/tested.h"

namespace thalweg::tests {

const Tested& TestedDevice() {
  static const Tested tested{.device = &PretendedDevice(), .plain = &kernels::CpuOps()};
  return tested;
}

}  // namespace thalweg::tests
