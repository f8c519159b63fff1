// The parts of ValidateConversation (chat_encoding.h). Errors are "path: what is wrong".
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/chat_message.h"

namespace thalweg::text {

inline constexpr size_t kMaxNameBytes = 128;  // of a tool or its namespace
inline constexpr int kMaxSchemaDepth = 128;   // of a tool's parameters

Status FieldError(std::string_view path, std::string_view what);

// No text of strangers may spell the placeholder of an image: it would be counted as one (R08).
Status CheckNoPlaceholder(std::string_view path, std::string_view text);

// Depth, numbers and texts of JSON that will stand in a prompt and may not have come through the
// parser. `depth`: of `value` itself, from 1.
Status CheckValue(const base::Json& value, int depth, const std::string& path);

// What one message may have by its role.
Status CheckMessage(const ChatMessage& message, bool last, const std::string& path);

// Names, schemas and texts of one list.
Status CheckTools(std::span<const ToolDefinition> tools, const std::string& path);

// Ids of calls and of the results that follow them, over all messages.
Status CheckCallIds(std::span<const ChatMessage> messages, bool answered);

}  // namespace thalweg::text
