// `thalweg inspect kernels`: backends, the instruction sets that the cpu backend was compiled for,
// which of them this processor has, which one runs, and where the body of each op comes from.
#pragma once

#include <string>

#include "base/json.h"

namespace thalweg::tools {

std::string KernelTables();
base::Json KernelJson();

}  // namespace thalweg::tools
