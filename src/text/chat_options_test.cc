// Where the published encoders of the format disagree (spec/serving.md 2.9, D1 to D8), each option
// gives the prompt of the one or of the other.
#include <gtest/gtest.h>

#include "text/test_chat.h"

namespace thalweg::text {
namespace {

using Options = ChatOptions;

Options HuggingFace(bool thinking = true) {
  Options options = Options::HuggingFace();
  options.thinking = thinking;
  return options;
}

std::vector<ChatMessage> TwoRounds() {
  return {User("a"), Assistant("b", "r1"), User("c"), Assistant("d", "r2")};
}

TEST(ChatOptions, D1OldReasoningIsKeptOrDropped) {
  EXPECT_EQ(Render(TwoRounds()),
            "[B][S][R75][U]a[A]<think>r1</think>b[E][U]c[A]<think>r2</think>d[E][A]<think>");
  EXPECT_EQ(Render(TwoRounds(), HuggingFace()),
            "[B][S][R75][U]a[A]</think>b[E][U]c[A]<think>r2</think>d[E]");
  EXPECT_EQ(Render(TwoRounds(), HuggingFace(false)), "[B][U]a[A]</think>b[E][U]c[A]</think>d[E]");
}

TEST(ChatOptions, D1LaterSystemsAndResultsCountAsUserTurns) {
  EXPECT_EQ(Render({User("a"), Assistant("b", "r1"), System("s")}, HuggingFace()),
            "[B][S][R75][U]a[A]</think>b[E][S]s[A]<think>");
  const std::vector<ChatMessage> called = {User("a"), Calling({{"c", "", "f", "{}"}}, "r1"),
                                           Answered("c", "x")};
  EXPECT_NE(Render(called, HuggingFace()).find("[U]a[A]</think>\n\n<[D] calls>"),
            std::string::npos);
  EXPECT_EQ(Render({System("s"), Assistant("b", "r1")}, HuggingFace()),
            "[B][S][R75]s[A]<think>r1</think>b[E]");
}

TEST(ChatOptions, D1DeclaredToolsKeepReasoning) {
  Conversation c{.messages = TwoRounds(), .tools = {Tool("f", "")}};
  EXPECT_NE(Render(c, HuggingFace()).find("<think>r1</think>b"), std::string::npos);
  c.tools.clear();
  c.messages[0].tools = {Tool("f", "")};
  EXPECT_NE(Render(c, HuggingFace()).find("<think>r1</think>b"), std::string::npos);
}

// With all reasoning kept, the prompt of a round is the beginning of that of the next one.
TEST(ChatOptions, D1PromptsOnlyGrow) {
  const std::vector<ChatMessage> all = {
      User("a"), Assistant("b", "r1"), User("c"), Assistant("d", "r2"), System("s"),
      User("e"), Assistant("f")};
  std::string before;
  for (const long count : {1, 3, 6}) {  // those that await an answer
    const std::string prompt = Render({all.begin(), all.begin() + count});
    EXPECT_TRUE(prompt.starts_with(before)) << before << "\n" << prompt;
    before = prompt;
  }
}

TEST(ChatOptions, D2EndOfTheConversation) {
  using Generation = Options::GenerationPrompt;
  const auto end = [](std::vector<ChatMessage> messages, Generation generation) {
    return Render(std::move(messages), {.thinking = false, .generation_prompt = generation});
  };
  EXPECT_EQ(end({User("q")}, Generation::kNever), "[B][U]q");
  EXPECT_EQ(end({User("q"), Assistant("a")}, Generation::kAlways),
            "[B][U]q[A]</think>a[E][A]</think>");
  EXPECT_EQ(end({System("s")}, Generation::kAlways), "[B][S]s[A]</think>");
  EXPECT_EQ(end({System("s")}, Generation::kAwaited), "[B][S]s");
  EXPECT_EQ(end({System("s"), System("t")}, Generation::kAwaited), "[B][S]s[S]t[A]</think>");
  EXPECT_EQ(end({User("q"), Assistant("a")}, Generation::kAwaited), "[B][U]q[A]</think>a[E]");
  EXPECT_EQ(end({User("q"), Assistant("a"), System("s")}, Generation::kAwaited),
            "[B][U]q[A]</think>a[E][S]s[A]</think>");
  EXPECT_EQ(end({User("q"), Assistant("a"), System("s"), Assistant("b")}, Generation::kAwaited),
            "[B][U]q[A]</think>a[E][S]s[A]</think>b[E]");
  // Calls without results can end a conversation that nothing is generated for.
  const std::vector<ChatMessage> calls = {User("q"), Calling({{"c", "", "f", "{}"}})};
  EXPECT_TRUE(end(calls, Generation::kNever).ends_with("</[D] calls>[E]"));
  EXPECT_NE(end(calls, Generation::kAlways).find("no tool message"), std::string::npos);
}

TEST(ChatOptions, D3PlaceOfReminders) {
  const std::vector<ChatMessage> last = {User("q"), Reminder("now")};
  EXPECT_EQ(Render(last, {.thinking = false}), "[B][U]q[L]now[A]</think>");
  EXPECT_EQ(Render(last, HuggingFace(false)), "[B][U]q[A]</think>[L]now");
  EXPECT_EQ(Render(last, HuggingFace()), "[B][S][R75][U]q[A]<think>[L]now");
  EXPECT_EQ(StartOf(last, HuggingFace()), OutputDecoderOptions::Start::kReasoning);
  const std::vector<ChatMessage> answered = {User("q"), Reminder("now"), Assistant("a", "r"),
                                             User("again")};
  EXPECT_EQ(Render(answered), "[B][S][R75][U]q[L]now[A]<think>r</think>a[E][U]again[A]<think>");
  EXPECT_EQ(Render(answered, HuggingFace()),
            "[B][S][R75][U]q[A]</think>[L]nowa[E][U]again[A]<think>");
  EXPECT_EQ(Render({User("q"), Assistant("a"), Reminder("now")}),
            "[B][S][R75][U]q[A]<think></think>a[E][L]now[A]<think>");
  EXPECT_EQ(Render({System("s"), Reminder("now"), User("q")}, HuggingFace(false)),
            "[B][S]s[L]now[U]q[A]</think>");
}

TEST(ChatOptions, D4SchemaText) {
  ToolDefinition tool = Tool("f", "d");
  tool.strict = true;
  tool.as_given = {{"strict", true}, {"description", "d"}, {"name", "f"}, {"extra", 1.0}};
  const Conversation c{.messages = {User("q")}, .tools = {tool}};
  EXPECT_NE(Render(c).find(
                R"([TOOLS {"name": "f", "description": "d", "parameters": {"type": "object"}}])"),
            std::string::npos);
  EXPECT_NE(Render(c, {.schema_text = Options::SchemaText::kAsGiven})
                .find(R"([TOOLS {"strict": true, "description": "d", "name": "f", "extra": 1.0}])"),
            std::string::npos);
}

TEST(ChatOptions, D5ImageToken) {
  ChatMessage image = User("");
  image.content.blocks = {{.kind = ContentBlock::Kind::kImage, .text = "u"}};
  EXPECT_EQ(Render({image}, {.thinking = false, .image_token = "<｜System｜>"}),
            "[B][U][S][A]</think>");
  const Tokenizer other = TokenizerWithout("<｜image｜>");
  EXPECT_FALSE(RenderChat(other, {.messages = {image}}, {}).ok());
}

TEST(ChatOptions, D6ArgumentsThatAreAStringOfJson) {
  const std::vector<ChatMessage> messages = {
      User("q"), Calling({{"c", "", "f", R"("{\"a\": 1}")"}}), Answered("c", "r")};
  EXPECT_NE(Render(messages).find("name=\"arguments\" string=\"true\">\"{\\\"a\\\": 1}\"<"),
            std::string::npos);
  EXPECT_NE(Render(messages, {.unwrap_arguments = true}).find("name=\"a\" string=\"false\">1<"),
            std::string::npos);
}

TEST(ChatOptions, D7Efforts) {
  const std::pair<const char*, EffortChoice> good[] = {
      {"none", {false, 75}}, {"minimal", {true, 50}}, {"low", {true, 50}},  {"medium", {true, 75}},
      {"high", {true, 75}},  {"xhigh", {true, 75}},   {"max", {true, 100}}, {"37", {true, 37}},
      {"1", {true, 1}},      {"100", {true, 100}}};
  for (const auto& [text, choice] : good)
    EXPECT_EQ(ParseEffortChoice(text).value(), choice) << text;
  for (const char* bad : {"", "0", "101", "-5", "5.0", "Low", " 50", "50 ", "99999999999"}) {
    EXPECT_FALSE(ParseEffortChoice(bad).ok()) << bad;
  }
  EXPECT_EQ(ParseEffort("low").value(), 50);
  EXPECT_FALSE(ParseEffort("none").ok());
}

TEST(ChatOptions, D8ThinkingIsOn) {
  EXPECT_EQ(StartOf({User("q")}), OutputDecoderOptions::Start::kReasoning);
}

}  // namespace
}  // namespace thalweg::text
