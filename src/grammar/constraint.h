// What a request asks for (so_args of the API), and its compilation to rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/rules.h"
#include "grammar/schema.h"
#include "text/tokenizer.h"

namespace thalweg::grammar {

enum class ConstraintKind : uint8_t { kRegex, kJsonSchema, kEbnf, kJsonObject, kStructural };

struct Constraint {
  ConstraintKind kind = ConstraintKind::kRegex;
  std::string content = {};  // the regex, the schema as JSON, the EBNF text, the structure as JSON
  SchemaOptions schema = {};
  bool operator==(const Constraint&) const = default;
};

// {"type": "regex" | "json_schema" | "ebnf" | "json_object" | "structural", "content": ...}; the
// content of a schema may be an object or its text. Errors name the field.
Result<Constraint> ParseConstraint(const base::Json& so_args);

// `tokenizer` gives the ids of special tokens that a structure names; may be null otherwise.
Result<Rules> CompileConstraint(const Constraint& constraint, const text::Tokenizer* tokenizer,
                                const Limits& limits);

}  // namespace thalweg::grammar
