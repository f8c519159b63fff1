// What the planning thread does, without the thread: commands and results go in, plans and reports
// come out. Neither clock nor lock: the loop runs it in real time, the simulator in virtual time.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "engine/job.h"
#include "engine/record.h"
#include "sched/ranked.h"

namespace thalweg::engine {

// A request enters.
struct SubmitCommand {
  RecordRef record;
  std::vector<sched::Request> sequences;
};
// Sequences end; those that are unknown or have ended are ignored.
struct StopCommand {
  uint64_t first_sequence = 0;
  int32_t count = 1;
};
using Command = std::variant<SubmitCommand, StopCommand>;

// What one turn of the planner tells the output.
struct Report {
  std::vector<RecordRef> submitted = {};  // new, before all else
  // Sequences that want log-probabilities of their prompt and begin in a step to come: number and
  // step. After all else.
  std::vector<std::pair<uint64_t, uint64_t>> prompt_starts = {};
  std::unique_ptr<Job> job = {};          // may be null
  std::vector<sched::Event> events = {};  // results point into the job
  double at = 0;                          // seconds since the engine started

  bool empty() const {
    return submitted.empty() && prompt_starts.empty() && job == nullptr && events.empty();
  }
};

class Planner {
 public:
  explicit Planner(const sched::SchedulerOptions& options)
      : overlap_(options.overlap_depth), scheduler_(options) {}

  // A request that the scheduler refuses ends with an error event.
  void Apply(Command command, Report* report);
  // The oldest job under way is done. The report has no job yet.
  void Advance(std::unique_ptr<Job> job, Report* report);
  // The next step, if there is one and not too many are under way.
  bool Plan(Job* job, Report* report);
  // Events that nothing else brought; at the end of a turn.
  void TakeEvents(Report* report) { scheduler_.TakeEvents(&report->events); }

  int64_t in_flight() const { return in_flight_; }
  // There is something to compute, now or later.
  bool working() const { return in_flight_ > 0 || !scheduler_.idle(); }
  // Requests that wait though nothing is under way that they could wait for.
  bool Stuck() const;
  const sched::RankedScheduler& scheduler() const { return scheduler_; }
  sched::RankedScheduler& scheduler() { return scheduler_; }

 private:
  void Submit(SubmitCommand submit, Report* report);

  const int64_t overlap_;
  sched::RankedScheduler scheduler_;
  int64_t in_flight_ = 0;
};

}  // namespace thalweg::engine
