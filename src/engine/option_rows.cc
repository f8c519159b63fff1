// The table of options. The defaults here and those of EngineOptions agree (options_test.cc).
#include <iterator>

#include "engine/options.h"
#include "hub/hub.h"

namespace thalweg::engine {
namespace {

using base::OptionKind;
using base::OptionRow;

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

// Names of the published engine that are honoured; some have one legal value in this version.
std::vector<OptionRow> HonouredRows() {
  return {
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
       .help = "most drafts that a step verifies for a sequence (speculative decoding); 0: off",
       .fallback = "0",
       .environment = "DEEPINFER_USE_NEXTN_DECODE",
       .most = 64},
      {.name = "mtp-varlen",
       .kind = OptionKind::kFlag,
       .help = "how many drafts of a block are verified depends on their confidences",
       .fallback = "false",
       .environment = "DEEPINFER_ENABLE_MTP_VARLEN"},
      {.name = "draft-costs",
       .kind = OptionKind::kFlag,
       .help = "draft only as much as pays, by costs of steps that are measured at the first start "
               "and kept in ~/.cache/thalweg; false: whole blocks always",
       .fallback = "true"},
      {.name = "draft-calibration",
       .help = "what confidences in drafts mean, a table of thalweg calibrate; default: the one "
               "that is kept in ~/.cache/thalweg for this model, if there is one",
       .value_name = "FILE"},
      {.name = "forced-drafts",
       .kind = OptionKind::kFlag,
       .help = "text that so_args leave no choice about is drafted, where that pays (on the host's "
               "processors alone); results are the same",
       .fallback = "true"},
  };
}

std::vector<OptionRow> ForwardRows() {
  return {
      {.name = "repack",
       .help = "lay weights out anew at load for speed: auto (when memory is free), always, never "
               "(multiply straight from the mapped file); results have the same bits",
       .fallback = "auto",
       .choices = {"auto", "always", "never"}},
      {.name = "graphs",
       .help = "on a device, record steps of few rows and replay them; results have the same bits",
       .fallback = "on",
       .choices = {"on", "off"}},
      {.name = "rank-steps",
       .help = "decode steps over several GPUs: exact (the host plans every exchange) or queued "
               "(it is in no layer, and graphs are used: several times as fast, but ranks of one "
               "process may hang where one of them fails); results have the same bits",
       .fallback = "exact",
       .choices = {"exact", "queued"}},
      {.name = "max-rows",
       .kind = OptionKind::kInteger,
       .help = "rows of one forward: the chunk of a prefill",
       .fallback = "512",
       .least = 16,
       .most = 65536},
  };
}

std::vector<OptionRow> BatchRows() {
  return {
      {.name = "max-sequences",
       .kind = OptionKind::kInteger,
       .help = "sequences that run at a time",
       .fallback = "64",
       .least = 1,
       .most = 65536},
      {.name = "max-context",
       .kind = OptionKind::kInteger,
       .help = "longest sequence in tokens; 0: what the model allows",
       .fallback = "0",
       .most = 1e9},
      {.name = "overlap",
       .kind = OptionKind::kInteger,
       .help = "steps planned ahead of the one that executes; 0: plan when nothing executes; "
               "results are the same",
       .fallback = "1",
       .most = 8},
      {.name = "admission-growth",
       .kind = OptionKind::kReal,
       .help = "share of max_tokens that memory is set aside for when a sequence is admitted; "
               "below 1 more run at once, and some may have to be computed again",
       .fallback = "1",
       .most = 1},
  };
}

std::vector<OptionRow> CacheRows() {
  return {
      {.name = "cache-tokens",
       .kind = OptionKind::kInteger,
       .help =
           "tokens of KV memory for all sequences and cached prefixes; 0: chosen by free memory",
       .fallback = "0",
       .most = 1e12},
      {.name = "cache-checkpoints",
       .kind = OptionKind::kInteger,
       .help = "copies of window state for exact prefix reuse; -1: chosen by free memory",
       .fallback = "-1",
       .least = -1,
       .most = 1e9},
      {.name = "checkpoint-interval",
       .kind = OptionKind::kInteger,
       .help = "prompt tokens between two such copies; a multiple of 64",
       .fallback = "512",
       .least = 64,
       .most = 1e9},
      {.name = "prefix-reuse",
       .kind = OptionKind::kFlag,
       .help = "prompts that begin alike share what is cached",
       .fallback = "true"},
      {.name = "prefix-exactness",
       .help = "exact (default: the bits of a run without the cache) or bounded (one window is "
               "computed again: cheaper, close, not equal; seeds lose their promise)",
       .choices = {"exact", "bounded"}},
  };
}

std::vector<OptionRow> StructuredRows() {
  return {
      {.name = "so-whitespace",
       .help = "whitespace in JSON under so_args that do not say: flexible (some, where JSON "
               "allows it), compact (none), python (as json.dumps writes)",
       .fallback = "flexible",
       .choices = {"flexible", "compact", "python"}},
      {.name = "so-compile-seconds",
       .kind = OptionKind::kReal,
       .help = "longest compilation of a request's so_args",
       .fallback = "2",
       .least = 0.001,
       .most = 3600},
      {.name = "so-cache-bytes",
       .kind = OptionKind::kInteger,
       .help = "memory for compiled so_args that requests share",
       .fallback = "268435456",
       .most = 1e12},
      {.name = "so-threads",
       .kind = OptionKind::kInteger,
       .help = "threads that make token masks beside the model; 0: those that sample do; -1: 0 on "
               "the cpu backend, else half of the cores, at most 4",
       .fallback = "-1",
       .least = -1,
       .most = 256},
  };
}

std::vector<OptionRow> ServiceRows() {
  return {
      {.name = "engine-seed",
       .kind = OptionKind::kInteger,
       .help = "requests without a seed draw theirs from it; 0: from the clock",
       .fallback = "0",
       .most = 9.2e18},
      {.name = "trace",
       .help = "write a timeline of requests and steps (Chrome and Perfetto read it)",
       .value_name = "FILE"},
      {.name = "watchdog",
       .kind = OptionKind::kReal,
       .help = "seconds after which a step that still executes is named in the log; 0: never",
       .fallback = "60",
       .most = 1e6},
      {.name = "preempt-every",
       .kind = OptionKind::kInteger,
       .help = "testing: preempt a running sequence about every so many steps; 0: never",
       .fallback = "0",
       .most = 1e9},
  };
}

void Append(std::vector<OptionRow> more, std::vector<OptionRow>* rows) {
  std::move(more.begin(), more.end(), std::back_inserter(*rows));
}

}  // namespace

