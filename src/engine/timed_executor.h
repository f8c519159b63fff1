// An executor that computes nothing: a step takes as long as it is told to, tokens are made up. It
// measures the control plane alone; the share of time in which a device would be busy, say.
#pragma once

#include <functional>

#include "exec/executor.h"

namespace thalweg::engine {

class TimedExecutor : public exec::Executor {
 public:
  // Seconds that a step takes; the executing thread sleeps for them.
  using Cost = std::function<double(const step::StepPlan&)>;
  explicit TimedExecutor(Cost cost) : cost_(std::move(cost)) {}

  void Execute(const step::StepPlan& plan, step::StepResult* result) override;

 private:
  Cost cost_;
};

}  // namespace thalweg::engine
