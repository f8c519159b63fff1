#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/json.h"
#include "text/chat_checks.h"
#include "text/chat_encoding.h"

namespace thalweg::text {
namespace {

Status CheckNamesDiffer(const Conversation& conversation) {
  std::unordered_set<std::string> names;
  const auto add = [&](std::span<const ToolDefinition> tools, const std::string& path) -> Status {
    for (size_t i = 0; i < tools.size(); ++i) {
      if (!names.insert(tools[i].FullName()).second)
        return FieldError(
            fmt::format("{}[{}].function.name", path, i),
            fmt::format("there is another tool \"{}\"; names must differ", tools[i].FullName()));
    }
    return {};
  };
  TW_TRY(add(conversation.tools, "tools"));
  for (size_t i = 0; i < conversation.messages.size(); ++i)
    TW_TRY(add(conversation.messages[i].tools, fmt::format("messages[{}].tools", i)));
  return {};
}

bool SpellsJson(std::string_view text) {
  constexpr std::string_view kWord = "json";
  const auto same = [](char a, char b) { return (a | 0x20) == b; };
  return std::search(text.begin(), text.end(), kWord.begin(), kWord.end(), same) != text.end();
}

// Without the word the model may write blanks for ever (R45).
Status CheckJsonMode(const Conversation& conversation) {
  if (conversation.response_format != base::Json{{"type", "json_object"}}) return {};
  for (const ChatMessage& message : conversation.messages) {
    for (const ContentBlock& block : message.content.blocks) {
      if (block.kind == ContentBlock::Kind::kText && SpellsJson(block.text)) return {};
    }
  }
  return FieldError("response_format",
                    "json_object needs a message that asks for JSON: the word json must appear in "
                    "the messages");
}

}  // namespace

Status ValidateConversation(const Conversation& conversation, bool answered) {
  const auto& messages = conversation.messages;
  if (messages.empty()) return FieldError("messages", "there are none; give at least one");
  for (size_t i = 0; i < messages.size(); ++i) {
    const bool last = i + 1 == messages.size();
    TW_TRY(CheckMessage(messages[i], last, fmt::format("messages[{}]", i)));
  }
  TW_TRY(CheckCallIds(messages, answered));
  TW_TRY(CheckTools(conversation.tools, "tools"));
  TW_TRY(CheckNamesDiffer(conversation));
  TW_TRY(CheckValue(conversation.response_format, 1, "response_format"));
  return CheckJsonMode(conversation);
}

}  // namespace thalweg::text
