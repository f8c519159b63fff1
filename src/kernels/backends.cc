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

const Ops* OpsOf(const CpuTarget& target, Numerics numerics) {
  return numerics == Numerics::kExact ? target.ops : target.fast;
}

}  // namespace

std::vector<CpuTarget> CpuTargets() {
  std::vector<CpuTarget> targets;
  for (const cpu::TargetRow& row : cpu::TargetTable()) {
    targets.push_back(
        {row.name, row.supported(), &row.ops(Numerics::kExact), &row.ops(Numerics::kFast)});
  }
  return targets;
}

const Ops& CpuOps(Numerics numerics) { return *OpsOf(BestTarget(), numerics); }

Result<const Ops*> CpuOps(std::string_view name, Numerics numerics) {
  const std::vector<CpuTarget> targets = CpuTargets();
  for (const CpuTarget& target : targets) {
    if (target.name == name && target.supported) return OpsOf(target, numerics);
  }
  return base::Unsupported(
      fmt::format("cpu target \"{}\" cannot run here; known targets: {}", name, NamesOf(targets)));
}

std::vector<BackendInfo> Backends() {
  return {{"reference", "any", "plain readable bodies, the oracle", &ReferenceOps()},
          {"cpu", std::string(BestTarget().name), "fast bodies for processors", &CpuOps()}};
}

Result<const Ops*> FindBackend(const BackendChoice& choice) {
  if (choice.name == "cpu") {
    if (choice.target.empty()) return &CpuOps(choice.numerics);
    return CpuOps(choice.target, choice.numerics);
  }
  if (choice.name != "reference") {
    return base::NotFound(
        fmt::format("no backend \"{}\"; known backends: reference, cpu", choice.name));
  }
  if (choice.numerics != Numerics::kExact || !choice.target.empty()) {
    return base::InvalidArgument(
        "the reference backend has exact numerics and no cpu targets; use --backend cpu");
  }
  return &ReferenceOps();
}

}  // namespace thalweg::kernels
