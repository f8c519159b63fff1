// The ways in which peers ask for structured output, as so_args
// (docs/structured.md).
#pragma once

#include <string>
#include <string_view>

#include "api/json_values.h"

namespace thalweg::api {

// so_args themselves: an object, or its text. Null: nothing asked for, an empty
// text. What they say is checked by the engine.
Result<std::string> SoArgsText(const Json& json, std::string_view what);
// OpenAI's response_format: "text", "json_object", "json_schema".
Result<std::string> SoArgsOfResponseFormat(const Json& json, std::string_view what);
// vLLM's structured_outputs: one of json, regex, choice, grammar, json_object.
Result<std::string> SoArgsOfStructuredOutputs(const Json& json, std::string_view what);

}  // namespace thalweg::api
