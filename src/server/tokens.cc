// /tokenize and /detokenize, as vLLM has them, and /render: what prompt a chat becomes.
#include "api/json_values.h"
#include "api/prompts.h"
#include "server/chat_plan.h"
#include "server/endpoints.h"
#include "server/fields.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

// The body of a chat; its prompt as text and as token ids.
Result<Json> RenderChatBody(const Json& body, Services& services) {
  TW_ASSIGN(ChatFields fields, ReadChatFields(body, services));
  TW_ASSIGN(const ChatPlan plan, PlanChat(std::move(fields), services));
  const auto& ids = std::get<std::vector<int32_t>>(plan.request.prompt);
  Json json;
  json["prompt"] = services.model->tokenizer().Decode(ids, false);
  json["tokens"] = ids;
  json["count"] = ids.size();
  json["max_model_len"] = services.model->context_tokens();
  return json;
}

Result<Json> Render(const HttpRequest& request, Services& services) {
  TW_ASSIGN(const Json body, ParseBody(request));
  return RenderChatBody(body, services);
}

Result<Json> Tokenize(const HttpRequest& request, Services& services) {
  TW_ASSIGN(const Json body, ParseBody(request));
  if (FindField(body, "messages") != nullptr) return RenderChatBody(body, services);
  TW_ASSIGN(const auto prompt, OptionalString(body, "prompt"));
  if (!prompt.has_value()) return base::InvalidArgument("prompt is missing: the text to tokenize");
  RequestOptions options;
  TW_ASSIGN(const auto begin, OptionalBool(body, "add_special_tokens"));
  TW_ASSIGN(const auto parse, OptionalBool(body, "parse_special_tokens"));
  options.add_special_tokens = begin.value_or(true);
  options.parse_special_tokens = parse.value_or(true);
  const std::vector<int32_t> ids = api::EncodeText(services.model->tokenizer(), *prompt, options);
  Json json;
  json["tokens"] = ids;
  json["count"] = ids.size();
  json["max_model_len"] = services.model->context_tokens();
  TW_ASSIGN(const auto strings, OptionalBool(body, "return_token_strs"));
  if (strings.value_or(false)) {
    json["token_strs"] = Json::array();
    for (const int32_t id : ids)
      json["token_strs"].push_back(services.model->tokenizer().Decode({&id, 1}, false));
  }
  return json;
}

Result<Json> Detokenize(const HttpRequest& request, const Services& services) {
  TW_ASSIGN(const Json body, ParseBody(request));
  const Json* tokens = FindField(body, "tokens");
  if (tokens == nullptr) return base::InvalidArgument("tokens is missing: an array of token ids");
  TW_ASSIGN(const std::vector<int32_t> ids, api::ReadTokens(*tokens, "tokens"));
  TW_ASSIGN(const auto skip, OptionalBool(body, "skip_special_tokens"));
  Json json;
  json["prompt"] = services.model->tokenizer().Decode(ids, skip.value_or(false));
  return json;
}

Outcome Answer(const Result<Json>& json) {
  if (!json.ok()) return ToApiError(json.status());
  return HttpResponse{.body = json->dump(-1, ' ', false, Json::error_handler_t::replace)};
}

}  // namespace

Outcome HandleTokenize(const HttpRequest& request, Services& services) {
  return Answer(Tokenize(request, services));
}

Outcome HandleRender(const HttpRequest& request, Services& services) {
  return Answer(Render(request, services));
}

Outcome HandleDetokenize(const HttpRequest& request, Services& services) {
  return Answer(Detokenize(request, services));
}

}  // namespace thalweg::server
