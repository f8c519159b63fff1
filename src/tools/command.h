// A command of the `thalweg` program: its options, and what it does with them.
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"

namespace thalweg::tools {

using base::OptionKind;
using base::OptionRow;
using base::OptionValues;
using base::Positionals;

// Exit codes.
inline constexpr int kExitOk = 0;
inline constexpr int kExitCheckFailed = 1;  // verify, compare: what was checked does not hold
inline constexpr int kExitError = 2;        // bad input or environment; one message on stderr

struct Command {
  std::string name;  // of two words: a part of the command that the first one names
  std::string about;
  std::vector<OptionRow> options = {};
  Positionals positionals = {};
  // Returns the exit code, or the error to print.
  Result<int> (*run)(const OptionValues&) = nullptr;
};

// Each in its own file.
Command RunCommand();
Command BatchCommand();
Command EvalCommand();
Command SimulateCommand();
Command ScoreCommand();
Command ShiftCommand();
Command VerifyCommand();
Command DumpCommand();
Command CompareCommand();
Command InspectCommand();
Command PullCommand();
Command SynthCommand();
Command ServeCommand();
Command BenchCommand();
Command CalibrateCommand();
Command GrammarCheckCommand();
Command GrammarBenchCommand();
Command ChatEncodeCommand();

}  // namespace thalweg::tools
