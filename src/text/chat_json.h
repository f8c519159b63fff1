// Conversations from JSON in the shapes of OpenAI's chat completions and DeepSeek's additions
// (spec/serving.md 2.8, 4.1; docs/chat.md lists the fields). The JSON comes from strangers: every
// count has a limit. Errors are "path: what is wrong", the path as in
// "messages[0].content[1].text".
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

// Limits of one conversation. How long texts may be is for the limit of the body to say, and how
// deep JSON may nest, for its parser (kChatJsonLimits).
inline constexpr size_t kMaxMessages = 65'536;
inline constexpr size_t kMaxBlocks = 4'096;     // of one message
inline constexpr size_t kMaxToolCalls = 1'024;  // of one message
inline constexpr size_t kMaxTools = 1'024;      // of one list
inline constexpr size_t kMaxImages = 600;       // of one conversation
inline constexpr size_t kMaxIdBytes = 512;      // of a call

// For ParseJson: room for schemas of kMaxSchemaDepth inside of a body.
inline constexpr base::JsonLimits kChatJsonLimits = {.max_depth = 144, .max_elements = 4'000'000};

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

// The fields messages, tools, tool_choice, parallel_tool_calls, response_format (of json_object and
// json_schema; other types are for the caller and leave no trace in the prompt), reasoning_effort
// and thinking of a body; others are not looked at. The conversation has been validated, but for
// calls of the last message, which need no results yet.
Result<ChatRequest> ReadChatRequest(const base::Json& body);

// Parts of it, for other protocols. Nothing is validated across messages.
Result<std::vector<ChatMessage>> ReadMessages(const JsonField& messages);
Result<ChatContent> ReadContent(const JsonField& content);
// Functions as {"type": "function", "function": {...}} or without the wrapper; groups of them as
// {"type": "namespace", "name", "description", "tools": [...]}.
Result<std::vector<ToolDefinition>> ReadTools(const JsonField& tools);
Result<ToolSelection> ReadToolChoice(const JsonField& choice);
// reasoning_effort (a name or a whole number) and thinking ({"type": "enabled" | "disabled"} or a
// boolean), which decides whether there is any.
Result<std::optional<EffortChoice>> ReadEffort(const JsonField& body);

// An array of at most `most` elements.
Status CheckArray(const JsonField& field, size_t most);

}  // namespace thalweg::text