std::vector<OptionRow> EngineOptions::MachineRows() {
  return {{.name = "backend",
           .help = "arithmetic bodies",
           .fallback = "cpu",
           .choices = BackendNames()},
          {.name = "numerics",
           .help = "how products are computed: exact (operands as published) or fast (cpu: "
                   "activations rounded to int8; cuda: sums of FP8 instructions)",
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

std::vector<OptionRow> EngineOptions::ReplayRows(std::string_view fallback) {
  return {
      {.name = "replay",
       .help = "prompt rows that the decoder runs: full (all), compact (the last --keep-tokens), "
               "halo (as many as make it equal to full)",
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

std::vector<OptionRow> EngineOptions::RankRows() {
  return {
      {.name = "ranks",
       .kind = OptionKind::kInteger,
       .help = "ranks in this process, which share experts; each has max-sequences and caches of "
               "its own; results have the same bits (docs/ranks.md; mpirun starts processes "
               "instead)",
       .fallback = "1",
       .least = 1,
       .most = 256},
      {.name = "expert-placement",
       .help = "where experts lie, a file of thalweg inspect experts --save; default: in order",
       .value_name = "FILE"},
      {.name = "expert-spare",
       .kind = OptionKind::kInteger,
       .help = "places on each rank for copies of experts that are wanted most",
       .fallback = "0",
       .most = 4096},
  };
}

std::vector<OptionRow> EngineOptions::EngineRankRows() {
  return {
      {.name = "context-ranks",
       .kind = OptionKind::kInteger,
       .help = "ranks that share the rows of long prompts, consecutive ones; each has room for the "
               "compressed rows of all of them (docs/ranks.md)",
       .fallback = "1",
       .least = 1,
       .most = 4096},
      {.name = "rebalance-window",
       .kind = OptionKind::kInteger,
       .help = "rows after which experts move to where the ranks' load is more even, while steps "
               "go on; 0: they stay",
       .fallback = "0",
       .most = 1e12},
      {.name = "rebalance-bytes",
       .kind = OptionKind::kInteger,
       .help = "bytes of experts that move before one step at most, into and out of each rank; 0: "
               "as many as take a tenth of the step, as measured",
       .fallback = "0",
       .most = 1e12},
      {.name = "expert-counts",
       .help = "rows by layer and expert: written at the end, for thalweg inspect experts; if the "
               "file is there, experts are placed by it at the start",
       .value_name = "FILE"},
  };
}

std::vector<OptionRow> EngineOptions::ModelRows() {
  std::vector<OptionRow> rows = hub::HubOptions::Rows();
  Append(MachineRows(), &rows);
  Append(ForwardRows(), &rows);
  Append(HonouredRows(), &rows);
  rows.push_back({.name = "log-level",
                  .help = "what to log",
                  .fallback = "warn",
                  .choices = {"debug", "info", "warn", "error", "off"}});
  return rows;
}

std::vector<OptionRow> EngineOptions::Rows() {
  std::vector<OptionRow> rows = ModelRows();
  Append(ReplayRows("compact"), &rows);
  Append(BatchRows(), &rows);
  Append(CacheRows(), &rows);
  Append(StructuredRows(), &rows);
  Append(RankRows(), &rows);
  Append(EngineRankRows(), &rows);
  Append(ServiceRows(), &rows);
  return rows;
}

}  // namespace thalweg::engine
