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

ControlPlaneFigures FiguresOf(const Metrics& metrics) {
  ControlPlaneFigures figures;
  figures.steps = metrics.steps;
  const double seconds = metrics.execute_seconds + metrics.idle_seconds;
  if (metrics.steps == 0 || seconds <= 0) return figures;
  figures.busy_share = metrics.execute_seconds / seconds;
  figures.schedule_us_per_step =
      metrics.schedule_seconds / static_cast<double>(metrics.steps) * 1e6;
  figures.tokens_per_second = static_cast<double>(metrics.output_tokens) / seconds;
  return figures;
}

}  // namespace

Result<ControlPlaneFigures> MeasureControlPlane(const ControlPlaneLoad& load) {
  auto executor = std::make_unique<TimedExecutor>(
      [seconds = load.step_seconds](const step::StepPlan&) { return seconds; });
  TW_ASSIGN(const std::unique_ptr<Engine> engine,
            Engine::Start({}, SchedulingFor(load), std::move(executor), nullptr));
  for (int64_t i = 0; i < load.sequences; ++i) {
    const auto id = engine->Submit(RequestOf(load, i), [](const Output&) {});
    if (!id.ok()) return id.status();
  }
  engine->Drain(false);
  return FiguresOf(engine->metrics());
}

}  // namespace thalweg::engine
