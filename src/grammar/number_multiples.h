// Numbers that a divisor divides, by their remainder digit by digit.
#pragma once

#include "base/status.h"
#include "grammar/decimal.h"
#include "grammar/regex_arena.h"

namespace thalweg::grammar {

// Contains every spelling (-?digits, with a fraction or none) of a multiple of `divisor`, no
// spelling of another number, and perhaps text that is no number. Errors: kInvalidArgument unless
// divisor > 0, kUnsupported when it needs too many states.
Result<RegexId> MultiplesOf(const Decimal& divisor, RegexArena* arena);

}  // namespace thalweg::grammar
