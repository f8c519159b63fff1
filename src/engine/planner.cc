#include "engine/planner.h"

#include "base/check.h"

namespace thalweg::engine {

void Planner::Submit(SubmitCommand submit, Report* report) {
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

void Planner::Apply(Command command, Report* report) {
  if (auto* submit = std::get_if<SubmitCommand>(&command)) {
    Submit(std::move(*submit), report);
    return;
  }
  const StopCommand& stop = std::get<StopCommand>(command);
  for (int32_t i = 0; i < stop.count; ++i) {
    scheduler_.Stop(stop.first_sequence + static_cast<uint64_t>(i));
  }
}

void Planner::Advance(std::unique_ptr<Job> job, Report* report) {
  TW_CHECK(report->job == nullptr);
  --in_flight_;
  report->job = std::move(job);
  scheduler_.Advance(report->job->result, &report->events);
}

bool Planner::Plan(Job* job, Report* report) {
  if (in_flight_ > overlap_ || !scheduler_.NextPlan(&job->plan)) return false;
  for (const step::SequenceStart& start : job->plan.starts) {
    if (start.sampling.prompt_logprobs < 0) continue;
    report->prompt_starts.emplace_back(start.sequence, job->plan.number);
  }
  ++in_flight_;
  return true;
}

bool Planner::Stuck() const {
  if (in_flight_ > 0) return false;
  const sched::SchedulerStats stats = scheduler_.stats();
  return stats.waiting + stats.running > 0;
}

}  // namespace thalweg::engine
