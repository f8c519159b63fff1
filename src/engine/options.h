// Every option of the engine, as one table from which flags, environment names, option file keys,
// Python keywords and help are made; and the frozen values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "base/thread_team.h"
#include "kernels/backends.h"
#include "model/model.h"
#include "model/replay.h"
#include "sched/scheduler.h"

namespace thalweg::engine {

struct EngineOptions {
  std::string model = {};  // folder or Hugging Face name; empty: the embedded default
  std::string model_dir = {};
  std::string revision = {};
  bool offline = false;
  std::string backend = "cpu";
  kernels::Numerics numerics = kernels::Numerics::kExact;
  std::string cpu_target = {};
  int threads = 0;
  base::Pinning pinning = base::Pinning::kAuto;
  model::Repack repack = model::Repack::kAuto;
  bool graphs = true;         // of a device (model/model.h)
  bool queued_steps = false;  // of ranks that are devices (model/routed_experts.h)

  model::ReplayMode replay = model::ReplayMode::kCompact;
  std::optional<int64_t> keep_tokens = {};

  int64_t max_rows = 512;          // of one step: the prefill chunk
  int64_t max_sequences = 64;      // that run at a time
  int64_t max_context = 0;         // 0: the model's
  int64_t cache_tokens = 0;        // KV of all sequences and cached prefixes; 0: chosen by memory
  int64_t cache_checkpoints = -1;  // -1: chosen by memory
  int64_t checkpoint_interval = 512;
  bool prefix_reuse = true;
  sched::PrefixExactness exactness = sched::PrefixExactness::kExact;
  double admission_growth = 1;

  int64_t draft_tokens = 0;   // most drafts of a verified block; 0: no speculation
  bool draft_varlen = false;  // how many of a block are verified depends on confidences
  bool draft_costs = true;    // false: whole blocks always, whether they pay or not
  // Table of `thalweg calibrate`; empty: the one that it keeps for this model, if there is one.
  std::string draft_calibration = {};
  bool forced_drafts = true;  // text that a constraint forces is drafted, with draft_tokens 0 too

  int64_t ranks = 1;                  // threads of this process, each a rank
  int64_t context_ranks = 1;          // of a group that shares the rows of long prompts
  std::string expert_placement = {};  // file of a placement; empty: experts in order
  int64_t expert_spare = 0;           // slots for replicas on each rank
  int64_t rebalance_window = 0;       // rows between two looks at where experts lie; 0: they stay
  int64_t rebalance_bytes = 0;        // that move before one step; 0: what a tenth of it allows
  std::string expert_counts = {};     // file of counts, read at the start and written at the end

  int64_t overlap = 1;           // plans ahead of the step that runs; 0: synchronous
  uint64_t seed = 0;             // requests without a seed draw theirs from it; 0: from the clock
  std::string trace_file = {};   // Chrome trace of requests and steps
  double watchdog_seconds = 60;  // a step longer than this is named in the log; 0: off
  std::string log_level = "warn";
  std::string so_whitespace = "flexible";  // of JSON, where so_args do not say (grammar/schema.h)
  double so_compile_seconds = 2;           // longest compilation of so_args
  int64_t so_cache_bytes = 256 << 20;      // compiled grammars that are kept
  int64_t so_threads = -1;                 // that make masks; -1: chosen by the backend
  uint64_t preempt_every = 0;              // testing (sched/scheduler.h)

  // The table: names, defaults, ranges, help, environment names.
  static std::vector<base::OptionRow> Rows();
  // Groups of it, for commands that run a model without the engine: backend and threads; those and
  // what else a model needs; replay, with the command's own default mode; ranks.
  static std::vector<base::OptionRow> MachineRows();
  static std::vector<base::OptionRow> ModelRows();
  static std::vector<base::OptionRow> ReplayRows(std::string_view fallback);
  static std::vector<base::OptionRow> RankRows();
  // The same for what an engine alone can do with its ranks.
  static std::vector<base::OptionRow> EngineRankRows();

  // Of a command that runs its model itself: ModelRows and RankRows.
  static Result<EngineOptions> ForwardFrom(const base::OptionValues& values);
  // From resolved values. Contradictory values are an error that names both options.
  static Result<EngineOptions> From(const base::OptionValues& values);
  // The fields of MachineRows and ModelRows alone; the rest as by default.
  static EngineOptions ModelFrom(const base::OptionValues& values);
  // Names of the published engine that this version cannot act on are refused, not ignored.
  static Status CheckHonoured(const base::OptionValues& values);
  // A number of kept rows and a mode that keeps others contradict each other.
  static Status CheckReplay(model::ReplayMode replay, std::optional<int64_t> keep_tokens);
  // The same checks, for options that code filled in.
  Status Check() const;
  Status CheckRanks() const;

  // Every option that has a value: From(ToValues()) gives the same options.
  base::OptionValues ToValues() const;
  // "name=value ...": the frozen options, for the log and for commands that print them.
  std::string Describe() const { return ToValues().Describe(); }
};

}  // namespace thalweg::engine
