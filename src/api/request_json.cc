#include "api/request_json.h"

#include <fmt/format.h>

#include <limits>

#include "api/params_json.h"

namespace thalweg::api {
namespace {

Status UnknownField(std::string_view what, std::string_view name, std::string_view known) {
  return base::InvalidArgument(
      fmt::format("{} has an unknown field \"{}\"; known: {}", what, name, known));
}

// A string, nothing (null), or an array of {"type": "text", "text": ...}, joined as the chat
// encoding joins the blocks of one message.
Result<std::string> ContentFromJson(const Json& json, const std::string& what) {
  if (json.is_null()) return std::string();
  if (!json.is_array()) return ReadString(json, what);
  std::string content;
  for (const Json& part : json) {
    if (!part.is_object() || part.value("type", Json()) != Json("text") || !part.contains("text"))
      return base::Unsupported(what + ": parts other than text are not part of this version");
    TW_ASSIGN(const std::string text, ReadString(part["text"], what + " part"));
    if (&part != &json.front()) content += "\n\n";
    content += text;
  }
  return content;
}

Result<ChatMessage> MessageFromJson(const Json& json, const std::string& what) {
  if (!json.is_object()) return WrongValue(json, what, "an object with role and content");
  ChatMessage message{.role = ""};
  for (const auto& [name, value] : json.items()) {
    const bool reasoning = name == "reasoning" || name == "reasoning_content";
    std::string* field = name == "role"      ? &message.role
                         : name == "content" ? &message.content
                         : reasoning         ? &message.reasoning
                                             : nullptr;
    if (field == nullptr) return UnknownField(what, name, "role, content, reasoning");
    TW_ASSIGN(*field, ContentFromJson(value, what + "." + name));
  }
  if (message.role.empty()) return base::InvalidArgument(what + " has no role");
  return message;
}

Result<Prompt> ConversationFromJson(const Json& json, std::string_view what) {
  Conversation conversation;
  for (const auto& [name, value] : json.items()) {
    const std::string field = fmt::format("{}.{}", what, name);
    if (name == "messages") {
      TW_ASSIGN(conversation.messages, MessagesFromJson(value, field));
    } else if (name == "thinking") {
      TW_ASSIGN(conversation.thinking, ReadBool(value, field));
    } else if (name == "effort") {
      TW_ASSIGN(const int64_t effort, ReadInteger(value, field, 1, 100));
      conversation.effort = static_cast<int>(effort);
    } else if (name == "add_generation_prompt") {
      TW_ASSIGN(conversation.add_generation_prompt, ReadBool(value, field));
    } else {
      return UnknownField(what, name, "messages, thinking, effort, add_generation_prompt");
    }
  }
  return Prompt(std::move(conversation));
}

Result<Prompt> TokensPrompt(const Json& json, std::string_view what) {
  TW_ASSIGN(std::vector<int32_t> tokens, ReadTokens(json, what));
  return Prompt(std::move(tokens));
}

Result<Prompt> ObjectPrompt(const Json& json, std::string_view what) {
  if (json.contains("messages")) return ConversationFromJson(json, what);
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

Result<std::vector<ChatMessage>> MessagesFromJson(const Json& json, std::string_view what) {
  if (!json.is_array()) return WrongValue(json, what, "an array of messages");
  std::vector<ChatMessage> messages;
  for (const Json& one : json) {
    TW_ASSIGN(ChatMessage message,
              MessageFromJson(one, fmt::format("{}[{}]", what, messages.size())));
    messages.push_back(std::move(message));
  }
  return messages;
}

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

}  // namespace thalweg::api
