// The planning thread: takes commands and results, turns the scheduler's crank, and keeps the lane
// supplied with plans ahead of the step that executes (spec/decoding.md 6). It sleeps whenever
// nothing has changed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/thread_team.h"
#include "engine/clock.h"
#include "engine/job.h"
#include "engine/lane.h"
#include "engine/output_pump.h"
#include "engine/telemetry.h"
#include "engine/trace.h"
#include "engine/watchdog.h"
#include "exec/executor.h"
#include "sched/scheduler.h"

namespace thalweg::engine {

class Loop {
 public:
  struct Submit {
    RecordRef record;
    std::vector<sched::Request> sequences;
  };
  struct Stop {
    uint64_t first_sequence = 0;
    int32_t count = 1;
    sched::Finish reason = sched::Finish::kCancelled;
  };
  using Command = std::variant<Submit, Stop>;

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
  void Turn(Inbox inbox);
  void Apply(Command command, Report* report);
  void ApplySubmit(Submit submit, Report* report);
  void Advance(std::vector<std::unique_ptr<Job>> done, Report* report);
  void Plan(Report* report);
  void NoteWork(double since);
  void Push(Report report);

  const int64_t overlap_;
  const Surroundings with_;
  Watchdog watchdog_;

  // The planning thread's own.
  sched::Scheduler scheduler_;
  int64_t in_flight_ = 0;
  bool working_ = false;

  std::mutex mutex_;
  std::condition_variable wakes_;
  Inbox inbox_;
  Lane lane_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace thalweg::engine
