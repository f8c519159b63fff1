// Text that is free until a trigger and follows a grammar after it (so_args "structural"): for tool
// calls in other notations, and for answers of several parts. The notation is that of XGrammar's
// structural tags, which vLLM and SGLang take as `structural_tag`.
#pragma once

#include "base/json.h"
#include "base/status.h"
#include "grammar/limits.h"
#include "grammar/rules.h"
#include "grammar/schema.h"
#include "text/tokenizer.h"

namespace thalweg::grammar {

// `structure` is one of
//   {"triggers": [{"begin", "content", "end"}, ...], "at_least_one", "stop_after_first"}
//   {"structures": [{"begin", "schema", "end"}, ...], "triggers": ["...", ...]}   (OpenAI-like)
//   {"type": "structural_tag", "format": FORMAT}
//   FORMAT: an object with a "type" of docs/grammar.md
// Special tokens that `tokenizer` knows may be spelled in begin, end, triggers and constant text;
// null: there are none. An unknown field or type is an error that names its path.
Result<Symbol> AddStructure(const base::Json& structure, const SchemaOptions& options,
                            const text::Tokenizer* tokenizer, const Limits& limits, Rules* rules);

}  // namespace thalweg::grammar
