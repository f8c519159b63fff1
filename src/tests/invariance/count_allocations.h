// Counts allocations of the whole program. Whoever links the body of this has every operator new of
// the program replaced.
#pragma once

#include <cstdint>

namespace thalweg::tests {

// Calls of operator new so far, on any thread.
int64_t Allocations();

}  // namespace thalweg::tests
