// The backends of this build by name, and the targets of the `cpu` backend.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "kernels/ops.h"

namespace thalweg::kernels {

// What a person is told about a backend.
struct BackendInfo {
  std::string name;    // what FindBackend takes
  std::string target;  // the instruction set that was chosen ("avx512"), or "any"
  std::string about;   // one line
  const Ops* ops = nullptr;
};

// One instruction set that the `cpu` backend was compiled for. The same source makes every target,
// and all give the same bits.
struct CpuTarget {
  std::string_view name;   // "generic", "avx2", "avx512"
  bool supported = false;  // by the processor that runs this
  const Ops* ops = nullptr;
};

// Every backend of this build, with the target that CpuOps() chose.
std::vector<BackendInfo> Backends();
// "reference" or "cpu"; any other name is an error that lists the known ones.
Result<const Ops*> FindBackend(std::string_view name);

// Fast bodies for the best target of this processor, chosen once.
const Ops& CpuOps();
// The same for a named target; an error when the build or the processor lacks it.
Result<const Ops*> CpuOps(std::string_view target);
// All targets of this build, plainest first.
std::vector<CpuTarget> CpuTargets();

}  // namespace thalweg::kernels
