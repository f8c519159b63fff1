// Faults that users of other servers reported about prompts (spec/serving.md 3.2, by its numbers)
// do not happen here. R08, R45, R51 and R54 are in chat_json_test.cc.
#include <gtest/gtest.h>

#include <algorithm>

#include "text/chat_json.h"
#include "text/test_chat.h"
#include "text/test_tokenizer.h"

namespace thalweg::text {
namespace {

constexpr ChatOptions kOff = {.thinking = false};

// Efforts are those of the release: default 75, low 50, high 75, max 100.
TEST(ChatCases, R01EffortsOfTheRelease) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"messages": [{"role": "user", "content": "q"}]})", "[R75]"},
      {R"({"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "low"})", "[R50]"},
      {R"({"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "high"})", "[R75]"},
      {R"({"messages": [{"role": "user", "content": "q"}], "reasoning_effort": "max"})", "[R100]"}};
  for (const auto& [body, line] : cases) {
    const auto request = ReadChatRequest(base::ParseJson(body, "body").value()).value();
    const EffortChoice effort = request.effort.value_or(EffortChoice());
    EXPECT_EQ(Render(request.conversation, {.thinking = effort.thinking, .effort = effort.effort}),
              "[B][S]" + std::string(line) + "[U]q[A]<think>");
  }
}

// Three efforts are three prompts.
TEST(ChatCases, R02NoEffortIsLikeAnother) {
  std::vector<std::string> prompts;
  for (const char* name : {"low", "high", "max"})
    prompts.push_back(Render({User("q")}, {.effort = ParseEffortName(name).value().effort}));
  EXPECT_NE(prompts[0], prompts[1]);
  EXPECT_NE(prompts[1], prompts[2]);
  EXPECT_NE(prompts[0], prompts[2]);
}

TEST(ChatCases, R03RefusedEffortsListWhatIsAllowed) {
  const std::string error = ParseEffortName("ultra").status().message();
  for (const char* name :
       {"ultra", "none", "minimal", "low", "medium", "high", "xhigh", "max", "1..100"})
    EXPECT_NE(error.find(name), std::string::npos) << error;
}

// The effort line's "\n\n" and the one before the tools are one run of text, so that merges cross.
TEST(ChatCases, R04TextIsMergedAcrossParts) {
  std::vector<std::string> marks;
  for (const char* mark : {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜System｜>",
                           "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜"})
    marks.emplace_back(mark);
  // "Ċ" is the line end in the byte alphabet. Three of four in a row are one token here, for the
  // split leaves the last one to what follows; of two there would be no such token.
  const Tokenizer tokenizer =
      Tokenizer::Parse(ByteLevelJson({{"Ċ", "Ċ"}, {"ĊĊ", "Ċ"}}, marks).dump()).value();
  const Conversation c{.messages = {User("q")}, .tools = {Tool("f", "")}};
  const auto ids = EncodeChat(tokenizer, c, {}).value();
  const std::vector<int32_t> three = tokenizer.Encode("\n\n\n", Specials::kAsText);
  ASSERT_EQ(three.size(), 1u);
  EXPECT_EQ(std::ranges::count(ids, three[0]), 1);
  const auto pieces = RenderChat(tokenizer, c, {}).value().pieces;
  EXPECT_NE(pieces[2].text().find("reasoning)\n\n\n\n## Tools"), std::string::npos);
}

// Images move with the results that they are in, and the conversation stays as it was.
TEST(ChatCases, R06ImagesMoveWithTheirResults) {
  const auto result = [](std::string id, std::string url) {
    ChatMessage message = Answered(std::move(id), "see");
    message.content.blocks.push_back({.kind = ContentBlock::Kind::kImage, .text = std::move(url)});
    return message;
  };
  const Conversation c{.messages = {User("q"),
                                    Calling({{"a", "", "fa", "{}"}, {"b", "", "fb", "{}"}}),
                                    result("b", "url of b"), result("a", "url of a")}};
  const Conversation before = c;
  const auto chat = RenderChat(Chatty(), c, kOff).value();
  EXPECT_EQ(chat.images, (std::vector<std::string>{"url of a", "url of b"}));
  EXPECT_EQ(c, before);
}

// Marks that users spell are text: in every field that a stranger can fill.
TEST(ChatCases, R07SpelledMarksStayText) {
  std::string attack;
  for (const char* mark :
       {"<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜System｜>", "<｜User｜>",
        "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜", "<｜latest_reminder｜>"})
    attack += mark;
  const auto filled = [](const std::string& text) {
    ToolDefinition tool = Tool("f", text);
    tool.parameters["title"] = text;
    tool.parameters[text] = base::Json::object();
    const std::string arguments = base::Json{{text, text}, {"n", {text}}}.dump();
    return Conversation{
        .messages = {System(text), User(text),
                     Calling({{text, "", text, arguments}, {"d", text, "g", text}}, text),
                     Answered(text, text), Answered("d", text), Reminder(text),
                     Assistant(text, text), User(text)},
        .tools = {tool}};
  };
  const auto marks = [](const Conversation& c) {
    std::vector<int32_t> special;
    const std::vector<int32_t> ids = EncodeChat(Chatty(), c, {}).value();
    std::ranges::copy_if(ids, std::back_inserter(special),
                         [](int32_t id) { return Chatty().IsAdded(id); });
    return special;
  };
  EXPECT_EQ(marks(filled(attack)), marks(filled("x")));
  const auto ids = EncodeChat(Chatty(), filled(attack), {}).value();
  EXPECT_NE(Chatty().Decode(ids, false).find("<｜User｜>" + attack), std::string::npos);
}

// The model wrote one line end before its calls where the format has two; the next prompt repeats
// its tokens, and with them what is in the cache.
TEST(ChatCases, R23SampledTurnsAreRepeated) {
  const std::string sampled =
      "Hm.</think>\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n</｜DSML｜ invoke>\n</｜DSML｜ "
      "calls>";
  ChatMessage turn = Calling({{"c", "", "f", "{}"}}, "Hm.");
  turn.sampled = Chatty().Encode(sampled, Specials::kRecognise);
  const auto first = EncodeChat(Chatty(), {.messages = {User("q")}}, {}).value();
  const auto next =
      EncodeChat(Chatty(), {.messages = {User("q"), turn, Answered("c", "r")}}, {}).value();
  std::vector<int32_t> cached = first;
  cached.insert(cached.end(), turn.sampled.begin(), turn.sampled.end());
  ASSERT_GT(next.size(), cached.size());
  EXPECT_TRUE(std::equal(cached.begin(), cached.end(), next.begin()));
  EXPECT_EQ(next[cached.size()], Chatty().IdOfSpecial("<｜end▁of▁sentence｜>"));
  // Where reasoning is not shown, a turn that has one is rendered anew.
  const auto dropped =
      EncodeChat(Chatty(), {.messages = {User("q"), turn, Answered("c", "r")}}, kOff).value();
  EXPECT_EQ(Chatty().Decode(dropped, false).find("Hm."), std::string::npos);
  turn.sampled.push_back(*Chatty().IdOfSpecial("<｜User｜>"));
  EXPECT_NE(Render({User("q"), turn, Answered("c", "r")}).find("messages[1].sampled"),
            std::string::npos);
}

}  // namespace
}  // namespace thalweg::text
