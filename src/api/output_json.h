// Outputs and errors as JSON.
#pragma once

#include <thalweg/request_output.h>

#include <string>

#include "base/json.h"

namespace thalweg::api {

using base::Json;

Json ErrorJson(const Error& error);                    // {"code", "message"}
Json LogprobsJson(const CompletionOutput& output);     // an array, or null without logprobs
Json PromptLogprobsJson(const RequestOutput& output);  // likewise; null for the first token
Json CompletionJson(const CompletionOutput& output);   // names of CompletionOutput
Json OutputJson(const RequestOutput& output);          // names of RequestOutput
// On one line, not escaped beyond need. Ill-formed UTF-8 (of the caller's own prompt) becomes
// U+FFFD.
std::string DumpJson(const Json& json);

}  // namespace thalweg::api
