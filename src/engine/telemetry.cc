#include "engine/telemetry.h"

namespace thalweg::engine {

void Telemetry::RequestAccepted() {
  const std::scoped_lock lock(mutex_);
  ++metrics_.requests;
}

void Telemetry::SequenceAdmitted(int64_t prompt_tokens) {
  const std::scoped_lock lock(mutex_);
  metrics_.prompt_tokens += static_cast<uint64_t>(prompt_tokens);
}

void Telemetry::TokensOut(int64_t tokens) {
  const std::scoped_lock lock(mutex_);
  metrics_.output_tokens += static_cast<uint64_t>(tokens);
}

void Telemetry::RequestEnded(FinishReason reason) {
  const std::scoped_lock lock(mutex_);
  if (reason == FinishReason::kError) {
    ++metrics_.failed;
  } else if (reason == FinishReason::kCancelled) {
    ++metrics_.cancelled;
  } else {
    ++metrics_.finished;
  }
}

void Telemetry::Scheduled(double seconds, const sched::SchedulerStats& stats) {
  const std::scoped_lock lock(mutex_);
  metrics_.schedule_seconds += seconds;
  metrics_.scheduler = stats;
}

void StepRows::Add(int64_t count) {
  rows += static_cast<uint64_t>(count);
  for (size_t i = 0; i < kStepRowBounds.size(); ++i) steps[i] += count <= kStepRowBounds[i] ? 1 : 0;
  ++steps.back();
}

void Telemetry::Executed(int64_t rows, double seconds, double idle_seconds) {
  const std::scoped_lock lock(mutex_);
  ++metrics_.steps;
  metrics_.step_rows.Add(rows);
  metrics_.execute_seconds += seconds;
  metrics_.idle_seconds += idle_seconds;
}

Metrics Telemetry::Snapshot(double elapsed_seconds) const {
  const std::scoped_lock lock(mutex_);
  Metrics copy = metrics_;
  copy.elapsed_seconds = elapsed_seconds;
  return copy;
}

}  // namespace thalweg::engine
