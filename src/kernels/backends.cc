#include "kernels/backends.h"

#include <fmt/format.h>

#include "kernels/cpu/targets.h"

namespace thalweg::kernels {
namespace {

std::string NamesOf(const std::vector<CpuTarget>& targets) {
  std::string names;
  for (const CpuTarget& target : targets) {
    names += fmt::format("{}{}{}", names.empty() ? "" : ", ", target.name,
                         target.supported ? "" : " (not on this processor)");
  }
  return names;
}

const CpuTarget& BestTarget() {
  static const CpuTarget best = [] {
    CpuTarget chosen;
    for (const CpuTarget& target : CpuTargets()) {
      if (target.supported) chosen = target;
    }
    return chosen;
  }();
  return best;
}

}  // namespace

std::vector<CpuTarget> CpuTargets() {
  std::vector<CpuTarget> targets;
  for (const cpu::TargetRow& row : cpu::TargetTable()) {
    targets.push_back({row.name, row.supported(), &row.ops()});
  }
  return targets;
}

const Ops& CpuOps() { return *BestTarget().ops; }

Result<const Ops*> CpuOps(std::string_view name) {
  const std::vector<CpuTarget> targets = CpuTargets();
  for (const CpuTarget& target : targets) {
    if (target.name == name && target.supported) return target.ops;
  }
  return base::Unsupported(
      fmt::format("cpu target \"{}\" cannot run here; known targets: {}", name, NamesOf(targets)));
}

std::vector<BackendInfo> Backends() {
  return {{"reference", "any", "plain readable bodies, the oracle", &ReferenceOps()},
          {"cpu", std::string(BestTarget().name), "fast bodies for processors", &CpuOps()}};
}

Result<const Ops*> FindBackend(std::string_view name) {
  std::string known;
  for (const BackendInfo& backend : Backends()) {
    if (backend.name == name) return backend.ops;
    known += (known.empty() ? "" : ", ") + backend.name;
  }
  return base::NotFound(fmt::format("no backend \"{}\"; known backends: {}", name, known));
}

}  // namespace thalweg::kernels
