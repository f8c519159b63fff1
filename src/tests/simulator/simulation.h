// The control plane in virtual time: intake, planner, scheduler, cache and output as they are, over
// a fake device with scripted latencies and failures; one thread, one seed, one history.
#pragma once

#include <cstdint>
#include <string>

#include "sched/scheduler.h"

namespace thalweg::tests {

struct SimulationReport {
  std::string problem = {};  // what did not hold; empty: everything did
  uint64_t steps = 0;
  uint64_t sequences = 0;  // that ended
  uint64_t stopped_by_string = 0, cancelled = 0, failed = 0;
  uint64_t tokens = 0;
  uint64_t longest_wait = 0;  // steps between submission and first token, of any sequence
  sched::SchedulerStats stats = {};
};

// Runs until `steps` steps have been executed and everything that was submitted has ended. Checked
// all along: the scheduler's audit after every event, plans within budget, every sequence ends
// once, no token after an end, tokens equal to those of the sequence alone (where prefixes are
// reused exactly or not at all).
SimulationReport Simulate(uint64_t seed, uint64_t steps);

}  // namespace thalweg::tests
