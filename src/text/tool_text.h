// Tools and their calls as the model reads them (spec/serving.md 2.3 rules 10, 12, 13; 2.4).
#pragma once

#include <span>
#include <string>

#include "text/chat_encoding.h"
#include "text/prompt_writer.h"

namespace thalweg::text {

// The instruction about tools with one schema on a line; ends with a line end.
void WriteTools(std::span<const ToolDefinition> tools, ChatOptions::SchemaText schema_text,
                PromptWriter* writer);

// The block of calls of a past answer, from its opening tag to its closing one.
void WriteCalls(std::span<const ToolCall> calls, bool unwrap_arguments, PromptWriter* writer);

// What a prompt ends with when the answer has to be a block of calls.
void WriteForcedCalls(PromptWriter* writer);

// The arguments of a call as an object; nothing when the text is no JSON object (it is then one
// string). An empty text is an empty object. `unwrap`: a JSON string that holds an object is it.
std::optional<base::Json> ArgumentsObject(std::string_view arguments, bool unwrap);

}  // namespace thalweg::text
