#include "engine/loop.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace thalweg::engine {

Loop::Loop(const sched::SchedulerOptions& options, double watchdog_seconds,
           const Surroundings& surroundings)
    : overlap_(options.overlap_depth),
      with_(surroundings),
      watchdog_(watchdog_seconds),
      scheduler_(options),
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

// Sleeps until there is something new, and takes it. False: the loop ends.
bool Loop::Wait(Inbox* inbox) {
  std::unique_lock lock(mutex_);
  const auto news = [&] { return !inbox_.empty() || inbox_.closing; };
  while (!news() || (inbox_.empty() && in_flight_ > 0)) {
    const std::optional<double> deadline =
        in_flight_ > 0 ? watchdog_.Deadline(lane_.running(), with_.clock->Now()) : std::nullopt;
    if (!deadline.has_value()) {
      wakes_.wait(lock);
    } else if (wakes_.wait_until(lock, with_.clock->TimeOf(*deadline)) == std::cv_status::timeout) {
      watchdog_.Look(lane_.running(), with_.clock->Now());
    }
  }
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

void Loop::ApplySubmit(Submit submit, Report* report) {
  report->submitted.push_back(std::move(submit.record));
  for (sched::Request& request : submit.sequences) {
    const uint64_t sequence = request.sequence;
    const Status status = scheduler_.Submit(std::move(request));
    if (status.ok()) continue;
    report->events.push_back({.kind = sched::Event::Kind::kFinished,
                              .sequence = sequence,
                              .finish = sched::Finish::kError,
                              .status = status});
  }
}

void Loop::Apply(Command command, Report* report) {
  if (auto* submit = std::get_if<Submit>(&command)) {
    ApplySubmit(std::move(*submit), report);
    return;
  }
  const Stop& stop = std::get<Stop>(command);
  for (int32_t i = 0; i < stop.count; ++i) {
    scheduler_.Stop(stop.first_sequence + static_cast<uint64_t>(i), stop.reason);
  }
}

// A report holds one job; the events of its own result point into it.
void Loop::Advance(std::vector<std::unique_ptr<Job>> done, Report* report) {
  for (std::unique_ptr<Job>& job : done) {
    if (report->job != nullptr) Push(std::exchange(*report, {}));
    --in_flight_;
    report->at = job->end;
    report->job = std::move(job);
    scheduler_.Advance(report->job->result, &report->events);
  }
}

void Loop::Plan(Report* report) {
  while (in_flight_ <= overlap_) {
    const double begin = with_.clock->Now();
    std::unique_ptr<Job> job = with_.jobs->Get();
    if (!scheduler_.NextPlan(&job->plan)) {
      with_.jobs->Put(std::move(job));
      return;
    }
    for (const step::SequenceStart& start : job->plan.starts) {
      if (start.sampling.prompt_logprobs < 0) continue;
      report->prompt_starts.emplace_back(start.sequence, job->plan.number);
    }
    with_.trace->Span(Trace::Thread::kPlan, "plan", begin, with_.clock->Now(),
                      fmt::format(R"("number":{})", job->plan.number));
    ++in_flight_;
    lane_.Push(std::move(job));
  }
}

void Loop::NoteWork(double since) {
  const bool working = in_flight_ > 0 || !scheduler_.idle();
  if (working == working_) return;
  working_ = working;
  lane_.SetWorkSince(working ? std::optional(since) : std::nullopt);
}

void Loop::Push(Report report) {
  if (report.job == nullptr && report.events.empty() && report.submitted.empty() &&
      report.prompt_starts.empty())
    return;
  if (report.job == nullptr) report.at = with_.clock->Now();
  with_.pump->Push(std::move(report));
}

void Loop::Turn(Inbox inbox) {
  const double begin = with_.clock->Now();
  Report report;
  for (Command& command : inbox.commands) Apply(std::move(command), &report);
  NoteWork(inbox.first_post);
  Advance(std::move(inbox.done), &report);
  if (!inbox.closing) Plan(&report);
  scheduler_.TakeEvents(&report.events);
  NoteWork(inbox.first_post);
  const sched::SchedulerStats stats = scheduler_.stats();
  const double end = with_.clock->Now();
  // The scheduler never waits for anything but a plan under way; else its requests would hang.
  TW_CHECK(inbox.closing || in_flight_ > 0 || stats.waiting + stats.running == 0);
  with_.telemetry->Scheduled(end - begin, stats);
  with_.trace->Counters(stats, end);
  Push(std::move(report));
}

}  // namespace thalweg::engine
