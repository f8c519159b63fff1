// What the control plane costs, measured without a device: the engine as it is over steps of known
// time (docs/performance.md).
#pragma once

#include <cstdint>

#include "base/status.h"

namespace thalweg::engine {

struct ControlPlaneLoad {
  int64_t sequences = 8;       // that run at a time
  int64_t prompt_tokens = 32;  // of each
  int64_t output_tokens = 200;
  double step_seconds = 0.005;  // of the device
  int64_t overlap = 1;
};

// From the step after which every sequence had a token to the first that ended.
struct ControlPlaneFigures {
  uint64_t steps = 0;
  double busy_share = 0;            // of the device
  double schedule_us_per_step = 0;  // inside the scheduler, mean
  double tokens_per_second = 0;
};

// Runs the load to its end. Errors: a load that the scheduler cannot take.
Result<ControlPlaneFigures> MeasureControlPlane(const ControlPlaneLoad& load);

}  // namespace thalweg::engine
