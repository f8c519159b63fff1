// What every text file owes its reader: plain lines, an opening comment, no unfinished business and
// nothing of the machine it was written on.
#pragma once

#include "tools/lint/source.h"

namespace thalweg::tools::lint {

inline constexpr size_t kMaxColumns = 100;

// Trailing blanks, a missing last line end and marks of unfinished work in any text file; tabs,
// long lines, `#pragma once` and the opening comment in C++ files.
void CheckForm(const SourceFile& file, Findings& findings);

// Absolute paths of one machine, and words of the place where the file was written.
void CheckTraces(const SourceFile& file, Findings& findings);

}  // namespace thalweg::tools::lint
