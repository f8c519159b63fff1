// Names that have one place or none: environment reads, threads, unseeded randomness, unbounded
// string functions, writes to standard output.
#pragma once

#include "tools/lint/source.h"

namespace thalweg::tools::lint {

// Findings for banned names in the code of a C++ file: comments and literals do not count.
void CheckSymbols(const SourceFile& file, Findings& findings);

}  // namespace thalweg::tools::lint
