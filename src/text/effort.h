// How hard the model is asked to think (spec/serving.md 2.5).
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace thalweg::text {

inline constexpr int kMinEffort = 1;
inline constexpr int kMaxEffort = 100;
inline constexpr int kLowEffort = 50;
inline constexpr int kDefaultEffort = 75;

// What a client asks for: thinking or not, and with it an effort.
struct EffortChoice {
  bool thinking = true;
  int effort = kDefaultEffort;
  bool operator==(const EffortChoice&) const = default;
};

// A name: minimal, low (50), medium, high, xhigh (75), max (100) or none (no thinking). Errors list
// what is allowed.
Result<EffortChoice> ParseEffortName(std::string_view name);

// A name or a number as text: the above or a whole number 1..100.
Result<EffortChoice> ParseEffortChoice(std::string_view text);

// The same for those who think anyway: none is an error.
Result<int> ParseEffort(std::string_view text);

// Within kMinEffort..kMaxEffort, or an error that lists what is allowed.
Status CheckEffort(int effort);

}  // namespace thalweg::text
