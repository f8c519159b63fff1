// Programs that test processors have no device (see cuda/test_main.cc).
#include "kernels/test_kit.h"

namespace thalweg::kernels::testing {

const Ops* DeviceOps() { return nullptr; }

}  // namespace thalweg::kernels::testing
