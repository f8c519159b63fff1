// Events in the making: neighbouring pieces of the same kind become one.
#pragma once

#include <string_view>
#include <utility>

#include "text/output_events.h"

namespace thalweg::text {

class EventList {
 public:
  void Reasoning(std::string_view text);
  void Content(std::string_view text);
  void Arguments(int index, std::string_view text);
  template <typename Event>
  void Add(Event&& event) {
    events_.emplace_back(std::forward<Event>(event));
  }

  // Everything since the last call.
  OutputEvents Take() { return std::exchange(events_, {}); }

 private:
  OutputEvents events_;
};

}  // namespace thalweg::text
