// One rank runs one plan. The control plane knows this interface alone; tests put a fake device
// behind it.
#pragma once

#include <cstdint>

#include "step/plan.h"

namespace thalweg::exec {

class Executor {
 public:
  virtual ~Executor() = default;
  // Starts a step on a device that works beside the host and returns at once. Another one may be
  // launched behind it before Execute with the same plan waits for it; plans come in order to both.
  // false: nothing was started, Execute does all of it, when no launched step is left.
  virtual bool Launch(const step::StepPlan& /*plan*/) { return false; }
  // Whether Execute of the oldest launched step would not wait.
  virtual bool Done() { return true; }
  // Runs the plan to its end and fills `result`, one entry for each of plan.rows. Called by one
  // thread, plans in order. A step that fails as a whole has result->status set and has changed
  // nothing but closes and starts.
  virtual void Execute(const step::StepPlan& plan, step::StepResult* result) = 0;
};

}  // namespace thalweg::exec
