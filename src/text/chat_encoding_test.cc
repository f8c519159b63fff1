// Conversations become the prompts that the published encoders of the format make of them: every
// expected string of spec/serving.md 2.6, by the names that the table gives them, and the rules of
// 2.3 one by one.
#include "text/chat_encoding.h"

#include <gtest/gtest.h>

#include "text/test_chat.h"

namespace thalweg::text {
namespace {

constexpr ChatOptions kOff = {.thinking = false};

TEST(Chat, T1ThinkingIsTheDefault) {
  EXPECT_EQ(Render({User("Hello")}), "[B][S][R75][U]Hello[A]<think>");
}

TEST(Chat, T2SystemWithoutThinking) {
  EXPECT_EQ(Render({System("You are helpful."), User("Hello")}, kOff),
            "[B][S]You are helpful.[U]Hello[A]</think>");
}

// Ids of the released tokenizer: tests/data/chat/released_words.json has those of its tokens and
// merges that these texts need, under their ids.
TEST(Chat, T1AndT2HaveTheIdsOfTheRelease) {
  const Tokenizer released = Tokenizer::Parse(ReadTestFile("chat/released_words.json")).value();
  const std::vector<int32_t> t1 = {0,    128799, 77666, 288,    9504,  482,    28,    223,
                                   2402, 343,    16801, 223,    19,    15,     1457,  14,
                                   270,  4077,   270,   1990,   14,    270,    850,   15146,
                                   270,  22805,  868,   128803, 19923, 128804, 128821};
  EXPECT_EQ(EncodeChat(released, {.messages = {User("Hello")}}, {}).value(), t1);
  const std::vector<int32_t> t2 = {0, 128799, 3476, 477, 11502, 16, 128803, 19923, 128804, 128822};
  EXPECT_EQ(
      EncodeChat(released, {.messages = {System("You are helpful."), User("Hello")}}, kOff).value(),
      t2);
}

// The names of the tags are one token each, which is why a space stands before them.
TEST(Chat, NamesOfTagsAreSingleTokensOfTheRelease) {
  const Tokenizer released = Tokenizer::Parse(ReadTestFile("chat/released_words.json")).value();
  const std::pair<const char*, int32_t> names[] = {
      {" calls", 10699}, {" invoke", 34756}, {" parameter", 10767}};
  for (const auto& [name, id] : names)
    EXPECT_EQ(released.Encode(name, Specials::kAsText), std::vector<int32_t>{id}) << name;
}

TEST(Chat, T3NoSystemNoMark) {
  EXPECT_EQ(Render({User("What is 2+2?")}, kOff), "[B][U]What is 2+2?[A]</think>");
}

TEST(Chat, T4EffortMax) {
  EXPECT_EQ(Render({System("sys"), User("Hi")}, {.effort = 100}), "[B][S][R100]sys[U]Hi[A]<think>");
}

TEST(Chat, T5EffortNumber) {
  EXPECT_EQ(Render({User("x")}, {.effort = 64}), "[B][S][R64][U]x[A]<think>");
}

TEST(Chat, T6SeveralSystems) {
  EXPECT_EQ(Render({System("a"), System("b"), User("hi")}), "[B][S][R75]a[S]b[U]hi[A]<think>");
}

TEST(Chat, T7SystemInTheMiddle) {
  EXPECT_EQ(Render({User("q"), Assistant("4"), System("Now use French.")}, kOff),
            "[B][U]q[A]</think>4[E][S]Now use French.[A]</think>");
}

TEST(Chat, T8ReasoningOfTheHistory) {
  EXPECT_EQ(Render({User("q"), Assistant("ans", "thinking")}),
            "[B][S][R75][U]q[A]<think>thinking</think>ans[E][A]<think>");
}

const std::string kWeather =
    R"({"name": "get_weather", "description": "w", "parameters": {"type": "object"}})";

TEST(Chat, T9ToolsWithoutSystem) {
  Conversation c{.messages = {User("Weather?")}, .tools = {Tool("get_weather", "w")}};
  EXPECT_EQ(Render(c), "[B][S][R75]\n\n[TOOLS " + kWeather + "][U]Weather?[A]<think>");
}

TEST(Chat, T10HistoryOfCalls) {
  EXPECT_EQ(Render({User("q"),
                    Calling({{"c1", "", "get_weather", R"({"location": "Paris"})"}}, "Need tool."),
                    Answered("c1", "20C")}),
            "[B][S][R75][U]q[A]<think>Need tool.</think>\n\n"
            "<[D] calls>\n<[D] invoke name=\"get_weather\">\n"
            "<[D] parameter name=\"location\" string=\"true\">Paris</[D] parameter>\n"
            "</[D] invoke>\n</[D] calls>[E][U]<tool_result>20C</tool_result>[A]<think>");
}

TEST(Chat, T11ResultsStandInTheOrderOfTheCalls) {
  const std::string prompt =
      Render({User("q"), Calling({{"a", "", "fa", "{}"}, {"b", "", "fb", "{}"}}),
              Answered("b", "ra"), User("interrupt"), Answered("a", "rb")});
  EXPECT_TRUE(
      prompt.ends_with("[U]<tool_result>rb</tool_result>\n\ninterrupt\n\n"
                       "<tool_result>ra</tool_result>[A]<think>"))
      << prompt;
}

TEST(Chat, T12ForcedCalls) {
  Conversation c{
      .messages = {User("q")}, .tools = {Tool("f", "")}, .tool_choice = ToolChoice::kForced};
  EXPECT_TRUE(Render(c, kOff).ends_with("[U]q[A]</think>\n\n<[D] calls>\n"));
}

TEST(Chat, T13JsonMode) {
  Conversation c{.messages = {User("q as json")},
                 .response_format = base::Json{{"type", "json_object"}}};
  EXPECT_EQ(
      Render(c),
      "[B][S][R75]\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema "
      "to reply:\n{\"type\": \"json_object\"}[U]q as json[A]<think>");
}

TEST(Chat, T14Blocks) {
  ChatMessage message = User("");
  message.content.blocks = {{.text = "before"},
                            {.kind = ContentBlock::Kind::kImage, .text = "data:1"},
                            {.text = "after"}};
  EXPECT_EQ(Render({message}, kOff), "[B][U]before\n\n[I]\n\nafter[A]</think>");
  const auto rendered = RenderChat(Chatty(), {.messages = {message}}, kOff).value();
  EXPECT_EQ(rendered.images, std::vector<std::string>{"data:1"});
}

TEST(Chat, T15AssistantFirst) {
  EXPECT_EQ(Render({Assistant("first")}), "[B][S][R75][A]</think>first[E][A]<think>");
  EXPECT_EQ(Render({Assistant("first")}, kOff), "[B][A]</think>first[E][A]</think>");
}

TEST(Chat, T16Namespaces) {
  ToolDefinition tool = Tool("current", "Weather tools\nNow");
  tool.name_space = "weather";
  Conversation c{
      .messages = {User("q"), Calling({{"c", "weather", "current", "{}"}}), Answered("c", "r")},
      .tools = {tool}};
  const std::string prompt = Render(c);
  EXPECT_NE(prompt.find(R"({"name": "weather::current", "description": "Weather tools\nNow", )"),
            std::string::npos)
      << prompt;
  EXPECT_NE(prompt.find("invoke name=\"weather::current\">\n\n</"), std::string::npos) << prompt;
}

std::string RenderArguments(std::string arguments, ChatOptions options = {}) {
  const std::string prompt = Render(
      {User("q"), Calling({{"c", "", "f", std::move(arguments)}}), Answered("c", "r")}, options);
  const size_t begin = prompt.find("invoke name=\"f\">") + 16;
  return prompt.substr(begin, prompt.find("</[D] invoke>") - begin);
}

TEST(Chat, T17ArgumentsAsPythonWritesThem) {
  EXPECT_EQ(RenderArguments(R"({"ratio":1.5e-7,"nested":{"list":[1,2,"x"],"none":null}})"),
            "\n<[D] parameter name=\"ratio\" string=\"false\">1.5e-07</[D] parameter>\n"
            "<[D] parameter name=\"nested\" string=\"false\">{\"list\": [1, 2, \"x\"], \"none\": "
            "null}</[D] parameter>\n");
  EXPECT_EQ(RenderArguments(R"({"text":"a\n\"b\"","flag":true,"cjk":"中文","empty":{}})"),
            "\n<[D] parameter name=\"text\" string=\"true\">a\n\"b\"</[D] parameter>\n"
            "<[D] parameter name=\"flag\" string=\"false\">true</[D] parameter>\n"
            "<[D] parameter name=\"cjk\" string=\"true\">中文</[D] parameter>\n"
            "<[D] parameter name=\"empty\" string=\"false\">{}</[D] parameter>\n");
}

TEST(Chat, T18ArgumentsThatAreNoObject) {
  for (const std::string text : {"not json", "[1, 2]", "\"{}\"", "{\"a\": 1, \"a\": 2}", "NaN"}) {
    EXPECT_EQ(RenderArguments(text),
              "\n<[D] parameter name=\"arguments\" string=\"true\">" + text + "</[D] parameter>\n");
  }
  EXPECT_EQ(RenderArguments(""), "\n\n");
  EXPECT_EQ(RenderArguments("{}"), "\n\n");
}

TEST(Chat, UsersInARowAreOneTurn) {
  EXPECT_EQ(Render({User("A"), User("B")}, kOff), "[B][U]A\n\nB[A]</think>");
  EXPECT_EQ(Render({User("A"), User(""), User("B")}), "[B][S][R75][U]A\n\n\n\nB[A]<think>");
}

TEST(Chat, ResultBehindUserJoinsTheTurn) {
  EXPECT_TRUE(Render({User("q"), Calling({{"c", "", "f", "{}"}}), User("u"), Answered("c", "r")})
                  .ends_with("[E][U]u\n\n<tool_result>r</tool_result>[A]<think>"));
}

TEST(Chat, ToolsThenResponseFormatGoToTheSystemMessage) {
  Conversation c{.messages = {System("sys json"), User("q")},
                 .tools = {Tool("get_weather", "w")},
                 .response_format = base::Json{{"type", "json_object"}}};
  EXPECT_EQ(Render(c, kOff), "[B][S]sys json\n\n[TOOLS " + kWeather +
                                 "]\n\n## Response Format:\n\nYou MUST strictly adhere to the "
                                 "following schema to reply:\n{\"type\": \"json_object\"}[U]q[A]"
                                 "</think>");
}

TEST(Chat, ToolChoiceNoneShowsNoTools) {
  Conversation c{
      .messages = {User("q")}, .tools = {Tool("f", "")}, .tool_choice = ToolChoice::kNone};
  EXPECT_EQ(Render(c, kOff), "[B][U]q[A]</think>");
}

TEST(Chat, ToolsOfAMessageStandBehindItsText) {
  ChatMessage late = System("more");
  late.tools = {Tool("get_weather", "w")};
  EXPECT_EQ(Render({User("q"), Assistant("a"), late, User("r")}, kOff),
            "[B][U]q[A]</think>a[E][S]more\n\n[TOOLS " + kWeather + "][U]r[A]</think>");
  Conversation both{.messages = {late, User("r")}, .tools = {Tool("f", "")}};
  const std::string prompt = Render(both, kOff);
  EXPECT_NE(prompt.find("{\"type\": \"object\"}}\n" + kWeather), std::string::npos) << prompt;
}

TEST(Chat, ToolBlockByteForByte) {
  const auto chat =
      RenderChat(Chatty(), {.messages = {User("q")}, .tools = {Tool("f", "")}}, kOff).value();
  const std::string prompt = SpellPieces(Chatty(), chat.pieces);
  const std::string expected = ReadTestFile("chat/tool_block.txt");
  EXPECT_NE(prompt.find("<｜System｜>\n\n" + expected + "<｜User｜>"), std::string::npos) << prompt;
  // The marks inside are tokens.
  int64_t dsml = 0, think = 0, end_think = 0;
  for (const Piece& piece : chat.pieces) {
    if (!piece.is_special()) continue;
    dsml += Chatty().RawToken(piece.id()) == "｜DSML｜" ? 1 : 0;
    think += Chatty().RawToken(piece.id()) == "<think>" ? 1 : 0;
    end_think += Chatty().RawToken(piece.id()) == "</think>" ? 1 : 0;
  }
  EXPECT_EQ(dsml, 9);
  EXPECT_EQ(think, 2);
  EXPECT_EQ(end_think, 3);  // and the one that ends the prompt
}

TEST(Chat, PrefixOfAnAnswerIsLeftOpen) {
  ChatMessage answer = Assistant("So far", "Hm.");
  answer.to_be_continued = true;
  using Start = OutputDecoderOptions::Start;
  EXPECT_EQ(Render({User("q"), answer}), "[B][S][R75][U]q[A]<think>Hm.</think>So far");
  EXPECT_EQ(StartOf({User("q"), answer}), Start::kContinuedContent);
  EXPECT_EQ(Render({User("q"), answer}, kOff), "[B][U]q[A]</think>So far");
  answer.content = ChatContent();
  EXPECT_EQ(Render({User("q"), answer}), "[B][S][R75][U]q[A]<think>Hm.");
  EXPECT_EQ(StartOf({User("q"), answer}), Start::kContinuedReasoning);
  answer.content = "";
  EXPECT_EQ(Render({User("q"), answer}), "[B][S][R75][U]q[A]<think>Hm.</think>");
  EXPECT_EQ(StartOf({User("q"), answer}), Start::kContent);
}

TEST(Chat, StartFollowsTheEndOfThePrompt) {
  using Start = OutputDecoderOptions::Start;
  EXPECT_EQ(StartOf({User("q")}), Start::kReasoning);
  EXPECT_EQ(StartOf({User("q"), Assistant("a")}), Start::kReasoning);
  EXPECT_EQ(StartOf({User("q"), Assistant("a")}, kOff), Start::kContent);
}

TEST(Chat, ErrorsNameTheCause) {
  for (const int effort : {0, 101, -1}) {
    EXPECT_NE(Render({User("x")}, {.effort = effort}).find("100"), std::string::npos);
  }
  Conversation forced{.messages = {User("q")}, .tool_choice = ToolChoice::kForced};
  EXPECT_NE(Render(forced, kOff).find("no tools"), std::string::npos);
  forced.tools = {Tool("f", "")};
  EXPECT_NE(Render(forced).find("thinking off"), std::string::npos);
  for (const char* name : {"<｜Assistant｜>", "｜DSML｜", "<｜latest_reminder｜>", "<｜image｜>"}) {
    const Tokenizer lacking = TokenizerWithout(name);
    ChatMessage image = User("");
    image.content.blocks = {{.kind = ContentBlock::Kind::kImage, .text = "u"}};
    const Conversation c{.messages = {User("q"), Reminder("r"), image}, .tools = {Tool("f", "")}};
    const Status status = RenderChat(lacking, c, {}).status();
    EXPECT_NE(status.message().find(name), std::string::npos) << status.ToString();
  }
}

}  // namespace
}  // namespace thalweg::text
