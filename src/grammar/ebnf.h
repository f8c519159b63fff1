// EBNF to rules: the GBNF and W3C notation, and a subset of Lark's.
#pragma once

#include <string_view>

#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/rules.h"

namespace thalweg::grammar {

// The notation is recognised by its first rule (`name ::=` or `name:`). Errors name line and
// column. The start rule is `root` (GBNF, W3C) or `start` (Lark), or else the first one.
Result<Rules> ParseEbnf(std::string_view text, const Limits& limits);
// The same, added to existing rules, whose arena has a limit of work: rules that double each other
// grow beyond any memory.
Result<Symbol> AddEbnf(std::string_view text, const Limits& limits, Rules* rules);

}  // namespace thalweg::grammar
