// What the chat encoding writes of an answer, the output decoder reads back: reasoning, content and
// calls with their arguments, token by token (spec/serving.md 2.3, 2.7).
#include <gtest/gtest.h>

#include "text/chat_encoding.h"
#include "text/test_chat.h"
#include "text/test_tokenizer.h"
#include "text/token_output_decoder.h"

namespace thalweg::text {
namespace {

using base::Json;

std::string RandomText(Dice& dice, uint32_t most) {
  static const std::vector<std::string> kParts = {"yes",      "the mark </think> is text",
                                                  "北京",     "🎉",
                                                  "a\n\nb",   " ",
                                                  "\"q\" \\", "<｜",
                                                  "</",       "{}",
                                                  "1.5",      "<think>",
                                                  "<b>",      "\t",
                                                  "x"};
  std::string text = "t";  // newlines at the ends are no part of what was said
  for (uint32_t n = dice.Below(most + 1); n > 0; --n) {
    text += kParts[dice.Below(static_cast<uint32_t>(kParts.size()))];
  }
  return text;
}

std::string RandomValue(Dice& dice) {
  static const std::vector<std::string> kMarkup = {
      "<｜DSML｜ invoke name=\"g\">", "</｜DSML｜ parameter> so", "</｜DSML｜ calls> too",
      "</｜DSML｜", "string=\"true\">"};
  std::string text = RandomText(dice, 4);
  if (dice.Below(3) == 0) {
    text += kMarkup[dice.Below(static_cast<uint32_t>(kMarkup.size()))] + " end";
  }
  return text;
}

Json RandomJson(Dice& dice) {
  switch (dice.Below(7)) {
    case 0: return dice.Below(1000);
    case 1: return dice.Below(2) == 0;
    case 2: return nullptr;
    case 3: return Json::array({RandomText(dice, 2), 1.5e-7, Json::object()});
    case 4: return Json{{RandomText(dice, 1), RandomValue(dice)}};
    default: return RandomValue(dice);
  }
}

ToolCall RandomCall(Dice& dice, size_t index) {
  static const std::vector<std::string> kKeys = {"location", "two words", " string= x ",
                                                 "",         "ключ",      "a>b"};
  Json arguments = Json::object();
  for (const std::string& key : kKeys) {
    if (dice.Below(3) == 0) arguments[key] = RandomJson(dice);
  }
  return {.id = "call_" + std::to_string(index),
          .name_space = dice.Below(4) == 0 ? "space" : "",
          .name = dice.Below(2) == 0 ? "get_weather" : "f",
          .arguments = arguments.dump()};
}

ChatMessage RandomAnswer(Dice& dice, bool thinking) {
  ChatMessage answer;
  answer.role = Role::kAssistant;
  if (thinking) answer.reasoning = RandomText(dice, 6);
  answer.content = RandomText(dice, 6);
  for (uint32_t n = dice.Below(4); n > 0; --n) {
    answer.tool_calls.push_back(RandomCall(dice, answer.tool_calls.size()));
  }
  return answer;
}

Conversation Asking() {
  Conversation conversation;
  conversation.messages = {User("Weather?")};
  for (const char* name : {"get_weather", "f"}) {
    for (const char* name_space : {"", "space"}) {
      ToolDefinition tool = Tool(name, "");
      tool.name_space = name_space;
      conversation.tools.push_back(tool);
    }
  }
  return conversation;
}

DecodedOutput Decode(const std::vector<int32_t>& ids, OutputDecoderOptions::Start start) {
  TokenOutputDecoder decoder =
      TokenOutputDecoder::Create(Chatty(), {.start = start, .tools = true}).value();
  DecodedOutput output;
  for (const int32_t id : ids) Append(decoder.Push(id), &output);
  Append(decoder.Finish(OutputReason::kStop), &output);
  return output;
}

// The tokens that the answer adds to the prompt that asks for it, without the end of the turn.
std::vector<int32_t> TokensOfAnswer(const Conversation& asking, const ChatMessage& answer,
                                    const ChatOptions& options) {
  const std::vector<int32_t> prompt = EncodeChat(Chatty(), asking, options).value();
  Conversation answered = asking;
  answered.messages.push_back(answer);
  std::vector<ChatMessage>& messages = answered.messages;
  for (const ToolCall& call : answer.tool_calls) messages.push_back(Answered(call.id, "ok"));
  std::vector<int32_t> all = EncodeChat(Chatty(), answered, options).value();
  EXPECT_TRUE(std::equal(prompt.begin(), prompt.end(), all.begin()));
  const int32_t end = Chatty().IdOfSpecial("<｜end▁of▁sentence｜>").value();
  const auto begin = all.begin() + static_cast<ptrdiff_t>(prompt.size());
  return {begin, std::find(begin, all.end(), end)};
}

TEST(ChatRoundTrip, WhatIsWrittenIsReadBack) {
  Dice dice(3);
  for (int round = 0; round < 400; ++round) {
    ChatOptions options;
    options.thinking = dice.Below(2) == 0;
    const Conversation asking = Asking();
    const ChatMessage answer = RandomAnswer(dice, options.thinking);
    const auto start = RenderChat(Chatty(), asking, options).value().start;
    const DecodedOutput output = Decode(TokensOfAnswer(asking, answer, options), start);
    EXPECT_EQ(output.reasoning, answer.reasoning);
    EXPECT_EQ(output.content, answer.content.blocks.at(0).text);
    ASSERT_EQ(output.calls.size(), answer.tool_calls.size());
    for (size_t i = 0; i < output.calls.size(); ++i) {
      EXPECT_EQ(output.calls[i].name, FullName(answer.tool_calls[i]));
      EXPECT_EQ(Json::parse(output.calls[i].arguments), Json::parse(answer.tool_calls[i].arguments))
          << answer.tool_calls[i].arguments;
    }
    EXPECT_EQ(output.end.faults, OutputFaults{});
  }
}

}  // namespace
}  // namespace thalweg::text
