#include <fmt/format.h>

#include "text/chat_checks.h"
#include "text/chat_marks.h"
#include "text/python_json.h"
#include "text/tool_text.h"

namespace thalweg::text {
namespace {

Status OnlyOf(bool present, bool allowed, const std::string& path, std::string_view field,
              std::string_view whose) {
  if (!present || allowed) return {};
  return FieldError(fmt::format("{}.{}", path, field),
                    fmt::format("only {} may have it; leave it out", whose));
}

Status CheckFields(const ChatMessage& m, const std::string& path) {
  const bool assistant = m.role == Role::kAssistant;
  const bool declares = m.role == Role::kSystem || m.role == Role::kUser;
  constexpr std::string_view kAssistants = "assistant messages";
  TW_TRY(OnlyOf(!m.tool_calls.empty(), assistant, path, "tool_calls", kAssistants));
  TW_TRY(OnlyOf(!m.reasoning.empty(), assistant, path, "reasoning_content", kAssistants));
  TW_TRY(OnlyOf(!m.sampled.empty(), assistant, path, "sampled", kAssistants));
  TW_TRY(OnlyOf(m.to_be_continued, assistant, path, "prefix", kAssistants));
  TW_TRY(OnlyOf(!m.tool_call_id.empty(), m.role == Role::kTool, path, "tool_call_id",
                "tool messages"));
  return OnlyOf(!m.tools.empty(), declares, path, "tools", "system and user messages");
}

Status CheckBlocks(const ChatMessage& m, const std::string& path) {
  const bool images = m.role == Role::kUser || m.role == Role::kTool;
  for (size_t i = 0; i < m.content.blocks.size(); ++i) {
    const ContentBlock& block = m.content.blocks[i];
    const std::string at =
        m.content.blocks.size() == 1 ? path + ".content" : fmt::format("{}.content[{}]", path, i);
    if (block.kind == ContentBlock::Kind::kText) {
      TW_TRY(CheckNoPlaceholder(at, block.text));
    } else if (!images) {
      return FieldError(at, fmt::format("an image cannot stand in a {} message; put it into one of "
                                        "the user",
                                        RoleName(m.role)));
    }
  }
  return {};
}

// It stands between quotes, as it is.
Status CheckCallName(const ToolCall& call, const std::string& path) {
  const std::string name = FullName(call);
  if (call.name.empty()) return FieldError(path + ".name", "a call needs the name of a tool");
  if (name.find('"') != std::string::npos)
    return FieldError(path + ".name", "a name cannot have a quotation mark");
  return CheckNoPlaceholder(path + ".name", name);
}

// Of the values as they will stand in the prompt: JSON may spell a placeholder with escapes.
Status CheckArguments(const ToolCall& call, const std::string& path) {
  TW_TRY(CheckNoPlaceholder(path, call.arguments));
  if (call.arguments.find("\\u") == std::string::npos) return {};
  const std::optional<base::Json> object = ArgumentsObject(call.arguments, true);
  return object ? CheckNoPlaceholder(path, PythonJson(*object)) : Status();
}

Status CheckCalls(const ChatMessage& m, const std::string& path) {
  for (size_t i = 0; i < m.tool_calls.size(); ++i) {
    const ToolCall& call = m.tool_calls[i];
    const std::string at = fmt::format("{}.tool_calls[{}]", path, i);
    if (call.id.empty()) return FieldError(at + ".id", "a call needs an id");
    TW_TRY(CheckCallName(call, at + ".function"));
    TW_TRY(CheckArguments(call, at + ".function.arguments"));
  }
  return {};
}

Status CheckAssistant(const ChatMessage& m, bool last, const std::string& path) {
  TW_TRY(CheckNoPlaceholder(path + ".reasoning_content", m.reasoning));
  TW_TRY(CheckCalls(m, path));
  const bool begins = m.to_be_continued && !m.reasoning.empty();
  if (m.content.absent() && m.tool_calls.empty() && !begins)
    return FieldError(path, "an assistant message needs content or tool_calls");
  if (!m.to_be_continued) return {};
  if (!last) return FieldError(path + ".prefix", "only the last message can be continued");
  if (!m.tool_calls.empty() || !m.sampled.empty())
    return FieldError(path + ".prefix", "a message with calls is complete; leave prefix out");
  return {};
}

}  // namespace

Status FieldError(std::string_view path, std::string_view what) {
  return base::InvalidArgument(fmt::format("{}: {}", path, what));
}

Status CheckNoPlaceholder(std::string_view path, std::string_view text) {
  for (const std::string_view placeholder : kImageTokens) {
    if (text.find(placeholder) == std::string_view::npos) continue;
    return FieldError(
        path,
        fmt::format("the text spells {}, which stands for an image; take it out", placeholder));
  }
  return {};
}

Status CheckMessage(const ChatMessage& message, bool last, const std::string& path) {
  TW_TRY(CheckFields(message, path));
  TW_TRY(CheckBlocks(message, path));
  TW_TRY(CheckTools(message.tools, path + ".tools"));
  if (message.role == Role::kAssistant) return CheckAssistant(message, last, path);
  if (message.role == Role::kTool && message.tool_call_id.empty())
    return FieldError(path + ".tool_call_id", "a tool message needs the id of the call it answers");
  if (message.content.absent())
    return FieldError(path + ".content",
                      fmt::format("a {} message needs content", RoleName(message.role)));
  return {};
}

}  // namespace thalweg::text
