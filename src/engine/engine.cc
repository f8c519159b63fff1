#include "engine/engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "engine/clock.h"
#include "engine/constraints.h"
#include "engine/intake.h"
#include "engine/loop.h"
#include "engine/output_pump.h"
#include "engine/parts.h"
#include "engine/registry.h"
#include "engine/sizes.h"
#include "engine/telemetry.h"
#include "engine/trace.h"

namespace thalweg::engine {
namespace {

uint64_t SeedOf(const EngineOptions& options) {
  if (options.seed != 0) return options.seed;
  return static_cast<uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
}

// What the scheduler can hold of one sequence, whatever the context allows.
int64_t ContextTokens(const sched::SchedulerOptions& options) {
  return std::min(options.context_tokens, options.blocks * kBlockTokens);
}

// A CPU backend's own threads make masks when they sample: they would wait for the cores anyway.
int MaskThreads(const Parts& parts) {
  constexpr int kMost = 4;
  if (parts.options.so_threads >= 0) return static_cast<int>(parts.options.so_threads);
  if (parts.team != nullptr) return 0;
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, kMost);
}

Constraints::Options ConstraintOptions(const Parts& parts) {
  Constraints::Options options;
  options.tokenizer = parts.tokenizer;
  options.vocab = parts.intake.vocab;
  options.end_tokens = parts.intake.end_tokens;
  options.whitespace = parts.options.so_whitespace;
  options.limits.compile_seconds = parts.options.so_compile_seconds;
  options.cache_bytes = parts.options.so_cache_bytes;
  options.threads = MaskThreads(parts);
  options.forced_tokens = parts.scheduler.forced_tokens;
  return options;
}

}  // namespace

// Members are destroyed from the last to the first: the loop, which reports to the pump, then the
// pump, then what both point to.
struct Engine::State {
  State(Parts p, std::unique_ptr<Trace> t)
      : parts(std::move(p)),
        trace(std::move(t)),
        intake(parts.intake),
        constraints(ConstraintOptions(parts)) {}

  OutputCalls Calls();
  void TraceOps();
  Status OpenConstraint(const std::string& so_args, const RequestRecord& record);
  void Forget(const RequestRecord& record);
  void Stop(const RequestRecord& record);

  Parts parts;
  std::unique_ptr<Trace> trace;
  Intake intake;
  Constraints constraints;
  Clock clock;
  Telemetry telemetry;
  JobPool jobs;
  Registry registry;
  std::unique_ptr<OutputStage> stage;
  std::unique_ptr<OutputPump> pump;
  std::unique_ptr<Loop> loop;
};

OutputCalls Engine::State::Calls() {
  return {
      .stop = [this](uint64_t sequence) { loop->Post(StopCommand{.first_sequence = sequence}); },
      .ending = [this](const RequestRecord& record) { registry.Release(record.id); },
      .ended =
          [this](const RequestRecord& record) {
            Forget(record);
            registry.Ended();
          }};
}

Status Engine::State::OpenConstraint(const std::string& so_args, const RequestRecord& record) {
  if (so_args.empty()) return {};
  TW_ASSIGN(const Constraints::Compiled compiled,
            constraints.Compile(so_args, record.starts_thinking ? record.think_end_token : -1));
  constraints.Open(record.first_sequence, record.n, compiled);
  return {};
}

// What other parts keep for a request.
void Engine::State::Forget(const RequestRecord& record) {
  if (!record.processor.empty()) parts.processors.remove(record.processor);
  constraints.Close(record.first_sequence, record.n);
}

// No step runs yet. The observer is called on the executing thread, which ends before the trace.
void Engine::State::TraceOps() {
  if (parts.timed_ops == nullptr) return;
  parts.timed_ops->SetObserver(
      [this](std::string_view op, exec::TimedOps::Time begin, exec::TimedOps::Time end) {
        trace->Span(Trace::Thread::kOps, op, clock.At(begin), clock.At(end), "");
      });
}

