// Names a step that takes too long in the log, once.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/lane.h"

namespace thalweg::engine {

class Watchdog {
 public:
  // `seconds` a step may take; 0: no limit.
  explicit Watchdog(double seconds) : seconds_(seconds) {}

  // When to look again, on the engine's clock; nothing: never for this step. Without a running step
  // one is about to begin.
  std::optional<double> Deadline(const std::optional<RunningStep>& running, double now) const;
  // Logs the step if it is overdue and has not been named.
  void Look(const std::optional<RunningStep>& running, double now);

  uint64_t named() const { return named_; }  // number of the step named last; 0: none

 private:
  double seconds_;
  uint64_t named_ = 0;
};

}  // namespace thalweg::engine
