// Prompts and whole requests from JSON, for the C interface and the batch files.
#pragma once

#include <thalweg/llm.h>

#include <string_view>
#include <vector>

#include "api/json_values.h"

namespace thalweg::api {

// "text", [token ids], {"prompt": "text"}, {"prompt_token_ids": [...]} or {"messages": [...],
// ...} as ConversationFromJson takes. `what` names the value in messages.
Result<Prompt> PromptFromJson(const Json& json, std::string_view what);
// What ConversationFromJson takes.
Result<Conversation> ConversationFromText(std::string_view json);

struct BatchRequest {
  std::vector<Prompt> prompts = {};
  std::vector<SamplingParams> params = {};  // one for all, or one each
};
// {"prompts": [...], "params": {...} or [...]}: what thalweg_generate takes.
Result<BatchRequest> BatchFromJson(std::string_view json);

struct SingleRequest {
  Prompt prompt = {};
  SamplingParams params = {};
  RequestOptions options = {};
};
// {"prompt": ..., "params": {...}, "request_id": "..."}: what thalweg_stream takes.
Result<SingleRequest> SingleFromJson(std::string_view json);

// Option names and plain values, as LLMOptions takes them; "" counts as {}.
Result<LLMOptions> OptionsFromJson(std::string_view json);

}  // namespace thalweg::api
