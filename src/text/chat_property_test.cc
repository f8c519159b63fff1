// Rendering loses nothing: from the prompt of any conversation a small reader of the format gets
// back all of its messages, tools and calls.
#include <gtest/gtest.h>

#include "text/chat_encoding.h"
#include "text/python_json.h"
#include "text/test_chat.h"
#include "text/test_prompt_reader.h"
#include "text/test_tokenizer.h"

namespace thalweg::text {
namespace {

using base::Json;

// Conversations by chance. Texts are not those that the format cannot tell apart from its own: a
// user's text with an empty line or a result tag in it, and DSML tags in values.
class Chance {
 public:
  explicit Chance(uint64_t seed) : dice_(seed) {}

  Conversation Talk() {
    Conversation c;
    if (Coin()) c.messages.push_back(System(Text()));
    for (uint32_t i = 1 + Below(6); i > 0; --i) Round(&c);
    if (Coin()) c.tools = Tools("top");
    if (Below(4) == 0) c.response_format = Json{{"type", "object"}, {"title", Text()}};
    return c;
  }

  bool Coin() { return Below(2) == 0; }
  uint32_t Below(uint32_t n) { return dice_.Below(n); }

 private:
  std::string Text() {
    static const std::vector<std::string> parts = {
        "a",          " word", "\n", "中文", "😀", "<｜User｜>",      "</think>",
        "\"",         "\\",    "{}", "  ",   "é", "<｜Assistant｜>", "<think>",
        "｜DSML｜ x", "0.5"};
    std::string text;
    for (uint32_t i = Below(6); i > 0; --i)
      text += parts[Below(static_cast<uint32_t>(parts.size()))];
    for (size_t at = text.find("\n\n"); at != std::string::npos; at = text.find("\n\n"))
      text.erase(at, 1);
    if (text.starts_with('\n')) text.erase(0, 1);
    if (text.ends_with('\n')) text.pop_back();
    return text;
  }

  std::string Name() { return "f" + std::to_string(Below(1000)); }

  Json Value(int depth) {
    switch (Below(depth > 2 ? 5 : 7)) {
      case 0: return nullptr;
      case 1: return Coin();
      case 2: return static_cast<int64_t>(Below(1000)) - 500;
      case 3: return static_cast<double>(Below(1000)) / 64;
      case 4: return Text();
      case 5: return Json::array({Value(depth + 1), Value(depth + 1)});
      default: return Json{{Name(), Value(depth + 1)}};
    }
  }

  Json Object() {
    Json object = Json::object();
    for (uint32_t i = Below(4); i > 0; --i) object[Name()] = Value(0);
    return object;
  }

  std::vector<ToolDefinition> Tools(const std::string& prefix) {
    std::vector<ToolDefinition> tools;
    for (uint32_t i = 0, n = 1 + Below(3); i < n; ++i) {
      ToolDefinition tool = Tool(prefix + std::to_string(i), Text());
      if (Coin()) tool.name_space = Name();
      tool.parameters["properties"] = Object();
      tools.push_back(std::move(tool));
    }
    return tools;
  }

  void Calls(Conversation* c) {
    ChatMessage calling = Calling({}, Text());
    if (Coin()) calling.content = Text();
    for (uint32_t i = 0, n = 1 + Below(3); i < n; ++i) {
      calling.tool_calls.push_back({.id = "call" + std::to_string(i),
                                    .name_space = Coin() ? Name() : "",
                                    .name = Name(),
                                    .arguments = PythonJson(Object())});
    }
    const std::vector<ToolCall> calls = calling.tool_calls;
    c->messages.push_back(std::move(calling));
    for (const ToolCall& call : calls) {
      if (Below(4) == 0) c->messages.push_back(User(Text()));
      c->messages.push_back(Answered(call.id, Text()));
    }
  }

  void Round(Conversation* c) {
    if (Below(6) == 0) {
      ChatMessage system = System(Text());
      if (Coin()) system.tools = Tools("m" + std::to_string(c->messages.size()) + "_");
      c->messages.push_back(std::move(system));
    }
    c->messages.push_back(User(Text()));
    if (Below(5) == 0) c->messages.push_back(User(Text()));
    if (Below(5) == 0) c->messages.push_back(Reminder(Text()));
    if (Coin()) Calls(c);
    c->messages.push_back(Assistant(Text(), Text()));
  }

  Dice dice_;
};

ToolDefinition Told(const ToolDefinition& tool) {
  return {.name = tool.FullName(), .description = tool.description, .parameters = tool.parameters};
}

// What a prompt can tell of a conversation: neither ids of calls nor whether a first system message
// was empty or not there, and tools of the first message are those of all.
Conversation Told(Conversation c, const ChatOptions& options) {
  const bool needs_first = options.thinking || !c.tools.empty() || !c.response_format.is_null();
  if (needs_first && c.messages[0].role != Role::kSystem)
    c.messages.insert(c.messages.begin(), System(""));
  ChatMessage& first = c.messages[0];
  c.tools.insert(c.tools.end(), first.tools.begin(), first.tools.end());
  first.tools.clear();
  for (ToolDefinition& tool : c.tools) tool = Told(tool);
  for (ChatMessage& m : c.messages) {
    if (m.role == Role::kAssistant && m.content.absent()) m.content = "";
    if (!options.thinking) m.reasoning.clear();
    m.tool_call_id.clear();
    for (ToolCall& call : m.tool_calls)
      call = {.name = FullName(call), .arguments = call.arguments};
    for (ToolDefinition& tool : m.tools) tool = Told(tool);
  }
  return c;
}

TEST(ChatProperty, WhatIsRenderedCanBeReadBack) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    Chance chance(seed);
    const Conversation c = chance.Talk();
    const ChatOptions options = {.thinking = chance.Coin(),
                                 .effort = static_cast<int>(1 + chance.Below(100))};
    const auto chat = RenderChat(Chatty(), c, options);
    ASSERT_TRUE(chat.ok()) << seed << ": " << chat.status().ToString();
    const ReadPrompt read = PromptReader(Chatty(), chat->pieces).Read();
    ASSERT_EQ(read.error, "") << seed << "\n" << SpellPieces(Chatty(), chat->pieces);
    EXPECT_EQ(read.effort, options.thinking ? options.effort : 0) << seed;
    EXPECT_EQ(read.conversation, Told(c, options)) << seed << "\n"
                                                   << SpellPieces(Chatty(), chat->pieces);
  }
}

}  // namespace
}  // namespace thalweg::text
