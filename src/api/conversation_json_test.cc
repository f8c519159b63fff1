// Conversations of the public interface: read from the JSON of chat clients, rendered as the chat
// encoding renders them, and what is wrong names the field.
#include "api/conversation_json.h"

#include <gtest/gtest.h>

#include "text/chat_encoding.h"

namespace thalweg::api {
namespace {

std::string ErrorOf(std::string_view json) {
  const auto conversation = ConversationFromJson(json);
  return conversation.ok() ? "accepted" : conversation.error().message;
}

TEST(ConversationJson, ReadsMessagesAndTools) {
  const auto read = ConversationFromJson(R"({"thinking": true, "effort": "max",
      "drop_thinking": false, "messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [
          {"id": "c", "type": "function", "function": {"name": "w::f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "x"},
        {"role": "assistant", "content": "So", "prefix": true}],
      "tools": [{"type": "function", "namespace": "w", "function": {"name": "f",
        "description": "d", "parameters": {"type": "object", "title": "t"}}}]})");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(read->thinking);
  EXPECT_EQ(read->effort, 100);
  EXPECT_FALSE(read->drop_thinking);
  EXPECT_EQ(read->messages.at(0).content, "a\n\nb");
  EXPECT_EQ(read->messages.at(1).tool_calls.at(0).name, "w::f");
  EXPECT_EQ(read->messages.at(2).tool_call_id, "c");
  EXPECT_TRUE(read->messages.at(3).to_be_continued);
  EXPECT_EQ(read->tools.at(0).name, "w::f");
  EXPECT_EQ(read->tools.at(0).parameters, R"({"type": "object", "title": "t"})");
  const auto chat = ToChat(*read);
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  EXPECT_TRUE(chat->messages[1].content.absent());
  EXPECT_EQ(chat->tools[0].name_space, "w");
  EXPECT_EQ(chat->tools[0].name, "f");
  EXPECT_TRUE(text::ValidateConversation(*chat).ok());
}

TEST(ConversationJson, WhatIsWrongIsNamed) {
  EXPECT_NE(ErrorOf("[]").find("an object"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"messages": [], "temperature": 1})").find("temperature"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"messages": [{"role": "robot"}]})").find("messages[0].role"),
            std::string::npos);
  EXPECT_NE(ErrorOf(R"({"messages": [], "effort": "ultra"})").find("effort"), std::string::npos);
  EXPECT_NE(ErrorOf(R"({"messages": [{"role": "user", "content": [
                       {"type": "image_url", "image_url": "u"}]}]})")
                .find("messages[0].content"),
            std::string::npos);
  const Conversation bad{.messages = {{.content = "x"}},
                         .tools = {{.name = "f", .parameters = "{"}}};
  EXPECT_NE(ToChat(bad).status().message().find("tools[0].parameters"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::api
