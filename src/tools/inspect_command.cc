// `thalweg inspect` and `thalweg synth`: what a checkpoint is, and a random one of any shape.
#include <fmt/format.h>

#include "tools/command.h"
#include "tools/inspect.h"
#include "tools/inspect_kernels.h"
#include "tools/synth.h"

namespace thalweg::tools {
namespace {

int InspectKernels(bool json) {
  fmt::print("{}", json ? KernelJson().dump(2) + "\n" : KernelTables());
  return kExitOk;
}

Result<int> RunInspect(const OptionValues& values) {
  const std::string& path = values.positionals().front();
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
              "checkpoint; or the kernels",
          .options = {{.name = "check",
                       .kind = OptionKind::kFlag,
                       .help = "verify every tensor, the Engram constants and the token map"},
                      {.name = "json", .kind = OptionKind::kFlag, .help = "print JSON"}},
          .positionals = {.name = "PATH",
                          .help = "a checkpoint folder, a config.json, or the word kernels",
                          .least = 1,
                          .most = 1},
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
