// Conversations and prompts in short, for tests of the chat encoding.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_encoding.h"
#include "text/tokenizer.h"

namespace thalweg::text {

// A byte-level tokenizer with the tokens of the format.
const Tokenizer& Chatty();
Tokenizer TokenizerWithout(std::string_view token);

ChatMessage System(std::string text);
ChatMessage User(std::string text);
ChatMessage Assistant(std::string text, std::string reasoning = "");
ChatMessage Calling(std::vector<ToolCall> calls, std::string reasoning = "");
ChatMessage Answered(std::string id, std::string text);
ChatMessage Reminder(std::string text);
// With parameters {"type": "object"}.
ToolDefinition Tool(std::string name, std::string description);

// The prompt, or the error. Marks are [B], [E], [S], [U], [A], [D] (DSML), [L] (latest reminder),
// [I] (image); effort lines are [R75] and the like; the block of tools is [TOOLS schemas].
std::string Render(const Conversation& conversation, const ChatOptions& options = {});
std::string Render(std::vector<ChatMessage> messages, const ChatOptions& options = {});
OutputDecoderOptions::Start StartOf(std::vector<ChatMessage> messages,
                                    const ChatOptions& options = {});

// A file of tests/data.
std::string ReadTestFile(const std::string& path);

}  // namespace thalweg::text
