#include "engine/output_pump.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"

namespace thalweg::engine {

OutputPump::OutputPump(OutputStage* stage, const Clock* clock, Trace* trace, JobPool* jobs)
    : stage_(stage), clock_(clock), trace_(trace), jobs_(jobs), thread_([this] { Run(); }) {}

OutputPump::~OutputPump() {
  {
    const std::scoped_lock lock(mutex_);
    closing_ = true;
  }
  wakes_.notify_one();
  thread_.join();
}

void OutputPump::Push(Report report) {
  {
    const std::scoped_lock lock(mutex_);
    queue_.push_back(std::move(report));
  }
  wakes_.notify_one();
}

// Everything that was reported; empty when the pump closes.
std::vector<Report> OutputPump::Wait() {
  std::unique_lock lock(mutex_);
  wakes_.wait(lock, [&] { return closing_ || !queue_.empty(); });
  return std::exchange(queue_, {});
}

void OutputPump::Run() {
  while (true) {
    std::vector<Report> reports = Wait();
    if (reports.empty()) break;
    const double begin = clock_->Now();
    for (Report& report : reports) {
      stage_->Handle(report);
      if (report.job != nullptr) jobs_->Put(std::move(report.job));
    }
    stage_->Deliver();
    if (!trace_->on()) continue;
    trace_->Span(Trace::Thread::kOutput, "output", begin, clock_->Now(),
                 fmt::format(R"("reports":{})", reports.size()));
    trace_->Flush();
  }
  TW_CHECK(stage_->empty());
}

}  // namespace thalweg::engine
