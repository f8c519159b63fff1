#include "engine/watchdog.h"

#include <spdlog/spdlog.h>

namespace thalweg::engine {

std::optional<double> Watchdog::Deadline(const std::optional<RunningStep>& running,
                                         double now) const {
  if (seconds_ <= 0) return std::nullopt;
  if (!running.has_value()) return now + seconds_;
  if (running->number == named_) return std::nullopt;
  return running->since + seconds_;
}

void Watchdog::Look(const std::optional<RunningStep>& running, double now) {
  if (seconds_ <= 0 || !running.has_value() || running->number == named_) return;
  if (now - running->since < seconds_) return;
  named_ = running->number;
  spdlog::warn(
      "step {} has been executing for {:.1f} s ({} rows of {} sequences); it may hang "
      "(--watchdog sets the limit)",
      running->number, now - running->since, running->rows, running->sequences);
}

}  // namespace thalweg::engine
