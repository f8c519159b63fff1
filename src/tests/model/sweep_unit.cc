#include "tests/model/world.h"

namespace thalweg::tests {

Sweep TheSweep() { return {.first_seed = 1, .seeds = 200, .longest_prompt = 60}; }

}  // namespace thalweg::tests
