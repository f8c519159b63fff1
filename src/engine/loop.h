// The planning thread: takes commands and results, turns the planner's crank, and keeps the lane
// supplied with plans ahead of the step that executes (spec/decoding.md 6). It sleeps whenever
// nothing has changed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/thread_team.h"
#include "engine/clock.h"
#include "engine/job.h"
#include "engine/lane.h"
#include "engine/output_pump.h"
#include "engine/planner.h"
#include "engine/telemetry.h"
#include "engine/trace.h"
#include "engine/watchdog.h"
#include "exec/executor.h"

namespace thalweg::engine {

class Loop {
 public:
  // What the parts of the engine share; it outlives the loop.
  struct Surroundings {
    exec::Executor* executor = nullptr;
    const base::ThreadTeam* team = nullptr;  // of the executor; may be null
    OutputPump* pump = nullptr;
    const Clock* clock = nullptr;
    Telemetry* telemetry = nullptr;
    Trace* trace = nullptr;
    JobPool* jobs = nullptr;
  };

  Loop(const sched::SchedulerOptions& options, double watchdog_seconds,
       const Surroundings& surroundings);
  // Waits for the steps under way; plans none any more.
  ~Loop();

  // Thread-safe; commands take effect in their order.
  void Post(Command command);

 private:
  struct Inbox {
    std::vector<Command> commands;
    std::vector<std::unique_ptr<Job>> done;
    double first_post = 0;  // when the oldest command came
    bool closing = false;

    bool empty() const { return commands.empty() && done.empty(); }
  };

  void OnDone(std::unique_ptr<Job> job);
  void Run();
  bool Wait(Inbox* inbox);
  void WaitOnce(std::unique_lock<std::mutex>* lock);
  void Turn(Inbox inbox);
  void Advance(std::vector<std::unique_ptr<Job>> done, Report* report);
  void Plan(Report* report);
  void NoteWork(double since);
  void Push(Report report);

  const Surroundings with_;

  // The planning thread's own.
  Watchdog watchdog_;
  Planner planner_;
  bool working_ = false;

  std::mutex mutex_;
  std::condition_variable wakes_;
  Inbox inbox_;
  Lane lane_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace thalweg::engine
