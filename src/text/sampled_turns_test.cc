// Turns that the model sampled come back with their tokens when, and only when, a client's history
// says what they said (R23); memory stays within its limit.
#include "text/sampled_turns.h"

#include <gtest/gtest.h>

#include "text/test_chat.h"
#include "text/token_output_decoder.h"

namespace thalweg::text {
namespace {

ChatMessage Turn(const std::string& id, std::vector<int32_t> sampled) {
  ChatMessage turn = Calling({{id, "", "f", R"({"a": 1})"}}, "r");
  turn.sampled = std::move(sampled);
  return turn;
}

std::vector<int32_t> Restored(SampledTurns* turns, ChatMessage message) {
  Conversation c{.messages = {User("q"), std::move(message)}};
  turns->Restore(&c);
  return c.messages[1].sampled;
}

TEST(SampledTurns, OnlyWhatSaysTheSameComesBack) {
  SampledTurns turns(100);
  turns.Remember(Turn("c", {1, 2, 3}));
  const std::vector<int32_t> tokens = {1, 2, 3};
  EXPECT_EQ(Restored(&turns, Turn("c", {})), tokens);
  ChatMessage same = Turn("c", {});
  same.content = "";
  same.tool_calls[0].arguments = R"({"a":1})";
  EXPECT_EQ(Restored(&turns, same), tokens);
  std::vector<ChatMessage> others(5, Turn("c", {}));
  others[0].reasoning = "";
  others[1].content = "x";
  others[2].tool_calls[0].arguments = R"({"a": 2})";
  others[3].tool_calls[0].name = "g";
  others[4].tool_calls.push_back({"d", "", "f", "{}"});
  for (const ChatMessage& other : others) EXPECT_TRUE(Restored(&turns, other).empty());
  EXPECT_TRUE(Restored(&turns, Turn("d", {})).empty());
  EXPECT_TRUE(Restored(&turns, Assistant("x", "r")).empty());
}

TEST(SampledTurns, TheLastUsedStay) {
  SampledTurns turns(10);
  turns.Remember(Turn("a", {1, 2, 3, 4}));
  turns.Remember(Turn("b", {5, 6, 7, 8}));
  EXPECT_FALSE(Restored(&turns, Turn("a", {})).empty());
  turns.Remember(Turn("c", {9, 10, 11}));  // b goes: a was used after it
  EXPECT_TRUE(Restored(&turns, Turn("b", {})).empty());
  EXPECT_FALSE(Restored(&turns, Turn("a", {})).empty());
  EXPECT_FALSE(Restored(&turns, Turn("c", {})).empty());
  turns.Remember(Turn("a", {1}));  // the newer turn of an id
  EXPECT_EQ(turns.tokens(), 4u);
  turns.Remember(Turn("d", std::vector<int32_t>(11, 1)));  // more than there is room for
  EXPECT_EQ(turns.tokens(), 0u);
  turns.Remember(Assistant("no calls"));
  EXPECT_EQ(turns.tokens(), 0u);
}

// The way of a turn: sampled, decoded for the client, handed back, rendered.
TEST(SampledTurns, R23FromTheDecoderToTheNextPrompt) {
  const std::string text =
      "Hm.</think>Wait.\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n"
      "<｜DSML｜ parameter name=\"a\" string=\"false\">1</｜DSML｜ parameter>"
      "</｜DSML｜ invoke></｜DSML｜ calls>";
  const std::vector<int32_t> sampled = Chatty().Encode(text, Specials::kRecognise);
  OutputDecoderOptions options;
  options.start = OutputDecoderOptions::Start::kReasoning;
  options.tools = true;
  auto decoder = TokenOutputDecoder::Create(Chatty(), options).value();
  DecodedOutput output;
  for (const int32_t id : sampled) Append(decoder.Push(id), &output);
  Append(decoder.Finish(OutputReason::kStop), &output);
  ChatMessage turn = ToMessage(output);
  EXPECT_EQ(turn.reasoning, "Hm.");
  SampledTurns turns(1000);
  ChatMessage remembered = turn;
  remembered.sampled = sampled;
  turns.Remember(remembered);
  Conversation c{.messages = {User("q"), turn, Answered(turn.tool_calls.at(0).id, "r")}};
  const std::string before = Render(c);
  turns.Restore(&c);
  const std::string after = Render(c);
  EXPECT_NE(before.find("Wait.\n\n<[D] calls>"), std::string::npos) << before;
  EXPECT_NE(after.find("Wait.\n<[D] calls>"), std::string::npos) << after;
  EXPECT_TRUE(after.starts_with(Render({User("q")}) + "Hm.</think>Wait.\n"));
}

}  // namespace
}  // namespace thalweg::text
