// Conversations from JSON in the shapes of OpenAI's chat completions and DeepSeek's additions
// (spec/serving.md 2.8, 4.1; docs/chat.md lists the fields). The JSON comes from strangers: every
// count and size has a limit.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "text/chat_encoding.h"
#include "text/json_fields.h"

namespace thalweg::text {

// Limits of one conversation.
inline constexpr size_t kMaxMessages = 65'536;
inline constexpr size_t kMaxBlocks = 4'096;     // of one message
inline constexpr size_t kMaxToolCalls = 1'024;  // of one message
inline constexpr size_t kMaxTools = 1'024;      // of one conversation or message
inline constexpr size_t kMaxImages = 600;       // of one conversation
inline constexpr size_t kMaxIdBytes = 512;      // of a call

// tool_choice, with what is not a matter of the prompt.
struct ToolSelection {
  enum class Kind : uint8_t { kNone, kAuto, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name = {};  // kNamed: FullName of the tool
  bool operator==(const ToolSelection&) const = default;
};

// What the fields of a request say about its prompt.
struct ChatRequest {
  // tool_choice is kNone or kAuto: whether a required call is forced by the prompt or by a grammar
  // behind the reasoning is for the caller to decide.
  Conversation conversation = {};
  ToolSelection selection = {};
  bool parallel_tool_calls = true;
  std::optional<EffortChoice> effort = {};  // none: the request leaves it open
};

// The fields messages, tools, tool_choice, parallel_tool_calls, response_format (text, json_object;
// others are for the caller and leave no trace in the prompt), reasoning_effort and thinking of a
// body; others are not looked at. The conversation has been validated. Errors are
// "path: what is wrong".
Result<ChatRequest> ReadChatRequest(const base::Json& body);

// Parts of it, for other protocols. Nothing is validated across messages.
Result<std::vector<ChatMessage>> ReadMessages(const JsonField& messages);
Result<std::vector<ToolDefinition>> ReadTools(const JsonField& tools);
Result<ToolSelection> ReadToolChoice(const JsonField& choice);
// reasoning_effort (a name or a number) and thinking ({"type": "enabled" | "disabled"}), of which
// thinking decides whether there is any.
Result<std::optional<EffortChoice>> ReadEffort(const JsonField& body);

}  // namespace thalweg::text
