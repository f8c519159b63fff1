// Public requests as the engine takes them.
#pragma once

#include <thalweg/llm.h>

#include "base/status.h"
#include "engine/request.h"
#include "text/tokenizer.h"

namespace thalweg::api {

struct PreparedRequest {
  engine::GenerateRequest request = {};  // the prompt as token ids
  RequestOutput output = {};             // what is known of it before the first token
};

// Tokenizes and converts. Ranges of the parameters are checked by the engine. `tokenizer` may be
// null: then text is an error.
Result<PreparedRequest> PrepareRequest(const text::Tokenizer* tokenizer, const Prompt& prompt,
                                       const SamplingParams& params, const RequestOptions& options);

}  // namespace thalweg::api
