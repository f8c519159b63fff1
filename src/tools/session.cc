#include "tools/session.h"

#include <fmt/format.h>

#include <chrono>

#include "base/log.h"
#include "hub/hub.h"
#include "tools/progress.h"

namespace thalweg::tools {
namespace {

std::vector<std::string> BackendNames() {
  std::vector<std::string> names;
  for (const kernels::BackendInfo& backend : kernels::Backends()) names.push_back(backend.name);
  return names;
}

std::vector<std::string> TargetNames() {
  std::vector<std::string> names;
  for (const kernels::CpuTarget& target : kernels::CpuTargets()) names.emplace_back(target.name);
  return names;
}

kernels::Numerics NumericsFrom(const OptionValues& values) {
  return values.Text("numerics") == "fast" ? kernels::Numerics::kFast : kernels::Numerics::kExact;
}

model::Repack RepackFrom(const OptionValues& values) {
  const std::string repack = values.Text("repack");
  if (repack == "always") return model::Repack::kAlways;
  return repack == "never" ? model::Repack::kNever : model::Repack::kAuto;
}

// Names of the published engine that this one honours but does not act on yet are refused, not
// ignored.
Status CheckHonoured(const OptionValues& values) {
  if (values.Has("accelerator") && values.Text("accelerator") != "cpu") {
    return base::Unsupported(
        fmt::format("accelerator \"{}\": this build runs on cpu only", values.Text("accelerator")));
  }
  if (values.OptionalInteger("nextn").value_or(0) != 0 || values.Flag("mtp-varlen")) {
    return base::Unsupported(
        "speculative decoding is not part of this version: leave out --nextn and --mtp-varlen "
        "(DEEPINFER_USE_NEXTN_DECODE, DEEPINFER_ENABLE_MTP_VARLEN) or set them to 0");
  }
  return {};
}

Result<std::unique_ptr<checkpoint::Checkpoint>> OpenCheckpoint(const SessionOptions& options) {
  checkpoint::LoadFilter filter;
  filter.draft = options.draft;
  filter.vision = false;
  TW_ASSIGN(checkpoint::Checkpoint opened, checkpoint::Checkpoint::Open(options.folder, filter));
  return std::make_unique<checkpoint::Checkpoint>(std::move(opened));
}

}  // namespace

std::vector<OptionRow> MachineOptionRows() {
  return {{.name = "backend",
           .help = "arithmetic bodies",
           .fallback = "cpu",
           .choices = BackendNames()},
          {.name = "numerics",
           .help = "how products are computed: exact (operands as published) or fast (activations "
                   "rounded to int8; cpu backend)",
           .fallback = "exact",
           .choices = {"exact", "fast"}},
          {.name = "cpu-target",
           .help = "instruction set of the cpu backend; without it the best of this processor",
           .choices = TargetNames()},
          {.name = "threads",
           .kind = OptionKind::kInteger,
           .help = "CPU threads; 0: one for each physical core that the process may use",
           .fallback = "0",
           .most = 4096},
          {.name = "pin",
           .help = "keep each thread on one core; auto: when there is one for every core",
           .fallback = "auto",
           .choices = {"auto", "on", "off"}}};
}

Result<const kernels::Ops*> OpsFrom(const OptionValues& values) {
  const std::string backend = values.Text("backend");
  const std::string target = values.Text("cpu-target");
  return kernels::FindBackend(
      {.name = backend, .numerics = NumericsFrom(values), .target = target});
}

base::Pinning PinningFrom(const OptionValues& values) {
  const std::string pin = values.Text("pin");
  if (pin == "on") return base::Pinning::kOn;
  return pin == "off" ? base::Pinning::kOff : base::Pinning::kAuto;
}

std::vector<OptionRow> ModelOptionRows() {
  std::vector<OptionRow> rows = hub::HubOptions::Rows();
  for (OptionRow& row : MachineOptionRows()) rows.push_back(std::move(row));
  const std::vector<OptionRow> own = {
      {.name = "repack",
       .help = "lay weights out anew at load for speed: auto (when memory is free), always, never "
               "(multiply straight from the mapped file); results have the same bits",
       .fallback = "auto",
       .choices = {"auto", "always", "never"}},
      {.name = "max-rows",
       .kind = OptionKind::kInteger,
       .help = "rows of one forward: the chunk of a prefill",
       .fallback = "512",
       .least = 16,
       .most = 65536},
      {.name = "accelerator",
       .help = "device to run on",
       .environment = "DEEPINFER_ACCELERATOR",
       .choices = {"cpu", "nvidia", "ascend"}},
      {.name = "batch-invariant",
       .kind = OptionKind::kFlag,
       .help = "results never depend on the batch; every body of this version is so, with 0 too",
       .fallback = "true",
       .environment = "DEEPINFER_BATCH_INVARIANT"},
      {.name = "nextn",
       .kind = OptionKind::kInteger,
       .help = "longest draft of speculative decoding; 0: off, the only value of this version",
       .environment = "DEEPINFER_USE_NEXTN_DECODE",
       .most = 64},
      {.name = "mtp-varlen",
       .kind = OptionKind::kFlag,
       .help = "verify length by confidence; not part of this version",
       .environment = "DEEPINFER_ENABLE_MTP_VARLEN"},
      {.name = "log-level",
       .help = "what to log",
       .fallback = "warn",
       .choices = {"debug", "info", "warn", "error", "off"}},
  };
  rows.insert(rows.end(), own.begin(), own.end());
  return rows;
}

std::vector<OptionRow> ReplayOptionRows(std::string_view fallback) {
  return {
      {.name = "replay",
       .help = "prompt rows that the decoder runs: full (all), compact (the last --keep-tokens), "
               "halo (as many as make "
               "it equal to full)",
       .fallback = std::string(fallback),
       .environment = "DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE",
       .choices = {"full", "compact", "halo"}},
      {.name = "keep-tokens",
       .kind = OptionKind::kInteger,
       .help = "prompt tokens that compact replay keeps; default and least: window + 2 x (1 + "
               "draft block)",
       .environment = "DEEPINFER_YOCO_PREFILL_KEEP_TOKENS",
       .least = 1,
       .most = 1e9},
  };
}

Result<std::filesystem::path> ModelFolder(const OptionValues& values) {
  TW_ASSIGN(hub::HubOptions options, hub::HubOptions::From(values));
  options.progress = hub::TerminalProgress();
  return hub::FindModel(values.Text("model"), options);
}

Result<SessionOptions> SessionOptions::From(const OptionValues& values) {
  TW_TRY(base::SetUpLog(values.Text("log-level")));
  TW_TRY(CheckHonoured(values));
  spdlog::info("options: {}", values.Describe());
  SessionOptions options;
  TW_ASSIGN(options.folder, ModelFolder(values));
  options.backend = values.Text("backend");
  options.numerics = NumericsFrom(values);
  options.cpu_target = values.Text("cpu-target");
  options.pinning = PinningFrom(values);
  options.repack = RepackFrom(values);
  options.threads = static_cast<int>(values.Integer("threads"));
  options.max_rows = values.Integer("max-rows");
  return options;
}

std::vector<int32_t> Session::EndTokens() const {
  std::vector<int32_t> out;
  for (const int64_t id : defaults.eos_token_ids) out.push_back(static_cast<int32_t>(id));
  if (out.empty()) out.push_back(static_cast<int32_t>(config().eos_token_id));
  return out;
}

Result<Session> OpenSession(const SessionOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  Progress progress("loading", 4);
  Session session;
  TW_ASSIGN(const kernels::Ops* ops, kernels::FindBackend({.name = options.backend,
                                                           .numerics = options.numerics,
                                                           .target = options.cpu_target}));
  session.team = std::make_unique<base::ThreadTeam>(options.threads, options.pinning);
  TW_ASSIGN(session.checkpoint, OpenCheckpoint(options));
  progress.Advance("tokenizer");
  TW_ASSIGN(text::Tokenizer tokenizer, text::Tokenizer::Load(options.folder / "tokenizer.json"));
  session.tokenizer = std::make_unique<text::Tokenizer>(std::move(tokenizer));
  TW_ASSIGN(session.defaults, checkpoint::GenerationDefaults::Load(options.folder));
  progress.Advance("model");
  model::ModelOptions model_options;
  model_options.ops = ops;
  model_options.team = session.team.get();
  model_options.max_rows = options.max_rows;
  model_options.max_sequences = options.max_sequences;
  model_options.max_tokens = options.max_tokens;
  model_options.blocks_from_outside = options.blocks_from_outside;
  model_options.repack = options.repack;
  TW_ASSIGN(session.model, model::Model::Load(*session.checkpoint, model_options));
  progress.Advance("ready");
  spdlog::info("{} threads{}, {} MiB of weights repacked", session.team->size(),
               session.team->pinned() ? ", pinned" : "", session.model->packed_bytes() >> 20);
  session.team->PinCaller();
  session.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return session;
}

Result<model::Replay> ReplayFrom(const OptionValues& values, const checkpoint::Config& config) {
  TW_ASSIGN(const model::ReplayMode mode, model::ParseReplayMode(values.Text("replay")));
  return model::Replay::Make(mode, values.OptionalInteger("keep-tokens"), config);
}

}  // namespace thalweg::tools
