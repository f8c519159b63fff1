// The strings that a JSON Schema allows, as plain text: what stands between the tags of a DSML
// parameter.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/regex_arena.h"

namespace thalweg::grammar {

// The part of the language of `schema` that are strings, in UTF-8 and without quotes; kNothing if
// it allows none. `root` holds what `$ref` names: #/$defs/NAME or #/definitions/NAME. Errors name
// the keyword; kUnsupported where it cannot be enforced.
Result<RegexId> StringsOf(const base::Json& schema, const base::Json& root, const Limits& limits,
                          RegexArena* arena);
// Whether it may allow anything but strings.
Result<bool> AllowsMoreThanStrings(const base::Json& schema, const base::Json& root);

}  // namespace thalweg::grammar
