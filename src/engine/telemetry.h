// Counters of the engine, written by its threads and read by anyone.
#pragma once

#include <mutex>

#include "engine/engine.h"

namespace thalweg::engine {

class Telemetry {
 public:
  void RequestAccepted();
  void SequenceAdmitted(int64_t prompt_tokens);
  void TokensOut(int64_t tokens);
  void RequestEnded(FinishReason reason);
  // One turn of the planner: time inside the scheduler, and how it stands.
  void Scheduled(double seconds, const sched::SchedulerStats& stats);
  // One step: its rows, inside Executor::Execute, and without a plan before it while there was
  // work.
  void Executed(int64_t rows, double seconds, double idle_seconds);

  Metrics Snapshot(double elapsed_seconds) const;

 private:
  mutable std::mutex mutex_;
  Metrics metrics_;
};

}  // namespace thalweg::engine
