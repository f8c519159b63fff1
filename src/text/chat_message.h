// A conversation as data: messages, tools and what is asked for (spec/serving.md 2.3, 2.8). How it
// becomes a prompt is in chat_encoding.h, how it is read from JSON in chat_json.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace thalweg::text {

enum class Role : uint8_t { kSystem, kUser, kAssistant, kTool, kLatestReminder };

// "system", "user", "assistant", "tool", "latest_reminder".
std::string_view RoleName(Role role);
// The role of a name; "developer" is another name of system.
Result<Role> ParseRole(std::string_view name);

struct ContentBlock {
  enum class Kind : uint8_t { kText, kImage };
  Kind kind = Kind::kText;
  // Of an image: where its pixels come from (a URL), which is never a part of the prompt.
  std::string text = {};
  bool operator==(const ContentBlock&) const = default;
};

// What a message says: blocks in their order, joined by an empty line in the prompt. No block is
// what JSON calls null; a text is one block, an empty one too.
struct ChatContent {
  std::vector<ContentBlock> blocks = {};

  ChatContent() = default;
  // Implicit on purpose: most content is one text.
  // NOLINTBEGIN(google-explicit-constructor)
  ChatContent(std::string text) { blocks.push_back({.text = std::move(text)}); }
  ChatContent(const char* text) : ChatContent(std::string(text)) {}
  // NOLINTEND(google-explicit-constructor)

  bool absent() const { return blocks.empty(); }
  bool operator==(const ChatContent&) const = default;
};

struct ToolCall {
  std::string id = {};
  std::string name_space = {};  // empty: none
  std::string name = {};
  std::string arguments = {};  // JSON of an object; other text is kept as one string
  bool operator==(const ToolCall&) const = default;
};

struct ToolDefinition {
  std::string name_space = {};   // empty: none
  std::string name = {};         // [A-Za-z0-9_-]{1,128}
  std::string description = {};  // of the namespace and of the tool, a line end between them
  base::Json parameters = base::Json::object();  // JSON Schema of an object
  std::optional<bool> strict = {};
  // The function object as the client wrote it, for SchemaText::kAsGiven; null: made of the above.
  base::Json as_given = {};

  // The name that the model reads and writes: "name" or "namespace::name".
  std::string FullName() const;
  bool operator==(const ToolDefinition&) const = default;
};
// The same of a call.
std::string FullName(const ToolCall& call);

struct ChatMessage {
  Role role = Role::kUser;
  ChatContent content = {};
  std::string reasoning = {};              // assistant: what stood between <think> and </think>
  std::vector<ToolCall> tool_calls = {};   // assistant
  std::string tool_call_id = {};           // tool: the call that this is the result of
  std::vector<ToolDefinition> tools = {};  // system, user: tools declared from this message on
  bool to_be_continued = false;            // assistant, last: the answer goes on behind this text
  // Assistant: the turn as the model sampled it, from behind the think mark that ended its prompt
  // to before the end of the turn. It replaces all that is rendered of reasoning, content and
  // calls, so that the prompt repeats the tokens that are in the cache (R23; see sampled_turns.h).
  std::vector<int32_t> sampled = {};
  bool operator==(const ChatMessage&) const = default;
};

enum class ToolChoice : uint8_t {
  kNone,    // tools are not shown
  kAuto,    // the model decides
  kForced,  // the prompt ends inside the block of calls
};

struct Conversation {
  std::vector<ChatMessage> messages = {};
  std::vector<ToolDefinition> tools = {};
  ToolChoice tool_choice = ToolChoice::kAuto;
  // Null: text. Else the JSON that the model is told to adhere to: {"type": "json_object"}, or a
  // schema.
  base::Json response_format = {};
  bool operator==(const Conversation&) const = default;
};

// Those of the conversation and those that its messages declare.
std::vector<ToolDefinition> AllTools(const Conversation& conversation);

}  // namespace thalweg::text
