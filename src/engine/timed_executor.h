// An executor that computes nothing: a step takes as long as it is told to, tokens are made up. It
// measures the control plane alone; the share of time in which a device would be busy, say. Like a
// device, it begins a launched step at once.
#pragma once

#include <chrono>
#include <deque>
#include <functional>

#include "exec/executor.h"

namespace thalweg::engine {

class TimedExecutor : public exec::Executor {
 public:
  // Seconds that a step takes; the executing thread sleeps for them.
  using Cost = std::function<double(const step::StepPlan&)>;
  explicit TimedExecutor(Cost cost) : cost_(std::move(cost)) {}

  bool Launch(const step::StepPlan& plan) override;
  bool Done() override { return ends_.empty() || Clock::now() >= ends_.front(); }
  void Execute(const step::StepPlan& plan, step::StepResult* result) override;

 private:
  using Clock = std::chrono::steady_clock;
  Cost cost_;
  std::deque<Clock::time_point> ends_;  // of launched steps, one behind the other
};

}  // namespace thalweg::engine
