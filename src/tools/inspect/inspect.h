// `thalweg inspect`: what a checkpoint or a config is, without running it: layer table, tensor
// inventory, active parameters, KV bytes of a token, memory plan; and the end-to-end check.
#pragma once

#include <filesystem>
#include <iostream>

#include "base/status.h"

namespace thalweg::tools {

struct InspectOptions {
  std::filesystem::path path;  // a checkpoint directory, or a config.json alone
  bool json = false;
  // Verifies every tensor against the expected list, the Engram primes, their sums, the multipliers
  // and the token map. Needs a directory.
  bool check = false;
  std::ostream* out = &std::cout;
};

// Nothing is printed when an error is returned.
Status Inspect(const InspectOptions& options);

}  // namespace thalweg::tools
