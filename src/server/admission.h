// How many requests may be under way: in all, for one API key, and for one API key in a minute.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <variant>

#include "server/errors.h"
#include "server/limits.h"

namespace thalweg::server {

// What one API key may do; 0: as much as all together.
struct KeyLimits {
  int64_t requests = 0;  // under way
  int64_t rate = 0;      // a minute
};

class Admission {
 public:
  // A request that is under way; gives its place back when it goes.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Admission* admission, std::string caller)
        : admission_(admission), caller_(std::move(caller)) {}
    Ticket(Ticket&& other) noexcept { *this = std::move(other); }
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(admission_, other.admission_);
      std::swap(caller_, other.caller_);
      return *this;
    }
    ~Ticket() {
      if (admission_ != nullptr) admission_->Leave(caller_);
    }

   private:
    Admission* admission_ = nullptr;
    std::string caller_;
  };
  using Clock = std::chrono::steady_clock;

  explicit Admission(int64_t most) : most_(most) {}

  // A place for a request of `caller`, or the error 429 that says which limit is reached.
  std::variant<Ticket, ApiError> Enter(const std::string& caller, const KeyLimits& limits,
                                       Clock::time_point now);
  int64_t under_way() const;

 private:
  struct Caller {
    int64_t under_way = 0;
    double allowance = 0;  // requests that the rate allows now
    Clock::time_point refilled = {};
    bool known = false;
  };
  void Leave(const std::string& caller);
  static bool TakeFromRate(int64_t rate, Clock::time_point now, Caller* caller);

  const int64_t most_;
  mutable std::mutex mutex_;
  int64_t under_way_ = 0;
  std::unordered_map<std::string, Caller> callers_;
};

}  // namespace thalweg::server
