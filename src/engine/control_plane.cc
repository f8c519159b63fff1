#include "engine/control_plane.h"

#include <algorithm>
#include <utility>

#include "base/math.h"
#include "engine/engine.h"
#include "engine/sizes.h"
#include "engine/timed_executor.h"

namespace thalweg::engine {
namespace {

sched::SchedulerOptions SchedulingFor(const ControlPlaneLoad& load) {
  sched::SchedulerOptions options;
  options.max_sequences = load.sequences;
  options.max_rows = std::max<int64_t>(512, load.sequences);
  options.context_tokens = load.prompt_tokens + load.output_tokens;
  options.blocks = load.sequences * base::CeilDiv(options.context_tokens, kBlockTokens);
  options.checkpoints = load.sequences;
  options.reach = {.window = 128, .encoder_layers = 20, .window_layers = 40};
  options.overlap_depth = load.overlap;
  return options;
}

// Prompts that share nothing, so that all run from the beginning on.
GenerateRequest RequestOf(const ControlPlaneLoad& load, int64_t number) {
  GenerateRequest request;
  request.prompt =
      std::vector<int32_t>(static_cast<size_t>(load.prompt_tokens), static_cast<int32_t>(number));
  request.max_tokens = load.output_tokens;
  return request;
}

// Metrics at the ends of the time in which all sequences decode. Sinks of one engine are called on
// one thread.
class SteadyTime {
 public:
  explicit SteadyTime(int64_t sequences) : waiting_(sequences) {}

  OutputSink SinkOf(const Engine* engine) {
    return [this, engine, seen = false](const Output& output) mutable {
      if (!seen && !output.tokens.empty()) {
        seen = true;
        if (--waiting_ == 0) begin_ = engine->metrics();
      }
      if (output.finish == FinishReason::kNone || ended_) return;
      ended_ = true;
      end_ = engine->metrics();
    };
  }

  ControlPlaneFigures Figures() const {
    ControlPlaneFigures figures;
    if (end_.steps <= begin_.steps) return figures;
    figures.steps = end_.steps - begin_.steps;
    const double busy = end_.execute_seconds - begin_.execute_seconds;
    const double seconds = busy + end_.idle_seconds - begin_.idle_seconds;
    if (seconds <= 0) return figures;
    figures.busy_share = busy / seconds;
    figures.schedule_us_per_step = (end_.schedule_seconds - begin_.schedule_seconds) /
                                   static_cast<double>(figures.steps) * 1e6;
    figures.tokens_per_second =
        static_cast<double>(end_.output_tokens - begin_.output_tokens) / seconds;
    return figures;
  }

 private:
  int64_t waiting_;
  bool ended_ = false;
  Metrics begin_, end_;
};

}  // namespace

Result<ControlPlaneFigures> MeasureControlPlane(const ControlPlaneLoad& load) {
  SteadyTime steady(load.sequences);  // outlives the engine whose sinks write to it
  auto executor = std::make_unique<TimedExecutor>(
      [seconds = load.step_seconds](const step::StepPlan&) { return seconds; });
  TW_ASSIGN(const std::unique_ptr<Engine> engine,
            Engine::Start({}, SchedulingFor(load), std::move(executor), nullptr));
  for (int64_t i = 0; i < load.sequences; ++i) {
    const auto id = engine->Submit(RequestOf(load, i), steady.SinkOf(engine.get()));
    if (!id.ok()) return id.status();
  }
  engine->Drain(false);
  return steady.Figures();
}

}  // namespace thalweg::engine
