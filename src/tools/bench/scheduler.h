// thalweg bench scheduler: the control plane's own time for a step, without a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace thalweg::tools::bench {

inline constexpr int64_t kMostRunning = 16384;
inline constexpr double kDeviceStepSeconds = 0.005;

struct SchedulerFigure {
  int64_t running = 0;  // sequences that decode, one row each in every step
  int64_t steps = 0;
  double us_per_step_median = 0;  // NextPlan and Advance
  double us_per_step_mean = 0;
  double us_per_step_p99 = 0;
  double ns_per_sequence = 0;  // of the median
  // Of the whole engine over a device whose steps last kDeviceStepSeconds: the share of the time in
  // which the device has a step.
  double device_busy = 0;
};

// The real scheduler over `running` sequences of `context` tokens, planned one step ahead, tokens
// made up by hash; every step measured decodes all of them. An error when the scheduler refuses.
Result<SchedulerFigure> BenchScheduler(int64_t running, int64_t context, int64_t steps);

base::Json ToJson(const std::vector<SchedulerFigure>& figures);
std::string ToTable(const std::vector<SchedulerFigure>& figures);

}  // namespace thalweg::tools::bench
