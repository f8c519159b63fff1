// JSON that OpenAI's endpoints share: usage, log-probabilities, the head of every chunk.
#pragma once

#include <thalweg/request_output.h>

#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "server/reply.h"
#include "text/tokenizer.h"

namespace thalweg::server {

using base::Json;

// With DeepSeek's hit and miss counts: hit + miss = prompt_tokens.
Json UsageJson(const Usage& usage);
// One entry of "content" in a chat's logprobs: token, logprob, bytes, top_logprobs.
Json ChatLogprobJson(const PositionLogprobs& position, const text::Tokenizer& tokenizer);

// JSON on one line; ill-formed UTF-8 becomes U+FFFD.
std::string DumpOneLine(const Json& json);

// What "id", "object", "created" and "model" say in every piece of one answer.
struct AnswerHead {
  std::string id = {};
  int64_t created = 0;  // Unix seconds
  std::string model = {};

  static AnswerHead Make(std::string_view id_prefix, const std::string& request_id,
                         const std::string& model);
  // {"id":...,"object":...,"created":...,"model":... without the closing brace.
  std::string Open(std::string_view object) const;
  Json ToJson(std::string_view object) const;
};

}  // namespace thalweg::server
