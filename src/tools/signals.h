// Ctrl-C and SIGTERM, as commands see them: noted, and looked at between two pieces of work.
#pragma once

#include <string_view>

namespace thalweg::tools {

// What a second signal does.
enum class SecondSignal {
  kKills,   // ends the process at once, as it would without a handler
  kCounts,  // is noted like the first
};

// From now on signals are noted. May be called again, to change what a second one does.
void CatchSignals(SecondSignal second);

int SignalCount();  // noted so far
// Of the newest one. Without one: not to be called.
std::string_view SignalName();  // "Ctrl-C", "SIGTERM"
int SignalExitCode();           // 128 + its number, as shells count

}  // namespace thalweg::tools
