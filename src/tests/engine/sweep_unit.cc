#include "tests/engine/sweep.h"

namespace thalweg::tests {

EngineSweep TheEngineSweep() { return {.prefix_step = 13, .prompt_step = 23, .tokens = 40}; }

}  // namespace thalweg::tests
