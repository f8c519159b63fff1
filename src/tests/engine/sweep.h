// How much of what there is the tests of whole engines run: a part of it within a minute, or all.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thalweg::tests {

struct EngineSweep {
  int64_t prefix_step = 1;  // between the lengths of shared prefixes, in tokens
  size_t prompt_step = 1;   // between the prompts that are continued with drafts
  int64_t tokens = 256;     // of each continuation
};

// Of this program (sweep_unit.cc, sweep_slow.cc).
EngineSweep TheEngineSweep();

}  // namespace thalweg::tests
