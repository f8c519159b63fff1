// Every limit of this room in one place.
#pragma once

#include <cstdint>

namespace thalweg::grammar {

struct Limits {
  int64_t source_bytes = 1 << 20;  // of a schema, regex or EBNF text
  int64_t nesting = 128;           // of the source
  int64_t symbols = 1 << 19;       // Rules::SymbolCount
  int64_t expressions = 1 << 19;   // of the regex arena, when compiled
  int64_t repetition = 100000;     // the largest count in {m,n}, minItems, maxLength, ...
  double compile_seconds = 2;
  int64_t state_bytes = 64 << 20;  // of states and transitions of one grammar
  double mask_seconds = 1;         // of one operation of a matcher
  int64_t mask_bytes = 32 << 20;   // of remembered masks of one grammar
};

}  // namespace thalweg::grammar
