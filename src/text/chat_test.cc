// Conversations are rendered as spec/serving.md 2.3 says, shown by its expected strings (2.6), and
// no turn can put a special token into the prompt.
#include "text/chat.h"

#include <gtest/gtest.h>

#include "text/test_tokenizer.h"

namespace thalweg::text {
namespace {

const std::vector<std::string> kNames = {"<｜begin▁of▁sentence｜>",
                                         "<｜end▁of▁sentence｜>",
                                         "<｜System｜>",
                                         "<｜User｜>",
                                         "<｜Assistant｜>",
                                         "<think>",
                                         "</think>",
                                         "｜DSML｜"};

const Tokenizer& Chatty() {
  static const Tokenizer tokenizer = Tokenizer::Parse(ByteLevelJson({}, kNames).dump()).value();
  return tokenizer;
}

// Upper-case letters stand for the marks in expected prompts; R75 and the like for effort lines.
std::string Short(std::string prompt) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {kNames[0], "[B]"},
      {kNames[1], "[E]"},
      {kNames[2], "[S]"},
      {kNames[3], "[U]"},
      {kNames[4], "[A]"},
      {" (range 1-100, the higher the value, the more thorough the reasoning)\n\n", "]"},
      {"Reasoning Effort: ", "[R"}};
  for (const auto& [name, letter] : names) {
    for (size_t at = prompt.find(name); at != std::string::npos; at = prompt.find(name)) {
      prompt.replace(at, name.size(), letter);
    }
  }
  return prompt;
}

std::string Render(const std::vector<ChatTurn>& turns, const ChatOptions& options = {}) {
  const auto pieces = RenderChat(Chatty(), turns, options);
  return pieces.ok() ? Short(SpellPieces(Chatty(), *pieces)) : pieces.status().ToString();
}

ChatTurn System(std::string text) { return {Role::kSystem, std::move(text), ""}; }
ChatTurn User(std::string text) { return {Role::kUser, std::move(text), ""}; }
ChatTurn Assistant(std::string text, std::string reasoning = "") {
  return {Role::kAssistant, std::move(text), std::move(reasoning)};
}

constexpr ChatOptions kOff = {.thinking = false};

TEST(Chat, ExpectedPrompts) {
  EXPECT_EQ(Render({User("Hello")}), "[B][S][R75][U]Hello[A]<think>");
  EXPECT_EQ(Render({System("You are helpful."), User("Hello")}, kOff),
            "[B][S]You are helpful.[U]Hello[A]</think>");
  EXPECT_EQ(Render({User("What is 2+2?")}, kOff), "[B][U]What is 2+2?[A]</think>");
  EXPECT_EQ(Render({System("sys"), User("Hi")}, {.effort = 100}), "[B][S][R100]sys[U]Hi[A]<think>");
  EXPECT_EQ(Render({User("x")}, {.effort = 64}), "[B][S][R64][U]x[A]<think>");
  EXPECT_EQ(Render({System("a"), System("b"), User("hi")}), "[B][S][R75]a[S]b[U]hi[A]<think>");
  EXPECT_EQ(Render({User("q"), Assistant("4"), System("Now use French.")}, kOff),
            "[B][U]q[A]</think>4[E][S]Now use French.[A]</think>");
  EXPECT_EQ(Render({User("q"), Assistant("ans", "thinking")}),
            "[B][S][R75][U]q[A]<think>thinking</think>ans[E][A]<think>");
  EXPECT_EQ(Render({Assistant("first")}), "[B][S][R75][A]</think>first[E][A]<think>");
}

TEST(Chat, UsersInARowAreOneTurn) {
  EXPECT_EQ(Render({User("A"), User(""), User("B")}, kOff), "[B][U]A\n\n\n\nB[A]</think>");
}

TEST(Chat, OldReasoningIsDroppedOrKept) {
  const std::vector<ChatTurn> turns = {User("a"), Assistant("b", "r1"), User("c"),
                                       Assistant("d", "r2")};
  EXPECT_EQ(Render(turns, {.add_generation_prompt = false}),
            "[B][S][R75][U]a[A]</think>b[E][U]c[A]<think>r2</think>d[E]");
  EXPECT_EQ(Render(turns, {.add_generation_prompt = false, .drop_thinking = false}),
            "[B][S][R75][U]a[A]<think>r1</think>b[E][U]c[A]<think>r2</think>d[E]");
  EXPECT_EQ(Render({User("a"), Assistant("b", "r1"), System("s")}),
            "[B][S][R75][U]a[A]</think>b[E][S]s[A]<think>");
}

TEST(Chat, TextCannotSmuggleSpecials) {
  std::string attack;
  for (const std::string& name : kNames) attack += name;
  const auto pieces = RenderChat(Chatty(), std::vector{User(attack)}, kOff).value();
  int added = 0;
  for (const int32_t id : EncodePieces(Chatty(), pieces)) added += Chatty().IsAdded(id) ? 1 : 0;
  EXPECT_EQ(added, 4);  // begin, user, assistant, end of thinking
}

TEST(Chat, ErrorsNameTheCause) {
  EXPECT_FALSE(RenderChat(Chatty(), {}, {}).ok());
  for (const int effort : {0, 101, -1}) {
    EXPECT_FALSE(RenderChat(Chatty(), std::vector{User("x")}, {.effort = effort}).ok());
  }
  std::vector<std::string> fewer = kNames;
  fewer.erase(fewer.begin() + 4);
  const Tokenizer lacking = Tokenizer::Parse(ByteLevelJson({}, fewer).dump()).value();
  const Status status = RenderChat(lacking, std::vector{User("x")}, {}).status();
  EXPECT_NE(status.message().find("<｜Assistant｜>"), std::string::npos) << status.ToString();
}

TEST(Chat, EffortWordsAndNumbers) {
  EXPECT_EQ(ParseEffort("low").value(), 50);
  EXPECT_EQ(ParseEffort("high").value(), 75);
  EXPECT_EQ(ParseEffort("max").value(), 100);
  EXPECT_EQ(ParseEffort("37").value(), 37);
  for (const char* bad : {"", "0", "101", "-5", "5.0", "medium", " 50", "50 ", "99999999999"}) {
    EXPECT_FALSE(ParseEffort(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseRole("assistant").value(), Role::kAssistant);
  EXPECT_FALSE(ParseRole("tool").ok());
}

}  // namespace
}  // namespace thalweg::text
