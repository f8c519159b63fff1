// JSON Schema (2020-12; draft-07 spellings accepted) to rules over the text of a JSON value.
#pragma once

#include <cstdint>

#include "base/json.h"
#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/rules.h"

namespace thalweg::grammar {

struct SchemaOptions {
  enum class Whitespace : uint8_t {
    kFlexible,  // as JSON allows between tokens, at most a few characters in a row
    kCompact,   // none
    kPython,    // ", " and ": ", as json.dumps writes; nothing else
  };
  Whitespace whitespace = Whitespace::kFlexible;
  bool any_order = false;  // properties in any order; refused where that would not be exact
  bool strict = false;     // objects that do not say so are closed (additionalProperties: false)
  // Formats that are not known are annotations, as in the specification; otherwise an error.
  bool open_formats = false;
  bool operator==(const SchemaOptions&) const = default;
};

// The rules whose start is the text of every JSON value that is valid. What cannot be enforced
// exactly is an error that names keyword and path (kUnsupported); what is wrong, likewise
// (kInvalidArgument).
Result<Rules> CompileSchema(const base::Json& schema, const SchemaOptions& options,
                            const Limits& limits);
// The same, added to existing rules: for tool calls.
Result<Symbol> AddSchema(const base::Json& schema, const SchemaOptions& options,
                         const Limits& limits, Rules* rules);
// Any JSON value; any JSON object (json_object).
Result<Symbol> AddAnyJson(const SchemaOptions& options, Rules* rules);
Result<Symbol> AddAnyObject(const SchemaOptions& options, Rules* rules);

}  // namespace thalweg::grammar
