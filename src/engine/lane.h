// The executing thread: plans in, results out, in order. A queue stands in front of it, so that it
// goes from one step to the next without waiting for the planner.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "base/thread_team.h"
#include "engine/clock.h"
#include "engine/job.h"
#include "engine/telemetry.h"
#include "engine/trace.h"
#include "exec/executor.h"

namespace thalweg::engine {

// The step that executes now.
struct RunningStep {
  uint64_t number = 0;
  int64_t rows = 0;
  int64_t sequences = 0;
  double since = 0;
};

class Lane {
 public:
  using Done = std::function<void(std::unique_ptr<Job>)>;

  // `done` is called on the executing thread and must not block. The thread becomes the caller of
  // `team`, which may be null. What is pointed to outlives the lane.
  Lane(exec::Executor* executor, const base::ThreadTeam* team, const Clock* clock,
       Telemetry* telemetry, Trace* trace, Done done);
  // Executes what is queued, then ends the thread.
  ~Lane();

  void Push(std::unique_ptr<Job> job);
  // From now on waiting counts as idle time; nothing: there is no work to wait for.
  void SetWorkSince(std::optional<double> since);
  std::optional<RunningStep> running() const;

 private:
  void Run();
  std::unique_ptr<Job> Pop(bool wait);
  void Begin(Job* job, double begin);
  void LaunchAhead();
  const Job* Front(bool wait);
  void Execute(Job* job);
  double IdleSeconds(double waiting_since, double now) const;

  exec::Executor* executor_;
  const base::ThreadTeam* team_;
  const Clock* clock_;
  Telemetry* telemetry_;
  Trace* trace_;
  Done done_;

  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  std::deque<std::unique_ptr<Job>> queue_;
  std::optional<RunningStep> running_;
  std::optional<double> work_since_;
  bool closing_ = false;
  // Of the executing thread alone.
  std::unique_ptr<Job> launched_;  // the next job, when the device has it already
  double waiting_since_ = 0;       // end of the last step
  double idle_seconds_ = 0;        // before the step that runs
  std::thread thread_;             // last: it uses all of the above
};

}  // namespace thalweg::engine
