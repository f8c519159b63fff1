// A command as one of several ranks that mpirun or srun started: rank 0 runs it, the others follow
// its engine (docs/ranks.md).
#pragma once

#include "tools/command.h"

namespace thalweg::tools {

// Runs a command, whoever started the program. Returns the exit code, or the error to print; a rank
// of a broken group does not return.
Result<int> RunOnRanks(const Command& command, const OptionValues& values);

}  // namespace thalweg::tools
