#include "kernels/backends.h"

#include <fmt/format.h>

#include "kernels/cpu/targets.h"
#ifdef THALWEG_HAS_CUDA
#include "kernels/cuda/memory.h"
#include "kernels/cuda/ops.h"
#endif

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

#ifdef THALWEG_HAS_CUDA
constexpr std::string_view kKnown = "reference, cpu, cuda";

void AddDeviceBackends(std::vector<BackendInfo>* backends) {
  const Status status = cuda::DeviceStatus();
  backends->push_back({"cuda", status.ok() ? cuda::DeviceName() : "no device here",
                       "kernels for NVIDIA devices", status.ok() ? &cuda::CudaOps() : nullptr});
}

Result<const Ops*> DeviceBackend(Numerics numerics) {
  TW_TRY(cuda::DeviceStatus());
  return &cuda::CudaOps(numerics);
}
#else
constexpr std::string_view kKnown = "reference, cpu";

void AddDeviceBackends(std::vector<BackendInfo>* /*backends*/) {}

Result<const Ops*> DeviceBackend(Numerics /*numerics*/) {
  return base::NotFound(
      fmt::format("this build has no backend \"cuda\" (it is built where nvcc is found); known "
                  "backends: {}",
                  kKnown));
}
#endif

}  // namespace

std::vector<CpuTarget> CpuTargets() {
  std::vector<CpuTarget> targets;
  for (const cpu::TargetRow& row : cpu::TargetTable()) {
    targets.push_back({.name = row.name, .supported = row.supported()});
    if (!targets.back().supported) continue;
    // The code that makes a table is compiled for the target, too.
    targets.back().ops = &row.ops(Numerics::kExact);
    targets.back().fast = &row.ops(Numerics::kFast);
  }
  return targets;
}

const ExchangeOps& HostExchangeOps() {
  static const ExchangeOps& best = [&]() -> const ExchangeOps& {
    const cpu::TargetRow* chosen = &cpu::TargetTable().front();
    for (const cpu::TargetRow& row : cpu::TargetTable())
      if (row.supported()) chosen = &row;
    return chosen->exchange();
  }();
  return best;
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
  std::vector<BackendInfo> backends = {
      {"reference", "any", "plain readable bodies, the oracle", &ReferenceOps()},
      {"cpu", std::string(BestTarget().name), "fast bodies for processors", &CpuOps()}};
  AddDeviceBackends(&backends);
  return backends;
}

Result<const Ops*> FindBackend(const BackendChoice& choice) {
  if (choice.name == "cpu") {
    if (choice.target.empty()) return &CpuOps(choice.numerics);
    return CpuOps(choice.target, choice.numerics);
  }
  if (choice.name != "reference" && choice.name != "cuda") {
    return base::NotFound(
        fmt::format("no backend \"{}\"; known backends: {}", choice.name, kKnown));
  }
  if (!choice.target.empty()) {
    return base::InvalidArgument(
        fmt::format("the {} backend has no cpu targets; use --backend cpu", choice.name));
  }
  if (choice.name == "cuda") return DeviceBackend(choice.numerics);
  if (choice.numerics != Numerics::kExact) {
    return base::InvalidArgument(
        "the reference backend has exact numerics alone; use --backend cpu or cuda");
  }
  return &ReferenceOps();
}

}  // namespace thalweg::kernels
