#include "tools/signals.h"

#include <signal.h>

#include "base/check.h"

namespace thalweg::tools {
namespace {

volatile sig_atomic_t signal_count = 0;
volatile sig_atomic_t newest_signal = 0;

void Note(int signal) {
  signal_count = signal_count + 1;
  newest_signal = signal;
}

}  // namespace

void CatchSignals(SecondSignal second) {
  struct sigaction action = {};
  action.sa_handler = Note;
  if (second == SecondSignal::kKills) action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

int SignalCount() { return signal_count; }

std::string_view SignalName() {
  TW_CHECK(newest_signal != 0);
  return newest_signal == SIGINT ? "Ctrl-C" : "SIGTERM";
}

int SignalExitCode() {
  TW_CHECK(newest_signal != 0);
  return 128 + newest_signal;
}

}  // namespace thalweg::tools
