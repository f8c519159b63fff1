#include "engine/options.h"

#include <fmt/format.h>

#include "engine/sizes.h"

namespace thalweg::engine {
namespace {

using base::OptionValues;

base::Pinning PinningFrom(const OptionValues& values) {
  const std::string pin = values.Text("pin");
  if (pin == "on") return base::Pinning::kOn;
  return pin == "off" ? base::Pinning::kOff : base::Pinning::kAuto;
}

std::string_view PinningName(base::Pinning pinning) {
  if (pinning == base::Pinning::kOn) return "on";
  return pinning == base::Pinning::kOff ? "off" : "auto";
}

model::Repack RepackFrom(const OptionValues& values) {
  const std::string repack = values.Text("repack");
  if (repack == "always") return model::Repack::kAlways;
  return repack == "never" ? model::Repack::kNever : model::Repack::kAuto;
}

std::string_view RepackName(model::Repack repack) {
  if (repack == model::Repack::kAlways) return "always";
  return repack == model::Repack::kNever ? "never" : "auto";
}

std::string_view ReplayName(model::ReplayMode mode) {
  if (mode == model::ReplayMode::kFull) return "full";
  return mode == model::ReplayMode::kHalo ? "halo" : "compact";
}

// What a value that was given says twice, or against another one.
Status CheckGiven(const OptionValues& values) {
  const bool reuse = values.Flag("prefix-reuse");
  if (!reuse && values.Has("prefix-exactness")) {
    return base::InvalidArgument(fmt::format(
        "--prefix-exactness {} says how prefixes are reused, but --prefix-reuse is false: leave "
        "one of them out",
        values.Text("prefix-exactness")));
  }
  if (!reuse && values.Integer("cache-checkpoints") > 0) {
    return base::InvalidArgument(fmt::format(
        "--cache-checkpoints {} serves the reuse of prefixes, but --prefix-reuse is false: leave "
        "one of them out",
        values.Integer("cache-checkpoints")));
  }
  return {};
}

void ReadModel(const OptionValues& values, EngineOptions* o) {
  o->model = values.Text("model");
  o->model_dir = values.Text("model-dir");
  o->revision = values.Text("revision");
  o->offline = values.Flag("offline");
  o->backend = values.Text("backend");
  o->numerics =
      values.Text("numerics") == "fast" ? kernels::Numerics::kFast : kernels::Numerics::kExact;
  o->cpu_target = values.Text("cpu-target");
  o->threads = static_cast<int>(values.Integer("threads"));
  o->pinning = PinningFrom(values);
  o->repack = RepackFrom(values);
  o->graphs = values.Text("graphs") == "on";
  o->queued_steps = values.Text("rank-steps") == "queued";
  o->max_rows = values.OptionalInteger("max-rows").value_or(o->max_rows);
  if (values.Has("log-level")) o->log_level = values.Text("log-level");
}

void ReadCache(const OptionValues& values, EngineOptions* o) {
  o->max_sequences = values.Integer("max-sequences");
  o->max_context = values.Integer("max-context");
  o->cache_tokens = values.Integer("cache-tokens");
  o->cache_checkpoints = values.Integer("cache-checkpoints");
  o->checkpoint_interval = values.Integer("checkpoint-interval");
  o->prefix_reuse = values.Flag("prefix-reuse");
  o->exactness = values.Text("prefix-exactness") == "bounded" ? sched::PrefixExactness::kBounded
                                                              : sched::PrefixExactness::kExact;
  o->admission_growth = values.Real("admission-growth");
  o->draft_tokens = values.Integer("nextn");
  o->draft_varlen = values.Flag("mtp-varlen");
  o->draft_costs = values.Flag("draft-costs");
  o->draft_calibration = values.Text("draft-calibration");
  o->forced_drafts = values.Flag("forced-drafts");
}

void ReadService(const OptionValues& values, EngineOptions* o) {
  o->overlap = values.Integer("overlap");
  o->seed = static_cast<uint64_t>(values.Integer("engine-seed"));
  o->trace_file = values.Text("trace");
  o->watchdog_seconds = values.Real("watchdog");
  o->preempt_every = static_cast<uint64_t>(values.Integer("preempt-every"));
}

void ReadStructured(const OptionValues& values, EngineOptions* o) {
  o->so_whitespace = values.Text("so-whitespace");
  o->so_compile_seconds = values.Real("so-compile-seconds");
  o->so_cache_bytes = values.Integer("so-cache-bytes");
  o->so_threads = values.Integer("so-threads");
}

void ReadRanks(const OptionValues& values, EngineOptions* o) {
  o->ranks = values.Integer("ranks");
  o->expert_placement = values.Text("expert-placement");
  o->expert_spare = values.Integer("expert-spare");
}

void ReadEngineRanks(const OptionValues& values, EngineOptions* o) {
  o->context_ranks = values.Integer("context-ranks");
  o->rebalance_window = values.Integer("rebalance-window");
  o->rebalance_bytes = values.Integer("rebalance-bytes");
  o->expert_counts = values.Text("expert-counts");
}

void SetText(std::string_view name, std::string_view text, OptionValues* values) {
  if (!text.empty()) values->Set(std::string(name), std::string(text));
}

template <typename T>
void SetNumber(std::string_view name, T number, OptionValues* values) {
  values->Set(std::string(name), fmt::format("{}", number));
}

void WriteMachine(const EngineOptions& o, OptionValues* values) {
  SetText("model", o.model, values);
  SetText("model-dir", o.model_dir, values);
  SetText("revision", o.revision, values);
  if (o.offline) values->Set("offline", "true");
  SetText("backend", o.backend, values);
  SetText("numerics", o.numerics == kernels::Numerics::kFast ? "fast" : "exact", values);
  SetText("cpu-target", o.cpu_target, values);
  SetNumber("threads", o.threads, values);
  SetText("pin", PinningName(o.pinning), values);
  SetText("repack", RepackName(o.repack), values);
  SetText("graphs", o.graphs ? "on" : "off", values);
  SetText("rank-steps", o.queued_steps ? "queued" : "exact", values);
}

void WriteCache(const EngineOptions& o, OptionValues* values) {
  SetText("replay", ReplayName(o.replay), values);
  if (o.keep_tokens.has_value()) SetNumber("keep-tokens", *o.keep_tokens, values);
  SetNumber("max-rows", o.max_rows, values);
  SetNumber("max-sequences", o.max_sequences, values);
  SetNumber("max-context", o.max_context, values);
  SetNumber("cache-tokens", o.cache_tokens, values);
  SetNumber("cache-checkpoints", o.cache_checkpoints, values);
  SetNumber("checkpoint-interval", o.checkpoint_interval, values);
  SetNumber("prefix-reuse", o.prefix_reuse, values);
  if (o.prefix_reuse) {
    const bool exact = o.exactness == sched::PrefixExactness::kExact;
    SetText("prefix-exactness", exact ? "exact" : "bounded", values);
  }
  SetNumber("admission-growth", o.admission_growth, values);
  SetNumber("nextn", o.draft_tokens, values);
  if (o.draft_tokens > 0) {
    SetNumber("mtp-varlen", o.draft_varlen, values);
    SetNumber("draft-costs", o.draft_costs, values);
    SetText("draft-calibration", o.draft_calibration, values);
  }
  SetNumber("forced-drafts", o.forced_drafts, values);
}

void WriteService(const EngineOptions& o, OptionValues* values) {
  values->Set("batch-invariant", "true");
  SetNumber("overlap", o.overlap, values);
  SetNumber("engine-seed", o.seed, values);
  SetText("trace", o.trace_file, values);
  SetNumber("watchdog", o.watchdog_seconds, values);
  SetText("log-level", o.log_level, values);
  SetNumber("preempt-every", o.preempt_every, values);
}

void WriteStructured(const EngineOptions& o, OptionValues* values) {
  SetText("so-whitespace", o.so_whitespace, values);
  SetNumber("so-compile-seconds", o.so_compile_seconds, values);
  SetNumber("so-cache-bytes", o.so_cache_bytes, values);
  SetNumber("so-threads", o.so_threads, values);
}

void WriteRanks(const EngineOptions& o, OptionValues* values) {
  SetNumber("ranks", o.ranks, values);
  SetNumber("context-ranks", o.context_ranks, values);
  SetText("expert-placement", o.expert_placement, values);
  SetNumber("expert-spare", o.expert_spare, values);
  SetNumber("rebalance-window", o.rebalance_window, values);
  SetNumber("rebalance-bytes", o.rebalance_bytes, values);
  SetText("expert-counts", o.expert_counts, values);
}

}  // namespace

Status EngineOptions::CheckHonoured(const OptionValues& values) {
  if (values.Has("accelerator") && values.Text("accelerator") != "cpu") {
    return base::Unsupported(
        fmt::format("accelerator \"{}\": this build runs on cpu only", values.Text("accelerator")));
  }
  if (values.Flag("mtp-varlen") && values.Integer("nextn") == 0) {
    return base::InvalidArgument(
        "--mtp-varlen (DEEPINFER_ENABLE_MTP_VARLEN) chooses among drafts, but --nextn "
        "(DEEPINFER_USE_NEXTN_DECODE) is 0: give it a number of drafts, or leave both out");
  }
  return {};
}

Status EngineOptions::CheckReplay(model::ReplayMode replay, std::optional<int64_t> keep_tokens) {
  if (!keep_tokens.has_value() || replay == model::ReplayMode::kCompact) return {};
  return base::InvalidArgument(fmt::format(
      "--keep-tokens {} is for --replay compact, but --replay is {}: leave one of them out",
      *keep_tokens, ReplayName(replay)));
}

Status EngineOptions::CheckRanks() const {
  if (ranks < 1) return base::InvalidArgument(fmt::format("--ranks is {}: at least 1", ranks));
  if (ranks == 1) return {};
  if (pinning == base::Pinning::kOn)
    return base::InvalidArgument(fmt::format(
        "--pin on would put the threads of all {} --ranks on the same cores: leave it out, or "
        "start the ranks with mpirun",
        ranks));
  return {};
}

Status EngineOptions::Check() const {
  TW_TRY(CheckReplay(replay, keep_tokens));
  TW_TRY(CheckRanks());
  if (checkpoint_interval < kBlockTokens || checkpoint_interval % kBlockTokens != 0) {
    return base::InvalidArgument(
        fmt::format("--checkpoint-interval is {}, but must be a multiple of {}",
                    checkpoint_interval, kBlockTokens));
  }
  if (max_rows < max_sequences) {
    return base::InvalidArgument(
        fmt::format("--max-rows {} is less than --max-sequences {}: a step could not hold one row "
                    "of each sequence",
                    max_rows, max_sequences));
  }
  if (cache_tokens > 0 && cache_tokens < max_context) {
    return base::InvalidArgument(
        fmt::format("--cache-tokens {} is less than --max-context {}: the longest sequence would "
                    "not fit",
                    cache_tokens, max_context));
  }
  return {};
}

EngineOptions EngineOptions::ModelFrom(const OptionValues& values) {
  EngineOptions options;
  ReadModel(values, &options);
  return options;
}

Result<EngineOptions> EngineOptions::ForwardFrom(const OptionValues& values) {
  EngineOptions options = ModelFrom(values);
  ReadRanks(values, &options);
  TW_TRY(options.CheckRanks());
  return options;
}

Result<EngineOptions> EngineOptions::From(const OptionValues& values) {
  TW_TRY(CheckHonoured(values));
  TW_TRY(CheckGiven(values));
  EngineOptions options = ModelFrom(values);
  TW_ASSIGN(options.replay, model::ParseReplayMode(values.Text("replay")));
  options.keep_tokens = values.OptionalInteger("keep-tokens");
  ReadCache(values, &options);
  ReadService(values, &options);
  ReadStructured(values, &options);
  ReadRanks(values, &options);
  ReadEngineRanks(values, &options);
  TW_TRY(options.Check());
  return options;
}

OptionValues EngineOptions::ToValues() const {
  OptionValues values;
  WriteMachine(*this, &values);
  WriteCache(*this, &values);
  WriteService(*this, &values);
  WriteStructured(*this, &values);
  WriteRanks(*this, &values);
  return values;
}

}  // namespace thalweg::engine
