#include "server/openai_json.h"

#include <fmt/format.h>

#include <chrono>

#include "server/sse.h"

namespace thalweg::server {
namespace {

Json BytesJson(std::string_view bytes) {
  Json json = Json::array();
  for (const char c : bytes) json.push_back(static_cast<unsigned char>(c));
  return json;
}

Json TokenJson(const Logprob& value, const text::Tokenizer& tokenizer) {
  Json json;
  json["token"] = value.decoded_token;
  json["logprob"] = value.logprob;
  json["bytes"] = BytesJson(tokenizer.TokenBytes(value.token_id));
  return json;
}

}  // namespace

Json UsageJson(const Usage& usage) {
  Json json;
  json["prompt_tokens"] = usage.prompt;
  json["completion_tokens"] = usage.completion;
  json["total_tokens"] = usage.prompt + usage.completion;
  json["prompt_tokens_details"] = Json{{"cached_tokens", usage.cached}};
  json["completion_tokens_details"] = Json{{"reasoning_tokens", usage.reasoning}};
  json["prompt_cache_hit_tokens"] = usage.cached;
  json["prompt_cache_miss_tokens"] = usage.prompt - usage.cached;
  return json;
}

Json ChatLogprobJson(const PositionLogprobs& position, const text::Tokenizer& tokenizer) {
  Json json = TokenJson(position.chosen, tokenizer);
  json["top_logprobs"] = Json::array();
  for (const Logprob& one : position.top) json["top_logprobs"].push_back(TokenJson(one, tokenizer));
  return json;
}

std::string DumpOneLine(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

AnswerHead AnswerHead::Make(std::string_view id_prefix, const std::string& request_id,
                            const std::string& model) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return {.id = fmt::format("{}{}", id_prefix, request_id),
          .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
          .model = model};
}

std::string AnswerHead::Open(std::string_view object) const {
  std::string out = fmt::format("{{\"id\":\"{}\",\"object\":\"{}\",\"created\":{},\"model\":", id,
                                object, created);
  AppendJsonString(model, &out);
  return out;
}

Json AnswerHead::ToJson(std::string_view object) const {
  Json json;
  json["id"] = id;
  json["object"] = object;
  json["created"] = created;
  json["model"] = model;
  return json;
}

}  // namespace thalweg::server
