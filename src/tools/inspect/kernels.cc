#include "tools/inspect/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <span>
#include <string_view>
#include <vector>

#include "kernels/backends.h"

namespace thalweg::tools {
namespace {

using base::Json;
using kernels::CpuTarget;
using kernels::Ops;

// An instruction set beyond the baseline of the architecture, and from which target on it is used.
struct Feature {
  std::string_view name;
  std::string_view target;
  bool present = false;
};

// AMX counts as present where the operating system permits it and the rest is there.
bool Supported(std::string_view target) {
  for (const CpuTarget& known : kernels::CpuTargets()) {
    if (known.name == target) return known.supported;
  }
  return false;
}

std::vector<Feature> Features() {
#if defined(__x86_64__)
  return {{"avx2", "avx2", __builtin_cpu_supports("avx2") != 0},
          {"fma", "avx2", __builtin_cpu_supports("fma") != 0},
          {"bmi2", "avx2", __builtin_cpu_supports("bmi2") != 0},
          {"avx512f", "avx512", __builtin_cpu_supports("avx512f") != 0},
          {"avx512bw", "avx512", __builtin_cpu_supports("avx512bw") != 0},
          {"avx512cd", "avx512", __builtin_cpu_supports("avx512cd") != 0},
          {"avx512dq", "avx512", __builtin_cpu_supports("avx512dq") != 0},
          {"avx512vl", "avx512", __builtin_cpu_supports("avx512vl") != 0},
          {"avx512bf16", "avx512bf16", __builtin_cpu_supports("avx512bf16") != 0},
          {"avx512vbmi", "avx512bf16", __builtin_cpu_supports("avx512vbmi") != 0},
          {"avx512vnni", "avx512bf16", __builtin_cpu_supports("avx512vnni") != 0},
          {"amx_bf16", "amx", Supported("amx")}};
#else
  return {};
#endif
}

// What a target needs: its own features and those of the targets before it.
std::vector<Feature> FeaturesOf(std::string_view target) {
  std::vector<Feature> out;
  const std::vector<CpuTarget> targets = kernels::CpuTargets();
  for (const CpuTarget& plainer : targets) {
    for (const Feature& feature : Features()) {
      if (feature.target == plainer.name) out.push_back(feature);
    }
    if (plainer.name == target) break;
  }
  return out;
}

std::vector<std::string_view> Names(const std::vector<Feature>& features, bool missing_only) {
  std::vector<std::string_view> names;
  for (const Feature& feature : features) {
    if (!missing_only || !feature.present) names.push_back(feature.name);
  }
  return names;
}

// The body of one op in the two numerics of a target.
struct Body {
  std::string_view op;
  std::string_view exact;
  std::string_view fast;
};

// Who wrote a body shows in the table itself: a target that has none of its own for an op names the
// reference's, and an op without products has one body for both numerics. Another processor's table
// is not asked.
template <typename Entry>
Body BodyOf(std::string_view op, const CpuTarget& target, Entry entry) {
  if (!target.supported) return {op, "-", "-"};
  const auto plain = kernels::ReferenceOps().*entry;
  const auto exact = target.ops->*entry;
  const auto fast = target.fast->*entry;
  return {op, exact == plain ? "reference" : "cpu",
          fast == plain   ? "reference"
          : fast == exact ? "cpu"
                          : "cpu int8"};
}

std::vector<Body> Bodies(const CpuTarget& t) {
  return {BodyOf("embed", t, &Ops::embed),
          BodyOf("hyper_finish", t, &Ops::hyper_finish),
          BodyOf("hyper_predict", t, &Ops::hyper_predict),
          BodyOf("collapse", t, &Ops::collapse),
          BodyOf("tap", t, &Ops::tap),
          BodyOf("linear", t, &Ops::linear),
          BodyOf("grouped_linear", t, &Ops::grouped_linear),
          BodyOf("norm", t, &Ops::norm),
          BodyOf("window_rows", t, &Ops::window_rows),
          BodyOf("pool", t, &Ops::pool),
          BodyOf("store_rows", t, &Ops::store_rows),
          BodyOf("index_select", t, &Ops::index_select),
          BodyOf("attention", t, &Ops::attention),
          BodyOf("gate", t, &Ops::gate),
          BodyOf("experts", t, &Ops::experts),
          BodyOf("engram_gather", t, &Ops::engram_gather),
          BodyOf("engram_gate", t, &Ops::engram_gate),
          BodyOf("markov", t, &Ops::markov)};
}

std::string ChosenTarget() {
  for (const kernels::BackendInfo& backend : kernels::Backends()) {
    if (backend.name == "cpu") return backend.target;
  }
  return "";
}

std::string State(const CpuTarget& target) {
  if (target.name == ChosenTarget()) return "chosen";
  if (target.supported) return "supported";
  return fmt::format("not on this processor: no {}",
                     fmt::join(Names(FeaturesOf(target.name), true), ", "));
}

Json TargetJson(const CpuTarget& target) {
  Json ops = Json::object();
  for (const Body& body : Bodies(target))
    ops[std::string(body.op)] = {{"exact", body.exact}, {"fast", body.fast}};
  const std::vector<Feature> features = FeaturesOf(target.name);
  return {{"name", target.name},
          {"supported", target.supported},
          {"chosen", target.name == ChosenTarget()},
          {"instructions", Names(features, false)},
          {"missing", Names(features, true)},
          {"numerics", {"exact", "fast"}},
          {"ops", std::move(ops)}};
}

std::string TargetTable() {
  std::string out =
      fmt::format("\n{:<11} {:<12} {:<28} {}\n", "cpu target", "numerics", "state", "instructions");
  for (const CpuTarget& target : kernels::CpuTargets()) {
    const std::vector<std::string_view> names = Names(FeaturesOf(target.name), false);
    out += fmt::format("{:<11} {:<12} {:<28} {}\n", target.name, "exact, fast", State(target),
                       names.empty() ? "baseline" : fmt::format("{}", fmt::join(names, " ")));
  }
  return out;
}

std::string BodyTable() {
  const std::vector<CpuTarget> targets = kernels::CpuTargets();
  std::string out = fmt::format("\n{:<15}", "op, exact/fast");
  for (const CpuTarget& target : targets) out += fmt::format(" {:<19}", target.name);
  const size_t ops = Bodies(targets.front()).size();
  for (size_t op = 0; op < ops; ++op) {
    out += fmt::format("\n{:<15}", Bodies(targets.front())[op].op);
    for (const CpuTarget& target : targets) {
      const Body body = Bodies(target)[op];
      out += fmt::format(" {:<19}", fmt::format("{}/{}", body.exact, body.fast));
    }
  }
  return out + "\n";
}

}  // namespace

std::string KernelTables() {
  std::string out;
  for (const kernels::BackendInfo& backend : kernels::Backends())
    out += fmt::format("{:<11} {:<12} {}\n", backend.name, backend.target, backend.about);
  return out + TargetTable() + BodyTable();
}

Json KernelJson() {
  Json backends = Json::array();
  for (const kernels::BackendInfo& backend : kernels::Backends()) {
    Json one = {{"name", backend.name}, {"target", backend.target}, {"about", backend.about}};
    one["targets"] = Json::array();
    if (backend.name == "cpu") {
      for (const CpuTarget& target : kernels::CpuTargets())
        one["targets"].push_back(TargetJson(target));
    }
    backends.push_back(std::move(one));
  }
  return backends;
}

}  // namespace thalweg::tools