void Engine::State::Stop(const RequestRecord& record) {
  loop->Post(StopCommand{.first_sequence = record.first_sequence, .count = record.n});
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Engine>> Engine::Assemble(Parts parts) {
  TW_TRY(parts.options.Check());
  TW_TRY(sched::Scheduler::Check(parts.scheduler));
  TW_ASSIGN(std::unique_ptr<Trace> trace, Trace::Open(parts.options.trace_file));
  parts.intake.tokenizer = parts.tokenizer.get();
  parts.intake.context_tokens = ContextTokens(parts.scheduler);
  parts.intake.bounded_reuse =
      parts.scheduler.prefix_reuse && parts.scheduler.exactness == sched::PrefixExactness::kBounded;
  parts.intake.takes_processors = static_cast<bool>(parts.processors.add);
  parts.intake.takes_constraints = static_cast<bool>(parts.set_token_masks);
  parts.intake.seed = SeedOf(parts.options);
  auto state = std::make_unique<State>(std::move(parts), std::move(trace));
  State* s = state.get();
  s->TraceOps();
  if (s->parts.set_token_masks)
    s->parts.set_token_masks([s](uint64_t sequence) { return s->constraints.Find(sequence); });
  s->stage = std::make_unique<OutputStage>(s->parts.tokenizer.get(), &s->telemetry, s->trace.get(),
                                           s->Calls());
  s->pump = std::make_unique<OutputPump>(s->stage.get(), &s->clock, s->trace.get(), &s->jobs);
  s->loop = std::make_unique<Loop>(s->parts.scheduler, s->parts.options.watchdog_seconds,
                                   Loop::Surroundings{.executor = s->parts.executor.get(),
                                                      .team = s->parts.team.get(),
                                                      .pump = s->pump.get(),
                                                      .clock = &s->clock,
                                                      .telemetry = &s->telemetry,
                                                      .trace = s->trace.get(),
                                                      .jobs = &s->jobs});
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Result<std::unique_ptr<Engine>> Engine::Load(const EngineOptions& options,
                                             const std::function<bool()>& interrupted) {
  TW_ASSIGN(Parts parts, LoadParts(options, interrupted));
  return Assemble(std::move(parts));
}

Result<std::unique_ptr<Engine>> Engine::Start(const EngineOptions& options,
                                              const sched::SchedulerOptions& scheduler,
                                              std::unique_ptr<exec::Executor> executor,
                                              std::shared_ptr<const text::Tokenizer> tokenizer) {
  Parts parts;
  parts.options = options;
  parts.scheduler = scheduler;
  parts.executor = std::move(executor);
  parts.tokenizer = std::move(tokenizer);
  if (parts.tokenizer != nullptr) parts.intake.vocab = parts.tokenizer->vocab_size();
  return Assemble(std::move(parts));
}

Engine::~Engine() { Drain(true); }

Result<std::string> Engine::Submit(GenerateRequest request, OutputSink sink) {
  TW_CHECK(static_cast<bool>(sink));
  LogitsProcessor processor = request.logits_processor;
  const std::string so_args = request.so_args;
  TW_ASSIGN(PreparedRequest prepared, state_->intake.Prepare(std::move(request), std::move(sink)));
  RequestRecord& record = *prepared.record;
  TW_TRY(state_->OpenConstraint(so_args, record));
  record.submitted_at = state_->clock.Now();
  if (processor) state_->parts.processors.add(record.processor, std::move(processor));
  const Status added = state_->registry.Add(prepared.record, [&] {
    state_->telemetry.RequestAccepted();
    state_->loop->Post(
        SubmitCommand{.record = prepared.record, .sequences = std::move(prepared.sequences)});
  });
  if (!added.ok()) state_->Forget(record);
  TW_TRY(added);
  return record.id;
}

void Engine::Cancel(const std::string& id) {
  state_->registry.With(id, [&](const RequestRecord& record) { state_->Stop(record); });
}

void Engine::Cancel(const std::string& id, int32_t index) {
  state_->registry.With(id, [&](const RequestRecord& record) {
    if (index < 0 || index >= record.n) return;
    const uint64_t sequence = record.first_sequence + static_cast<uint64_t>(index);
    state_->loop->Post(StopCommand{.first_sequence = sequence});
  });
}

int64_t Engine::Drain(bool abandon) {
  TW_CHECK(std::this_thread::get_id() != state_->pump->thread_id());
  const uint64_t before = metrics().cancelled;
  state_->registry.Close();
  if (abandon) {
    state_->registry.WithAll([&](const RequestRecord& record) { state_->Stop(record); });
  }
  state_->registry.WaitUntilEmpty();
  return static_cast<int64_t>(metrics().cancelled - before);
}

static ContextMetrics MetricsOf(const model::ContextCounts& counts) {
  return {.steps = static_cast<uint64_t>(counts.steps),
          .shared_rows = static_cast<uint64_t>(counts.shared_rows),
          .own_rows = static_cast<uint64_t>(counts.rows),
          .bytes = static_cast<uint64_t>(counts.bytes)};
}

Metrics Engine::metrics() const {
  Metrics metrics = state_->telemetry.Snapshot(state_->clock.Now());
  metrics.constraints = state_->constraints.metrics();
  if (state_->parts.rebalancer != nullptr) metrics.experts = state_->parts.rebalancer->metrics();
  if (state_->parts.context != nullptr)
    metrics.context = MetricsOf(state_->parts.context->counts());
  return metrics;
}

const EngineOptions& Engine::options() const { return state_->parts.options; }

const checkpoint::Config* Engine::config() const {
  return state_->parts.checkpoint == nullptr ? nullptr : &state_->parts.checkpoint->config();
}

const text::Tokenizer* Engine::tokenizer() const { return state_->parts.tokenizer.get(); }

const checkpoint::GenerationDefaults& Engine::generation_defaults() const {
  return state_->parts.defaults;
}

int64_t Engine::context_tokens() const { return state_->parts.intake.context_tokens; }

}  // namespace thalweg::engine
