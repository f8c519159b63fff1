#include "server/chat_parts.h"

#include <fmt/format.h>

#include "api/json_values.h"

namespace thalweg::server {

Json& MessageList::Message(std::string_view role) {
  if (!open_ || messages_.empty() || messages_.back()["role"] != role) {
    Json message;
    message["role"] = role;
    message["content"] = Json::array();
    messages_.push_back(std::move(message));
  }
  open_ = true;
  return messages_.back();
}

// The assistant's message under way; reasoning and text behind calls begin a new one.
Json& MessageList::Assistant(bool begins_turn) {
  if (!messages_.empty() && messages_.back()["role"] == "assistant" && begins_turn &&
      messages_.back().contains("tool_calls")) {
    open_ = false;
  }
  return Message("assistant");
}

void MessageList::AddText(std::string_view role, std::string_view text) {
  Json& message = role == "assistant" ? Assistant(true) : Message(role);
  message["content"].push_back(Json{{"type", "text"}, {"text", text}});
}

void MessageList::AddBlock(std::string_view role, Json block) {
  Message(role)["content"].push_back(std::move(block));
}

void MessageList::AddReasoning(const std::string& text) {
  Json& message = Assistant(true);
  message["reasoning_content"] = message.value("reasoning_content", std::string()) + text;
}

void MessageList::AddCall(const std::string& id, const std::string& name,
                          const std::string& name_space, const std::string& arguments) {
  Json call;
  call["id"] = id;
  call["type"] = "function";
  call["function"] = Json{{"name", name}, {"arguments", arguments}};
  if (!name_space.empty()) call["function"]["namespace"] = name_space;
  Json& message = Assistant(false);
  message["tool_calls"].push_back(std::move(call));
  if (message["content"].is_array() && message["content"].empty()) message["content"] = nullptr;
}

void MessageList::AddResult(const std::string& id, Json content) {
  Json message;
  message["role"] = "tool";
  message["tool_call_id"] = id;
  message["content"] = std::move(content);
  messages_.push_back(std::move(message));
  open_ = false;
}

Result<std::string> TextOfBlocks(const Json& content, std::string_view what) {
  if (content.is_null()) return std::string();
  if (!content.is_array()) return api::ReadString(content, what);
  std::string text;
  for (const Json& block : content) {
    const Json* one = block.is_object() ? FindField(block, "text") : nullptr;
    if (one == nullptr) {
      return base::Unsupported(
          fmt::format("{}: blocks other than text are not taken: this server reads text", what));
    }
    TW_ASSIGN(const std::string more, api::ReadString(*one, what));
    if (&block != &content.front()) text += "\n\n";
    text += more;
  }
  return text;
}

Result<std::string> RequiredString(const Json& object, std::string_view name,
                                   std::string_view what) {
  const Json* json = object.is_object() ? FindField(object, name) : nullptr;
  if (json == nullptr) return base::InvalidArgument(fmt::format("{}: {} is missing", what, name));
  return api::ReadString(*json, fmt::format("{}.{}", what, name));
}

}  // namespace thalweg::server
