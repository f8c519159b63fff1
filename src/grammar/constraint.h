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
// content of a schema or structure may be an object or its text, that of json_object is left out.
// Further fields, as in SchemaOptions: "whitespace" ("flexible", "compact", "python"), "any_order",
// "strict", "open_formats". Any other field is an error; errors name the field.
Result<Constraint> ParseConstraint(const base::Json& so_args);

// `tokenizer` gives the ids of special tokens that a structure names; may be null otherwise.
Result<Rules> CompileConstraint(const Constraint& constraint, const text::Tokenizer* tokenizer,
                                const Limits& limits);

// The same, added to existing rules, whose arena has a limit of work (RegexArena::LimitWork).
Result<Symbol> AddConstraint(const Constraint& constraint, const text::Tokenizer* tokenizer,
                             const Limits& limits, Rules* rules);

// Steps of the arena (RegexArena::LimitWork) that a compilation may take: about two seconds.
inline constexpr int64_t kCompileWork = 20'000'000;
// The last step of a compilation: checks the limits and makes `start` the start.
Result<Rules> FinishRules(Symbol start, const Limits& limits, Rules rules);

}  // namespace thalweg::grammar
