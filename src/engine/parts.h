// What an engine is made of, before its threads start.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/thread_team.h"
#include "checkpoint/checkpoint.h"
#include "engine/intake.h"
#include "engine/options.h"
#include "engine/ranks.h"
#include "engine/rebalancer.h"
#include "engine/request.h"
#include "exec/executor.h"
#include "exec/timed_ops.h"
#include "exec/token_masks.h"
#include "sched/scheduler.h"
#include "text/tokenizer.h"

namespace thalweg::engine {

// Where custom logits processors are registered; both empty: the executor takes none.
struct ProcessorHost {
  std::function<void(const std::string& name, LogitsProcessor processor)> add = {};
  std::function<void(const std::string& name)> remove = {};
};

// Later members may point to earlier ones.
struct Parts {
  EngineOptions options = {};
  sched::SchedulerOptions scheduler = {};
  std::unique_ptr<base::ThreadTeam> team = {};              // null with a foreign executor
  std::unique_ptr<checkpoint::Checkpoint> checkpoint = {};  // likewise
  std::shared_ptr<const text::Tokenizer> tokenizer = {};
  checkpoint::GenerationDefaults defaults = {};
  IntakeOptions intake = {};
  std::unique_ptr<exec::TimedOps> timed_ops = {};  // with a trace: what the executor runs
  std::unique_ptr<Ranks> ranks = {};  // null: one rank; ends behind the executor, which tells it to
  std::unique_ptr<comm::Communicator> devices = {};      // likewise
  std::unique_ptr<model::ExpertParallel> experts = {};   // likewise
  std::unique_ptr<model::ExpertMoves> moves = {};        // likewise, and null: experts stay
  std::unique_ptr<model::ContextParallel> context = {};  // likewise
  std::unique_ptr<exec::Executor> executor = {};
  const Rebalancer* rebalancer = nullptr;  // of the executor; null: one rank
  ProcessorHost processors = {};
  // Tells the executor where masks are found; empty: it takes none.
  std::function<void(exec::FindTokenMasks)> set_token_masks = {};
};

// Options in which a checkpoint, an executor and sizes have been chosen. `interrupted` as in
// Engine::Load.
Result<Parts> LoadParts(const EngineOptions& options, const std::function<bool()>& interrupted);

}  // namespace thalweg::engine
