#include "tests/engine/sweep.h"

namespace thalweg::tests {

EngineSweep TheEngineSweep() { return {.prefix_step = 1, .prompt_step = 1, .tokens = 256}; }

}  // namespace thalweg::tests
