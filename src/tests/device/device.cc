#include "tests/device/device.h"

#include "kernels/backends.h"

namespace thalweg::tests {

void OnDevice::SetUp() {
  const auto found = kernels::FindBackend({.name = "cuda"});
  if (!found.ok()) GTEST_SKIP() << found.status().message();
  ops_ = *found;
}

}  // namespace thalweg::tests
