#include "text/test_chat.h"

#include <algorithm>
#include <filesystem>

#include "base/mapped_file.h"
#include "text/test_tokenizer.h"

namespace thalweg::text {
namespace {

const std::vector<std::string> kTokens = {"<｜begin▁of▁sentence｜>",
                                          "<｜end▁of▁sentence｜>",
                                          "<｜System｜>",
                                          "<｜User｜>",
                                          "<｜Assistant｜>",
                                          "<｜latest_reminder｜>",
                                          "<｜image｜>",
                                          "<think>",
                                          "</think>",
                                          "｜DSML｜"};

// What "[TOOLS schemas]" is short for, around the schemas.
std::pair<std::string, std::string> ToolBlockEnds() {
  const std::string block = ReadTestFile("chat/tool_block.txt");
  const std::string headline = "### Available Tool Schemas\n\n";
  const size_t begin = block.find(headline) + headline.size();
  return {block.substr(0, begin), block.substr(block.find("\n\nYou MUST strictly follow"))};
}

void Replace(const std::string& from, const std::string& to, std::string* text) {
  for (size_t at = text->find(from); at != std::string::npos; at = text->find(from, at + to.size()))
    text->replace(at, from.size(), to);
}

std::string Short(std::string prompt) {
  const auto [begin, end] = ToolBlockEnds();
  const std::pair<std::string, std::string> names[] = {
      {begin, "[TOOLS "},
      {end, "]"},
      {kTokens[0], "[B]"},
      {kTokens[1], "[E]"},
      {kTokens[2], "[S]"},
      {kTokens[3], "[U]"},
      {kTokens[4], "[A]"},
      {kTokens[5], "[L]"},
      {kTokens[6], "[I]"},
      {kTokens[9], "[D]"},
      {" (range 1-100, the higher the value, the more thorough the reasoning)\n\n", "]"},
      {"Reasoning Effort: ", "[R"}};
  for (const auto& [from, to] : names) Replace(from, to, &prompt);
  return prompt;
}

}  // namespace

const Tokenizer& Chatty() {
  static const Tokenizer tokenizer = Tokenizer::Parse(ByteLevelJson({}, kTokens).dump()).value();
  return tokenizer;
}

Tokenizer TokenizerWithout(std::string_view token) {
  std::vector<std::string> fewer = kTokens;
  std::erase(fewer, token);
  return Tokenizer::Parse(ByteLevelJson({}, fewer).dump()).value();
}

ChatMessage System(std::string text) { return {.role = Role::kSystem, .content = std::move(text)}; }
ChatMessage User(std::string text) { return {.content = std::move(text)}; }
ChatMessage Assistant(std::string text, std::string reasoning) {
  return {.role = Role::kAssistant, .content = std::move(text), .reasoning = std::move(reasoning)};
}
ChatMessage Calling(std::vector<ToolCall> calls, std::string reasoning) {
  return {
      .role = Role::kAssistant, .reasoning = std::move(reasoning), .tool_calls = std::move(calls)};
}
ChatMessage Answered(std::string id, std::string text) {
  return {.role = Role::kTool, .content = std::move(text), .tool_call_id = std::move(id)};
}
ChatMessage Reminder(std::string text) {
  return {.role = Role::kLatestReminder, .content = std::move(text)};
}
ToolDefinition Tool(std::string name, std::string description) {
  return {.name = std::move(name),
          .description = std::move(description),
          .parameters = {{"type", "object"}}};
}

std::string Render(const Conversation& conversation, const ChatOptions& options) {
  const auto chat = RenderChat(Chatty(), conversation, options);
  return chat.ok() ? Short(SpellPieces(Chatty(), chat->pieces)) : chat.status().ToString();
}

std::string Render(std::vector<ChatMessage> messages, const ChatOptions& options) {
  return Render(Conversation{.messages = std::move(messages)}, options);
}

OutputDecoderOptions::Start StartOf(std::vector<ChatMessage> messages, const ChatOptions& options) {
  return RenderChat(Chatty(), {.messages = std::move(messages)}, options).value().start;
}

std::string ReadTestFile(const std::string& path) {
  const auto file = std::filesystem::path(THALWEG_SOURCE_DIR) / "tests/data" / path;
  return base::ReadFile(file, 16u << 20).value();
}

}  // namespace thalweg::text
