// A model ready to run, as the commands open one: checkpoint, tokenizer, backend, thread team, and
// the options that choose them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/thread_team.h"
#include "checkpoint/checkpoint.h"
#include "engine/forward_ranks.h"
#include "kernels/backends.h"
#include "model/model.h"
#include "model/replay.h"
#include "text/tokenizer.h"

namespace thalweg::tools {

using base::OptionKind;
using base::OptionRow;
using base::OptionValues;

// Rows of the options that choose bodies and threads: backend, numerics, cpu-target, threads, pin.
std::vector<OptionRow> MachineOptionRows();
// The bodies that those options name; an error says which combinations there are.
Result<const kernels::Ops*> OpsFrom(const OptionValues& values);
base::Pinning PinningFrom(const OptionValues& values);

// Rows of the options that every command with a model takes, those above among them.
std::vector<OptionRow> ModelOptionRows();
// Rows of the replay options; `fallback` is the command's default mode.
std::vector<OptionRow> ReplayOptionRows(std::string_view fallback);

// The checkpoint that --model, --model-dir, --revision and --offline name, downloaded when need be;
// without them the one that comes with the program (hub/hub.h).
Result<std::filesystem::path> ModelFolder(const OptionValues& values);

struct SessionOptions {
  std::filesystem::path folder;
  std::string backend;
  kernels::Numerics numerics = kernels::Numerics::kExact;
  std::string cpu_target;  // empty: the best one
  int threads = 0;
  base::Pinning pinning = base::Pinning::kAuto;
  model::Repack repack = model::Repack::kAuto;
  bool graphs = true;
  int64_t max_rows = 512;
  int64_t max_sequences = 1;
  int64_t max_tokens = 0;            // 0: one full context
  bool blocks_from_outside = false;  // model/model.h
  bool draft = false;
  // Of a command that can share its model with other ranks (engine/forward_ranks.h).
  std::optional<engine::EngineOptions> ranks = {};
  const kernels::Ops* ops = nullptr;  // instead of those that backend, numerics and target name

  static Result<SessionOptions> From(const OptionValues& values);
};

struct Session {
  std::unique_ptr<base::ThreadTeam> team;
  std::unique_ptr<checkpoint::Checkpoint> checkpoint;
  std::unique_ptr<engine::ForwardRanks> ranks;  // null: this process runs alone
  std::shared_ptr<const text::Tokenizer> tokenizer;
  checkpoint::GenerationDefaults defaults;
  std::unique_ptr<model::Model> model;
  double load_seconds = 0;

  const checkpoint::Config& config() const { return checkpoint->config(); }
  // End-of-sequence ids: of generation_config.json, else of config.json.
  std::vector<int32_t> EndTokens() const;
};

Result<Session> OpenSession(const SessionOptions& options);

// --replay and --keep-tokens, checked against the model.
Result<model::Replay> ReplayFrom(const OptionValues& values, const checkpoint::Config& config);

}  // namespace thalweg::tools
