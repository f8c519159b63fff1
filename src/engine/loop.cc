#include "engine/loop.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace thalweg::engine {

Loop::Loop(const sched::SchedulerOptions& options, double watchdog_seconds,
           const Surroundings& surroundings)
    : with_(surroundings),
      watchdog_(watchdog_seconds),
      planner_(options),
      lane_(with_.executor, with_.team, with_.clock, with_.telemetry, with_.trace,
            [this](std::unique_ptr<Job> job) { OnDone(std::move(job)); }),
      thread_([this] { Run(); }) {}

Loop::~Loop() {
  {
    const std::scoped_lock lock(mutex_);
    inbox_.closing = true;
  }
  wakes_.notify_one();
  thread_.join();
}

void Loop::Post(Command command) {
  {
    const std::scoped_lock lock(mutex_);
    if (inbox_.commands.empty()) inbox_.first_post = with_.clock->Now();
    inbox_.commands.push_back(std::move(command));
  }
  wakes_.notify_one();
}

void Loop::OnDone(std::unique_ptr<Job> job) {
  {
    const std::scoped_lock lock(mutex_);
    inbox_.done.push_back(std::move(job));
  }
  wakes_.notify_one();
}

// Until something comes, or the watchdog wants to look at the step that executes.
void Loop::WaitOnce(std::unique_lock<std::mutex>* lock) {
  std::optional<double> deadline;
  if (planner_.in_flight() > 0) {
    deadline = watchdog_.Deadline(lane_.running(), with_.clock->Now());
  }
  if (!deadline.has_value()) {
    wakes_.wait(*lock);
  } else if (wakes_.wait_until(*lock, with_.clock->TimeOf(*deadline)) == std::cv_status::timeout) {
    watchdog_.Look(lane_.running(), with_.clock->Now());
  }
}

// Sleeps until there is something new, and takes it. False: the loop ends.
bool Loop::Wait(Inbox* inbox) {
  std::unique_lock lock(mutex_);
  while (inbox_.empty() && (!inbox_.closing || planner_.in_flight() > 0)) WaitOnce(&lock);
  inbox->commands.swap(inbox_.commands);
  inbox->done.swap(inbox_.done);
  inbox->first_post = inbox_.first_post;
  inbox->closing = inbox_.closing;
  return !inbox->empty();
}

void Loop::Run() {
  while (true) {
    Inbox inbox;
    if (!Wait(&inbox)) return;
    Turn(std::move(inbox));
  }
}

// A report holds one job; the events of its own result point into it.
void Loop::Advance(std::vector<std::unique_ptr<Job>> done, Report* report) {
  for (std::unique_ptr<Job>& job : done) {
    if (report->job != nullptr) {
      // Whoever sees an event finds it in the counters.
      with_.telemetry->Scheduled(0, planner_.scheduler().stats());
      Push(std::exchange(*report, {}));
    }
    report->at = job->end;
    planner_.Advance(std::move(job), report);
  }
}

void Loop::Plan(Report* report) {
  while (true) {
    const double begin = with_.clock->Now();
    std::unique_ptr<Job> job = with_.jobs->Get();
    if (!planner_.Plan(job.get(), report)) {
      with_.jobs->Put(std::move(job));
      return;
    }
    if (with_.trace->on()) {
      with_.trace->Span(Trace::Thread::kPlan, "plan", begin, with_.clock->Now(),
                        fmt::format(R"("number":{})", job->plan.number));
    }
    lane_.Push(std::move(job));
  }
}

// Tells the lane since when waiting is idling.
void Loop::NoteWork(double since) {
  const bool working = planner_.working();
  if (working == working_) return;
  working_ = working;
  lane_.SetWorkSince(working ? std::optional(since) : std::nullopt);
}

void Loop::Push(Report report) {
  if (report.empty()) return;
  if (report.job == nullptr) report.at = with_.clock->Now();
  with_.pump->Push(std::move(report));
}

void Loop::Turn(Inbox inbox) {
  const double begin = with_.clock->Now();
  Report report;
  for (Command& command : inbox.commands) planner_.Apply(std::move(command), &report);
  NoteWork(inbox.first_post);
  Advance(std::move(inbox.done), &report);
  if (!inbox.closing) {
    Plan(&report);
    // The scheduler waits for nothing but steps under way; otherwise its requests would hang.
    TW_CHECK(!planner_.Stuck());
  }
  planner_.TakeEvents(&report);
  NoteWork(inbox.first_post);
  const sched::SchedulerStats stats = planner_.scheduler().stats();
  const double end = with_.clock->Now();
  with_.telemetry->Scheduled(end - begin, stats);
  with_.trace->Counters(stats, end);
  Push(std::move(report));
}

}  // namespace thalweg::engine
