// Waiting for something that another thread or process does: spinning first, which is quick; then
// giving way; then asleep, which leaves the processor to whom one waits for.
#pragma once

#include <sched.h>

#include <algorithm>
#include <thread>

#include "comm/limits.h"

namespace thalweg::comm {

class Backoff {
 public:
  explicit Backoff(Clock::time_point now) : began_(now), look_(now + kBetweenLooks) {}

  // Whether it is time to look after the other ranks again.
  bool TimeToLook(Clock::time_point now) {
    if (now < look_) return false;
    look_ = now + kBetweenLooks;
    return true;
  }
  void Pause(Clock::time_point now) {
    const auto waited = now - began_;
    if (waited < kSpin) return;
    if (waited < kYield) {
      sched_yield();
      return;
    }
    std::this_thread::sleep_for(std::min<Clock::duration>(waited / 16, kMostSleep));
  }

 private:
  static constexpr std::chrono::microseconds kSpin{30};
  static constexpr std::chrono::microseconds kYield{500};
  static constexpr std::chrono::microseconds kMostSleep{500};
  static constexpr Milliseconds kBetweenLooks{10};

  Clock::time_point began_;
  Clock::time_point look_;
};

}  // namespace thalweg::comm
