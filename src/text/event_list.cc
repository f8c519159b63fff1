#include "text/event_list.h"

namespace thalweg::text {
namespace {

// The last event when it is of this kind, which then goes on.
template <typename Event>
Event* Last(OutputEvents& events) {
  return events.empty() ? nullptr : std::get_if<Event>(&events.back());
}

template <typename Event>
void AddText(OutputEvents& events, std::string_view text, Event fresh) {
  if (text.empty()) return;
  if (Event* last = Last<Event>(events)) {
    last->text += text;
    return;
  }
  fresh.text = text;
  events.emplace_back(std::move(fresh));
}

}  // namespace

void EventList::Reasoning(std::string_view text) { AddText(events_, text, ReasoningText{}); }

void EventList::Content(std::string_view text) { AddText(events_, text, ContentText{}); }

void EventList::Arguments(int index, std::string_view text) {
  AddText(events_, text, CallArguments{.index = index, .text = {}});
}

}  // namespace thalweg::text
