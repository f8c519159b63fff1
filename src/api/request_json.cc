#include "api/request_json.h"

#include <fmt/format.h>

#include <limits>

#include "api/conversation_json.h"
#include "api/errors.h"
#include "api/params_json.h"
#include "text/effort.h"

namespace thalweg::api {
namespace {

Status UnknownField(std::string_view what, std::string_view name, std::string_view known) {
  return base::InvalidArgument(
      fmt::format("{} has an unknown field \"{}\"; known: {}", what, name, known));
}

// A field that is not what it is named for; false: there is no such field.
Result<bool> SetConversationField(const std::string& name, const Json& value,
                                  const std::string& field, Conversation* out) {
  bool* flag = name == "thinking"                ? &out->thinking
               : name == "add_generation_prompt" ? &out->add_generation_prompt
               : name == "drop_thinking"         ? &out->drop_thinking
                                                 : nullptr;
  if (flag != nullptr) {
    TW_ASSIGN(*flag, ReadBool(value, field));
  } else if (name == "messages") {
    TW_ASSIGN(out->messages, MessagesFromJson(value, field));
  } else if (name == "tools") {
    TW_ASSIGN(out->tools, ToolsFromJson(value, field));
  } else if (name == "effort" && value.is_string()) {
    const Result<int> effort = text::ParseEffort(value.get<std::string>());
    if (!effort.ok()) return effort.status().WithContext(field);
    out->effort = *effort;
  } else if (name == "effort") {
    TW_ASSIGN(const int64_t effort, ReadInteger(value, field, text::kMinEffort, text::kMaxEffort));
    out->effort = static_cast<int>(effort);
  } else {
    return false;
  }
  return true;
}

Result<Conversation> ReadConversation(const Json& json, std::string_view what) {
  Conversation conversation;
  for (const auto& [name, value] : json.items()) {
    const std::string field = what.empty() ? name : fmt::format("{}.{}", what, name);
    TW_ASSIGN(const bool known, SetConversationField(name, value, field, &conversation));
    if (!known)
      return UnknownField(what.empty() ? "the conversation" : what, name,
                          "messages, tools, thinking, effort, add_generation_prompt, "
                          "drop_thinking");
  }
  return conversation;
}

Result<Prompt> TokensPrompt(const Json& json, std::string_view what) {
  TW_ASSIGN(std::vector<int32_t> tokens, ReadTokens(json, what));
  return Prompt(std::move(tokens));
}

Result<Prompt> ObjectPrompt(const Json& json, std::string_view what) {
  if (json.contains("messages")) {
    TW_ASSIGN(Conversation conversation, ReadConversation(json, what));
    return Prompt(std::move(conversation));
  }
  if (json.size() == 1 && json.contains("prompt_token_ids"))
    return TokensPrompt(json["prompt_token_ids"], fmt::format("{}.prompt_token_ids", what));
  if (json.size() == 1 && json.contains("prompt")) {
    TW_ASSIGN(std::string text, ReadString(json["prompt"], fmt::format("{}.prompt", what)));
    return Prompt(std::move(text));
  }
  return WrongValue(json, what, "an object with either messages, prompt_token_ids or prompt");
}

Result<std::vector<SamplingParams>> ParamsFromJson(const Json& json) {
  std::vector<SamplingParams> out;
  if (!json.is_array()) {
    TW_TRY(SetParams(json, &out.emplace_back()));
    return out;
  }
  for (const Json& one : json) {
    const std::string context = fmt::format("params[{}]", out.size());
    TW_TRY(SetParams(one, &out.emplace_back()).WithContext(context));
  }
  return out;
}

Result<Json> ParseObject(std::string_view text, std::string_view what) {
  TW_ASSIGN(Json json, base::ParseJson(text, what));
  if (!json.is_object()) return WrongValue(json, what, "an object");
  return json;
}

}  // namespace

Result<Prompt> PromptFromJson(const Json& json, std::string_view what) {
  if (json.is_string()) return Prompt(json.get<std::string>());
  if (json.is_array()) return TokensPrompt(json, what);
  if (json.is_object()) return ObjectPrompt(json, what);
  return WrongValue(json, what, "a text, an array of token ids or an object with messages");
}

Result<BatchRequest> BatchFromJson(std::string_view text) {
  TW_ASSIGN(const Json json, ParseObject(text, "request"));
  BatchRequest request{.params = {SamplingParams()}};
  for (const auto& [name, value] : json.items()) {
    if (name == "params") {
      TW_ASSIGN(request.params, ParamsFromJson(value));
    } else if (name != "prompts") {
      return UnknownField("request", name, "prompts, params");
    } else if (!value.is_array()) {
      return WrongValue(value, "prompts", "an array");
    } else {
      for (const Json& one : value) {
        TW_ASSIGN(Prompt prompt,
                  PromptFromJson(one, fmt::format("prompts[{}]", request.prompts.size())));
        request.prompts.push_back(std::move(prompt));
      }
    }
  }
  return request;
}

Result<SingleRequest> SingleFromJson(std::string_view text) {
  TW_ASSIGN(const Json json, ParseObject(text, "request"));
  if (!json.contains("prompt")) return base::InvalidArgument("request has no prompt");
  SingleRequest request;
  for (const auto& [name, value] : json.items()) {
    if (name == "prompt") {
      TW_ASSIGN(request.prompt, PromptFromJson(value, name));
    } else if (name == "params") {
      TW_TRY(SetParams(value, &request.params));
    } else if (name == "request_id") {
      TW_ASSIGN(request.options.request_id, ReadString(value, name));
    } else if (name == "cache_salt") {
      TW_ASSIGN(request.options.cache_salt, ReadString(value, name));
    } else if (name == "prefix_reuse") {
      TW_ASSIGN(request.options.prefix_reuse, ReadBool(value, name));
    } else if (name == "priority") {
      constexpr int64_t kMost = std::numeric_limits<int>::max();
      TW_ASSIGN(const int64_t priority, ReadInteger(value, name, -kMost, kMost));
      request.options.priority = static_cast<int>(priority);
    } else {
      return UnknownField("request", name,
                          "prompt, params, request_id, cache_salt, prefix_reuse, priority");
    }
  }
  return request;
}

Result<LLMOptions> OptionsFromJson(std::string_view text) {
  LLMOptions options;
  if (text.empty()) return options;
  TW_ASSIGN(const Json json, ParseObject(text, "options"));
  for (const auto& [name, value] : json.items()) {
    if (value.is_null()) continue;
    if (value.is_structured()) return WrongValue(value, name, "a plain value");
    std::string plain = value.is_string() ? value.get<std::string>() : value.dump();
    if (name == "option_file") {
      options.option_file = std::move(plain);
    } else {
      options.options[name] = std::move(plain);
    }
  }
  return options;
}

Result<Conversation> ConversationFromText(std::string_view text) {
  TW_ASSIGN(const Json json, base::ParseJson(text, "the conversation", text::kChatJsonLimits));
  if (!json.is_object()) return WrongValue(json, "the conversation", "an object");
  return ReadConversation(json, "");
}

}  // namespace thalweg::api
