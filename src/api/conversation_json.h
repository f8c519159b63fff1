// Conversations of the public interface from JSON, and as the conversations of the chat encoding.
#pragma once

#include <thalweg/llm.h>

#include <string>
#include <vector>

#include "api/json_values.h"
#include "text/chat_json.h"

namespace thalweg::api {

// Messages and tools in the shapes of text/chat_json.h. Images are an error: this interface has no
// place for them. `what` names the value in messages.
Result<std::vector<ChatMessage>> MessagesFromJson(const Json& json, const std::string& what);
Result<std::vector<Tool>> ToolsFromJson(const Json& json, const std::string& what);

Result<text::Conversation> ToChat(const Conversation& conversation);
text::ChatOptions ToChatOptions(const Conversation& conversation);

}  // namespace thalweg::api
