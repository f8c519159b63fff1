#include "api/conversation_json.h"

#include <fmt/format.h>

#include <utility>

#include "text/python_json.h"

namespace thalweg::api {
namespace {

// Blocks joined as the chat encoding joins them.
Result<std::string> TextOf(const text::ChatContent& content, const std::string& what) {
  std::string text;
  bool first = true;
  for (const text::ContentBlock& block : content.blocks) {
    if (block.kind != text::ContentBlock::Kind::kText)
      return base::Unsupported(what +
                               ".content: parts other than text are not part of this version");
    if (!std::exchange(first, false)) text += "\n\n";
    text += block.text;
  }
  return text;
}

Result<ChatMessage> FromChat(const text::ChatMessage& message, const std::string& what) {
  if (!message.tools.empty())
    return base::Unsupported(what + ".tools: declare tools beside the messages");
  ChatMessage out{.role = std::string(text::RoleName(message.role)),
                  .reasoning = message.reasoning,
                  .tool_call_id = message.tool_call_id,
                  .to_be_continued = message.to_be_continued};
  TW_ASSIGN(out.content, TextOf(message.content, what));
  for (const text::ToolCall& call : message.tool_calls)
    out.tool_calls.push_back(
        {.id = call.id, .name = text::FullName(call), .arguments = call.arguments});
  return out;
}

// An assistant's empty content is none where there is something else.
bool SaysNothing(const ChatMessage& message) {
  if (message.role != "assistant" || !message.content.empty()) return false;
  return !message.tool_calls.empty() || (message.to_be_continued && !message.reasoning.empty());
}

Result<text::ChatMessage> ToChat(const ChatMessage& message) {
  text::ChatMessage out{.reasoning = message.reasoning,
                        .tool_call_id = message.tool_call_id,
                        .to_be_continued = message.to_be_continued};
  TW_ASSIGN(out.role, text::ParseRole(message.role));
  if (!SaysNothing(message)) out.content = message.content;
  for (const ToolCall& call : message.tool_calls)
    out.tool_calls.push_back({.id = call.id, .name = call.name, .arguments = call.arguments});
  return out;
}

Result<text::ToolDefinition> ToChat(const Tool& tool, const std::string& what) {
  text::ToolDefinition out{.description = tool.description};
  const size_t mark = tool.name.find("::");
  if (mark != std::string::npos) out.name_space = tool.name.substr(0, mark);
  out.name = tool.name.substr(mark == std::string::npos ? 0 : mark + 2);
  if (tool.parameters.empty()) {
    out.parameters = Json{{"type", "object"}, {"properties", Json::object()}};
    return out;
  }
  TW_ASSIGN(out.parameters,
            base::ParseJson(tool.parameters, what + ".parameters", text::kChatJsonLimits));
  return out;
}

}  // namespace

Result<std::vector<ChatMessage>> MessagesFromJson(const Json& json, const std::string& what) {
  TW_ASSIGN(const std::vector<text::ChatMessage> read,
            text::ReadMessages(text::JsonField(json, what)));
  std::vector<ChatMessage> messages;
  for (const text::ChatMessage& one : read) {
    TW_ASSIGN(ChatMessage message, FromChat(one, fmt::format("{}[{}]", what, messages.size())));
    messages.push_back(std::move(message));
  }
  return messages;
}

Result<std::vector<Tool>> ToolsFromJson(const Json& json, const std::string& what) {
  TW_ASSIGN(const std::vector<text::ToolDefinition> read,
            text::ReadTools(text::JsonField(json, what)));
  std::vector<Tool> tools;
  for (const text::ToolDefinition& tool : read)
    tools.push_back({.name = tool.FullName(),
                     .description = tool.description,
                     .parameters = text::PythonJson(tool.parameters)});
  return tools;
}

Result<text::Conversation> ToChat(const Conversation& conversation) {
  text::Conversation out;
  for (const ChatMessage& one : conversation.messages) {
    TW_ASSIGN(text::ChatMessage message, ToChat(one));
    out.messages.push_back(std::move(message));
  }
  for (const Tool& one : conversation.tools) {
    TW_ASSIGN(text::ToolDefinition tool, ToChat(one, fmt::format("tools[{}]", out.tools.size())));
    out.tools.push_back(std::move(tool));
  }
  return out;
}

text::ChatOptions ToChatOptions(const Conversation& conversation) {
  using Generation = text::ChatOptions::GenerationPrompt;
  text::ChatOptions options;
  options.thinking = conversation.thinking;
  options.effort = conversation.effort;
  options.drop_thinking = conversation.drop_thinking;
  options.generation_prompt =
      conversation.add_generation_prompt ? Generation::kAlways : Generation::kNever;
  return options;
}

}  // namespace thalweg::api
