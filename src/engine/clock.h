// Seconds since the engine started, on the steady clock.
#pragma once

#include <chrono>

namespace thalweg::engine {

class Clock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  double Now() const { return At(std::chrono::steady_clock::now()); }
  double At(Time time) const { return std::chrono::duration<double>(time - start_).count(); }
  // The moment that lies `seconds` after the start.
  Time TimeOf(double seconds) const {
    return start_ +
           std::chrono::duration_cast<Time::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  const Time start_ = std::chrono::steady_clock::now();
};

}  // namespace thalweg::engine
