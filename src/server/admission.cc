#include "server/admission.h"

#include <fmt/format.h>

#include <algorithm>

namespace thalweg::server {

// A bucket that holds the requests of one minute and fills evenly.
bool Admission::TakeFromRate(int64_t rate, Clock::time_point now, Caller* caller) {
  if (rate <= 0) return true;
  const auto most = static_cast<double>(rate);
  const double seconds = std::chrono::duration<double>(now - caller->refilled).count();
  caller->allowance =
      caller->known ? std::min(most, caller->allowance + seconds * most / 60) : most;
  caller->refilled = now;
  caller->known = true;
  if (caller->allowance < 1) return false;
  caller->allowance -= 1;
  return true;
}

std::variant<Admission::Ticket, ApiError> Admission::Enter(const std::string& caller,
                                                           const KeyLimits& limits,
                                                           Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  if (under_way_ >= most_) {
    return OverloadedError(
        fmt::format("{} requests are under way, which is the most: try again later", under_way_));
  }
  Caller& entry = callers_[caller];
  if (limits.requests > 0 && entry.under_way >= limits.requests) {
    return OverloadedError(fmt::format(
        "this API key has {} requests under way, which is its most: wait for one to end",
        entry.under_way));
  }
  if (!TakeFromRate(limits.rate, now, &entry)) {
    return OverloadedError(
        fmt::format("this API key may ask {} times a minute: try again later", limits.rate));
  }
  ++under_way_;
  ++entry.under_way;
  return Ticket(this, caller);
}

void Admission::Leave(const std::string& caller) {
  const std::scoped_lock lock(mutex_);
  --under_way_;
  const auto at = callers_.find(caller);
  if (at != callers_.end()) --at->second.under_way;
}

int64_t Admission::under_way() const {
  const std::scoped_lock lock(mutex_);
  return under_way_;
}

}  // namespace thalweg::server
