// Tool calls of DeepSeek-V4.1 (DSML, spec/serving.md 2.3 and 2.4) as a grammar: names are those of
// the tools, arguments follow their schemas.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/rules.h"
#include "grammar/schema.h"

namespace thalweg::grammar {

struct ToolCallOptions {
  enum class Choice : uint8_t {
    kAuto,      // free text, then perhaps a block of calls, which ends the turn
    kRequired,  // a block of calls, after line ends or none
    kNamed,     // the same, of the tool `name` alone
  };
  Choice choice = Choice::kAuto;
  std::string name = {};
  bool parallel = true;     // more than one call in the block
  bool block_open = false;  // the prompt ends in the first line of the block; not with kAuto
  SchemaOptions schema = {.whitespace = SchemaOptions::Whitespace::kPython};
};

// `tools`: a list of {"name", "description", "parameters"}, or of {"type": "function", "function":
// {...}} around them. Parameters are written in the order of the schema, each at most once, and no
// others: a schema that leaves other properties open is narrowed to those that it names. A string
// stands as it is (string="true") and cannot hold the beginning of a closing tag; other values are
// JSON. Errors name tool and parameter; kUnsupported where a keyword cannot be enforced.
Result<Rules> ToolCallRules(const base::Json& tools, const ToolCallOptions& options,
                            const Limits& limits);
// The same, added to existing rules, whose arena has a limit of work.
Result<Symbol> AddToolCalls(const base::Json& tools, const ToolCallOptions& options,
                            const Limits& limits, Rules* rules);
// The options of {"tools": [...], "tool_choice": "auto" | "required" | {"type": "function",
// "function": {"name": ...}}, "parallel_tool_calls": true, "block_open": false}, as OpenAI names
// them; the whitespace is that of `schema`, flexible or not.
Result<ToolCallOptions> ParseToolCallOptions(const base::Json& json, const SchemaOptions& schema);

}  // namespace thalweg::grammar
