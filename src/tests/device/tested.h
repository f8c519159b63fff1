// The device that launched steps are tested on: a real one, or a processor that pretends.
#pragma once

#include <string>

#include "kernels/ops.h"

namespace thalweg::tests {

struct Tested {
  const kernels::Ops* device = nullptr;  // null: there is none, `missing` says why
  const kernels::Ops* plain = nullptr;   // runs the steps that it is compared with
  bool graphs = false;
  std::string missing = {};
};

const Tested& TestedDevice();

}  // namespace thalweg::tests
