// `thalweg inspect` and `thalweg synth`: what a checkpoint is, and a random one of any shape.
#include <fmt/format.h>

#include "base/mapped_file.h"
#include "tools/command.h"
#include "tools/inspect/experts.h"
#include "tools/inspect/inspect.h"
#include "tools/inspect/kernels.h"
#include "tools/synth.h"

namespace thalweg::tools {
namespace {

int InspectKernels(bool json) {
  fmt::print("{}", json ? KernelJson().dump(2) + "\n" : KernelTables());
  return kExitOk;
}

Status SaveExperts(const ExpertReport& report, const OptionValues& values) {
  if (values.Has("save"))
    TW_TRY(base::WriteFile(values.Text("save"), parallel::ToJson(report.placement)));
  if (!values.Has("plot")) return {};
  const std::string name = values.Text("plot");
  TW_TRY(base::WriteFile(name + ".csv", ExpertCsv(report)));
  return base::WriteFile(name + ".gnuplot", ExpertPlot(report, name));
}

Result<int> InspectExpertLoads(const OptionValues& values) {
  if (values.positionals().size() < 2)
    return base::InvalidArgument("inspect experts needs a file of counts");
  TW_ASSIGN(const ExpertReport report, InspectExperts({.counts = values.positionals()[1],
                                                       .placement = values.Text("placement"),
                                                       .ranks = values.Integer("ranks"),
                                                       .spare = values.Integer("spare"),
                                                       .nodes = values.Integer("nodes")}));
  TW_TRY(SaveExperts(report, values));
  fmt::print("{}", values.Flag("json") ? ExpertJson(report).dump(2) + "\n" : ExpertTable(report));
  return kExitOk;
}

Result<int> RunInspect(const OptionValues& values) {
  const std::string& path = values.positionals().front();
  if (path == "experts") return InspectExpertLoads(values);
  if (values.positionals().size() > 1)
    return base::InvalidArgument("inspect takes one path, but for: inspect experts FILE");
  if (path == "kernels") return InspectKernels(values.Flag("json"));
  TW_TRY(Inspect({.path = path, .json = values.Flag("json"), .check = values.Flag("check")}));
  return kExitOk;
}

Result<int> RunSynth(const OptionValues& values) {
  if (!values.Has("config") || !values.Has("out"))
    return base::InvalidArgument("synth needs --config and --out");
  TW_TRY(Synth({.config = values.Text("config"),
                .out = values.Text("out"),
                .seed = static_cast<uint64_t>(values.Integer("seed")),
                .max_shard_bytes = static_cast<uint64_t>(values.Integer("shard-mib")) << 20}));
  return kExitOk;
}

}  // namespace

Command InspectCommand() {
  return {.name = "inspect",
          .about =
              "Layer table, tensors, active parameters, bytes per token and memory of a "
              "checkpoint; or the kernels; or the loads of experts",
          .options = {{.name = "check",
                       .kind = OptionKind::kFlag,
                       .help = "verify every tensor, the Engram constants and the token map"},
                      {.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"},
                      {.name = "ranks",
                       .kind = OptionKind::kInteger,
                       .help = "experts: ranks that share them",
                       .fallback = "0",
                       .least = 0,
                       .most = 4096},
                      {.name = "spare",
                       .kind = OptionKind::kInteger,
                       .help = "experts: slots of each rank for replicas",
                       .fallback = "1",
                       .least = 0,
                       .most = 4096},
                      {.name = "nodes",
                       .kind = OptionKind::kInteger,
                       .help = "experts: hosts that the ranks are on",
                       .fallback = "1",
                       .least = 1,
                       .most = 4096},
                      {.name = "placement",
                       .help = "experts: where they lie; without it, in order",
                       .value_name = "FILE"},
                      {.name = "save",
                       .help = "experts: writes the placement by load",
                       .value_name = "FILE"},
                      {.name = "plot",
                       .help = "experts: writes NAME.csv and NAME.gnuplot, which draws NAME.svg"}},
          .positionals = {.name = "PATH",
                          .help = "a checkpoint folder, a config.json, the word kernels, or "
                                  "the word experts and a file of counts",
                          .least = 1,
                          .most = 2},
          .run = RunInspect};
}

Command SynthCommand() {
  return {.name = "synth",
          .about = "Write a random checkpoint of any config, in the released formats",
          .options = {{.name = "config", .help = "config.json of the shape", .value_name = "FILE"},
                      {.name = "out", .help = "folder to make", .value_name = "DIR"},
                      {.name = "seed",
                       .kind = OptionKind::kInteger,
                       .help = "of the random weights",
                       .fallback = "0",
                       .least = 0,
                       .most = 9.2e18},
                      {.name = "shard-mib",
                       .kind = OptionKind::kInteger,
                       .help = "largest shard in MiB",
                       .fallback = "4096",
                       .least = 1,
                       .most = 1e6}},
          .run = RunSynth};
}

}  // namespace thalweg::tools
