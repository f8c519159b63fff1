// The engine: takes requests from any thread, plans steps ahead of the one that executes, and hands
// out text (docs/contracts/engine.md).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"
#include "engine/options.h"
#include "engine/request.h"
#include "exec/executor.h"
#include "sched/scheduler.h"
#include "text/tokenizer.h"

namespace thalweg::engine {

// Of constrained requests; grammars and their bytes as they stand in the cache.
struct ConstraintMetrics {
  uint64_t compiled = 0, cache_hits = 0, refused = 0;
  int64_t grammars = 0, grammar_bytes = 0;
  uint64_t masks = 0;
  double mask_seconds = 0;     // making them, over all threads
  double wait_seconds = 0;     // of threads that sample: for masks, or making them
  uint64_t forced_drafts = 0;  // tokens of forced text that were offered as drafts
  uint64_t steps_saved = 0;    // of them those that came out: each saved its sequence a step
};

// How many steps had how many rows, cumulative under the bounds; the last is of all steps.
inline constexpr std::array kStepRowBounds = {1,   8,   16,   32,   64,   128,
                                              256, 512, 1024, 2048, 4096, 8192};
struct StepRows {
  std::array<uint64_t, kStepRowBounds.size() + 1> steps = {};
  uint64_t rows = 0;  // of all steps

  void Add(int64_t count);
};

// Of experts that several ranks share, since the start; sizes as of the newest window.
struct ExpertMetrics {
  uint64_t windows = 0;          // of counted rows, after which places were thought over
  uint64_t layers_switched = 0;  // to other places
  uint64_t experts_moved = 0;    // to a rank that had not had them
  uint64_t bytes_moved = 0;      // of all ranks
  uint64_t last_step = 0;        // the number of the step before which a layer was switched last
  double imbalance = 0;          // rows of the busiest rank over the mean, mean of the layers
  double longest_step = 0;    // with moving before it, over the median of those with as many rows
  uint64_t worked_steps = 0;  // before which something was counted, placed or moved
  double worked_seconds = 0;  // that it took on rank 0
};

// Of prompts whose rows rank 0 shares with others (--context-ranks).
struct ContextMetrics {
  uint64_t steps = 0;        // in which rows were shared
  uint64_t shared_rows = 0;  // of all ranks of rank 0's group, in those steps
  uint64_t own_rows = 0;     // that rank 0 ran of them
  uint64_t bytes = 0;        // that it sent
};

// Counters since the start; all but the last groups only grow.
struct Metrics {
  uint64_t requests = 0, finished = 0, cancelled = 0, failed = 0;
  uint64_t prompt_tokens = 0, output_tokens = 0;
  uint64_t steps = 0;
  StepRows step_rows = {};
  double execute_seconds = 0;   // inside Executor::Execute
  double schedule_seconds = 0;  // NextPlan and Advance
  double idle_seconds = 0;      // executor without a plan while requests were under way
  double elapsed_seconds = 0;
  ConstraintMetrics constraints = {};
  ExpertMetrics experts = {};
  ContextMetrics context = {};
  sched::SchedulerStats scheduler = {};
};

// As one JSON object.
std::string ToJson(const Metrics& metrics);

struct Parts;  // what an engine is made of (engine/parts.h)

class Engine {
 public:
  // Loads a model and starts: options.model names it (a folder or a Hugging Face name; empty: the
  // checkpoint that comes with the program). `interrupted` is asked on the calling thread, several
  // times a second while a model is downloaded and between the stages of loading; true ends the
  // call with kFailedPrecondition, and what has been downloaded is kept.
  static Result<std::unique_ptr<Engine>> Load(const EngineOptions& options,
                                              const std::function<bool()>& interrupted = {});
  // The same control plane over any executor; for tests and the simulator. `scheduler` is taken as
  // it is; of `options` that leaves the seed, trace, watchdog. The tokenizer may be null: then
  // prompts are token ids and no text comes out.
  static Result<std::unique_ptr<Engine>> Start(const EngineOptions& options,
                                               const sched::SchedulerOptions& scheduler,
                                               std::unique_ptr<exec::Executor> executor,
                                               std::shared_ptr<const text::Tokenizer> tokenizer);
  // Cancels what is under way, waits for the step that runs and for the sinks. Not from within one.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Thread-safe. Typed errors for this request alone; nothing is queued then. Returns its id.
  Result<std::string> Submit(GenerateRequest request, OutputSink sink);
  // Thread-safe, at any moment; unknown ids are ignored. Every sequence of the request ends with
  // kCancelled.
  void Cancel(const std::string& id);
  // The same of one of the request's n sequences; the others go on.
  void Cancel(const std::string& id, int32_t index);
  // No new requests from now on (kFailedPrecondition); returns when those under way have ended, or,
  // with abandon, after cancelling them. Returns how many were cancelled. Not from within a sink.
  int64_t Drain(bool abandon);

  Metrics metrics() const;
  const EngineOptions& options() const;
  const checkpoint::Config* config() const;  // null with a foreign executor
  const text::Tokenizer* tokenizer() const;  // may be null
  // Sampling that the checkpoint recommends; plain values with a foreign executor.
  const checkpoint::GenerationDefaults& generation_defaults() const;
  int64_t context_tokens() const;

 private:
  struct State;
  static Result<std::unique_ptr<Engine>> Assemble(Parts parts);
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace thalweg::engine
