// One line of a batch file: what is asked, and under which name.
#pragma once

#include <thalweg/llm.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/status.h"

namespace thalweg::tools::batch {

using base::Json;

// "custom_id" or "id", as the line wrote it.
struct LineId {
  std::string key = {};  // empty: the line has none
  std::string value = {};
};

struct LineRequest {
  Prompt prompt = {};
  SamplingParams params = {};
  RequestOptions options = {};
  bool return_token_ids = false;
};

// The line as a JSON object, and its name; an error when it is none.
Result<Json> ParseLine(std::string_view text, LineId* id);

// {"custom_id": ..., "body": {...}} as OpenAI's batches have it, or the body alone with an "id".
// The body has one of messages, prompt and prompt_token_ids, and sampling params; `defaults`, an
// object of sampling params, stand where it leaves them out. Without max_tokens a conversation goes
// on until the context is full. Unknown fields are errors.
Result<LineRequest> RequestOfLine(const Json& line, const Json& defaults);

// The seed of a line that names none: a function of both numbers alone, so that a run that was
// interrupted gives the answers of one that was not.
uint64_t SeedOfLine(uint64_t seed, int64_t line_number);

}  // namespace thalweg::tools::batch
