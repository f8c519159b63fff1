// Tells how long each op of a forward took; for timelines.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "kernels/ops.h"

namespace thalweg::exec {

class TimedOps {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Called after each op, on the thread that called the op. Of a backend that queues its work this
  // is the time to queue it.
  using Observer = std::function<void(std::string_view op, Time begin, Time end)>;

  // One lives at a time in a process, since entries of an op table are plain functions:
  // kFailedPrecondition when there is another. `timed` must outlive it.
  static Result<std::unique_ptr<TimedOps>> Make(const kernels::Ops& timed);
  ~TimedOps();
  TimedOps(const TimedOps&) = delete;
  TimedOps& operator=(const TimedOps&) = delete;

  // The table to run a model with. Results are those of the timed one.
  const kernels::Ops& ops() const { return ops_; }
  // Not while an op runs.
  void SetObserver(Observer observer) { observer_ = std::move(observer); }

 private:
  struct Around;
  explicit TimedOps(const kernels::Ops& timed);

  const kernels::Ops& timed_;
  kernels::Ops ops_;
  Observer observer_;
};

}  // namespace thalweg::exec
