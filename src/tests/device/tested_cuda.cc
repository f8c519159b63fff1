#include "kernels/backends.h"
#include "tests/device/tested.h"

namespace thalweg::tests {

const Tested& TestedDevice() {
  static const Tested tested = [] {
    const auto found = kernels::FindBackend({.name = "cuda"});
    if (!found.ok()) return Tested{.missing = std::string(found.status().message())};
    return Tested{.device = *found, .plain = *found, .graphs = true};
  }();
  return tested;
}

}  // namespace thalweg::tests
