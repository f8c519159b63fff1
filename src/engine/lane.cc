#include "engine/lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"

namespace thalweg::engine {
namespace {

constexpr std::chrono::microseconds kPoll(50);  // how long a step that has ended may go unseen

}  // namespace

Lane::Lane(exec::Executor* executor, const base::ThreadTeam* team, const Clock* clock,
           Telemetry* telemetry, Trace* trace, Done done)
    : executor_(executor),
      team_(team),
      clock_(clock),
      telemetry_(telemetry),
      trace_(trace),
      done_(std::move(done)),
      thread_([this] { Run(); }) {}

Lane::~Lane() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

void Lane::Push(std::unique_ptr<Job> job) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(job));
  }
  wakes_.notify_one();
}

void Lane::SetWorkSince(std::optional<double> since) {
  const std::scoped_lock lock(mutex_);
  work_since_ = since;
}

std::optional<RunningStep> Lane::running() const {
  const std::scoped_lock lock(mutex_);
  return running_;
}

double Lane::IdleSeconds(double waiting_since, double now) const {
  if (!work_since_.has_value()) return 0;
  return std::max(0.0, now - std::max(waiting_since, *work_since_));
}

// The next job; null when there is none and nobody waits, or when the lane closes.
std::unique_ptr<Job> Lane::Pop(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait) {
    running_.reset();
    wakes_.wait(lock, [&] { return closing_ || !queue_.empty(); });
  }
  if (queue_.empty()) return nullptr;
  std::unique_ptr<Job> job = std::move(queue_.front());
  queue_.pop_front();
  return job;
}

// The step begins.
void Lane::Begin(Job* job, double begin) {
  const std::scoped_lock lock(mutex_);
  job->begin = begin;
  idle_seconds_ = IdleSeconds(waiting_since_, begin);
  running_ = RunningStep{.number = job->plan.number,
                         .rows = job->plan.RowCount(),
                         .sequences = static_cast<int64_t>(job->plan.rows.size()),
                         .since = begin};
}

// The job that comes next; null when there is none, after a while where `wait`.
const Job* Lane::Front(bool wait) {
  std::unique_lock lock(mutex_);
  if (wait && queue_.empty()) wakes_.wait_for(lock, kPoll, [&] { return !queue_.empty(); });
  return queue_.empty() ? nullptr : queue_.front().get();  // nobody else takes it
}

// While the device runs a step, it gets the next one as soon as that is planned.
void Lane::LaunchAhead() {
  while (true) {
    const bool done = executor_->Done();
    const Job* next = Front(!done);
    if (next != nullptr) {
      if (executor_->Launch(next->plan)) launched_ = Pop(false);
      return;
    }
    if (done) return;
  }
}

void Lane::Execute(Job* job) {
  job->result.number = job->plan.number;
  job->result.Clear();
  executor_->Execute(job->plan, &job->result);
  job->end = clock_->Now();
  job->result.execute_seconds = job->end - job->begin;
  TW_CHECK_EQ(job->result.number, job->plan.number);
  if (!trace_->on()) return;
  trace_->Span(Trace::Thread::kExecute, "step", job->begin, job->end,
               fmt::format(R"("number":{},"rows":{},"sequences":{},"starts":{})", job->plan.number,
                           job->plan.RowCount(), job->plan.rows.size(), job->plan.starts.size()));
}

void Lane::Run() {
  if (team_ != nullptr) team_->PinCaller();
  waiting_since_ = clock_->Now();
  while (true) {
    std::unique_ptr<Job> job = std::move(launched_);
    bool launched = job != nullptr;
    if (launched) {
      Begin(job.get(), waiting_since_);
    } else {
      job = Pop(true);
      if (job == nullptr) return;
      Begin(job.get(), clock_->Now());
      launched = executor_->Launch(job->plan);
    }
    const double idle_seconds = idle_seconds_;
    if (launched) LaunchAhead();
    Execute(job.get());
    waiting_since_ = job->end;
    telemetry_->Executed(job->plan.RowCount(), job->end - job->begin, idle_seconds);
    done_(std::move(job));
  }
}

}  // namespace thalweg::engine
