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
  std::string name;          // what FindBackend takes
  std::string target;        // the instruction set that was chosen ("avx512"), "any", or the device
  std::string about;         // one line
  const Ops* ops = nullptr;  // null: not on this machine
};

// One instruction set that the `cpu` backend was compiled for. The same source makes every target,
// and all of one Ops::sums give the same bits.
struct CpuTarget {
  std::string_view name;      // "generic", "avx2", "avx512", ...
  bool supported = false;     // by the processor that runs this
  const Ops* ops = nullptr;   // exact numerics; null where it is not supported
  const Ops* fast = nullptr;  // fast numerics; likewise
};

// Every backend of this build, with the target that CpuOps() chose.
std::vector<BackendInfo> Backends();
// Which bodies a person asked for.
struct BackendChoice {
  std::string_view name;  // "reference", "cpu" or "cuda"
  Numerics numerics = Numerics::kExact;
  std::string_view target = {};  // of the cpu backend; empty: the best of this processor
};
// An error lists what is known. Only the cpu backend has targets, and reference has no fast
// numerics; cuda is an error where this build or this machine has none.
Result<const Ops*> FindBackend(const BackendChoice& choice);

// Fast bodies for the best target of this processor, chosen once.
const Ops& CpuOps(Numerics numerics = Numerics::kExact);
// The same for a named target; an error when the build or the processor lacks it.
Result<const Ops*> CpuOps(std::string_view target, Numerics numerics = Numerics::kExact);
// All targets of this build, plainest first.
std::vector<CpuTarget> CpuTargets();

}  // namespace thalweg::kernels
