#include "tests/model/world.h"

namespace thalweg::tests {

Sweep TheSweep() { return {.first_seed = 10001, .seeds = 800, .longest_prompt = 240}; }

}  // namespace thalweg::tests
