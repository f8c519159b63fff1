// A random program of operations, which every rank runs, with data that each can compute for all:
// the obvious model that results are compared with.
#pragma once

#include <cstdint>

#include "comm/communicator.h"

namespace thalweg::comm {

struct ProgramOptions {
  uint64_t seed = 0;
  int operations = 0;
  int most_delay_us = 0;  // before each operation, drawn for each rank
  int64_t most_bytes = 5000;
};

// ok, the error of an operation, or what differs from the model.
Status RunProgram(Communicator& communicator, const ProgramOptions& options);

}  // namespace thalweg::comm
