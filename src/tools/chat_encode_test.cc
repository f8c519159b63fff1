// `thalweg chat-encode` renders what a file says as the chat encoding does, its options choose what
// they are named for, and the command line's word stands over the conversation's.
#include "tools/chat_encode.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace thalweg::tools {
namespace {

using base::Json;

const text::Tokenizer& Nano() {
  static const text::Tokenizer tokenizer =
      text::Tokenizer::Load(std::filesystem::path(THALWEG_SOURCE_DIR) /
                            "models/nano/tokenizer.json")
          .value();
  return tokenizer;
}

// Options as the command line resolves them, defaults included.
ChatEncodeOptions Options(const std::vector<std::pair<std::string, std::string>>& given) {
  base::OptionValues values;
  for (const auto& [name, value] : given) values.Set(name, value);
  const auto rows = ChatEncodeOptions::Rows();
  EXPECT_TRUE(base::ResolveOptions(rows, "", &values).ok());
  return ChatEncodeOptions::From(values).value();
}

std::string Prompt(std::string_view body,
                   const std::vector<std::pair<std::string, std::string>>& given = {}) {
  const auto chat =
      EncodeConversation(Nano(), base::ParseJson(body, "body").value(), Options(given));
  return chat.ok() ? chat->prompt : chat.status().message();
}

constexpr std::string_view kTwoRounds = R"([
  {"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "reasoning": "r"},
  {"role": "user", "content": "c"}])";
constexpr std::string_view kEffort75 =
    "Reasoning Effort: 75 (range 1-100, the higher the value, the more thorough the reasoning)\n\n";

TEST(ChatEncode, StylesAndOptions) {
  const std::string head = "<｜begin▁of▁sentence｜><｜System｜>" + std::string(kEffort75);
  const std::string kept = head +
                           "<｜User｜>a<｜Assistant｜><think>r</think>b<｜end▁of▁sentence｜>"
                           "<｜User｜>c<｜Assistant｜><think>";
  const std::string dropped = head +
                              "<｜User｜>a<｜Assistant｜></think>b<｜end▁of▁sentence｜>"
                              "<｜User｜>c<｜Assistant｜><think>";
  EXPECT_EQ(Prompt(kTwoRounds), kept);
  EXPECT_EQ(Prompt(kTwoRounds, {{"style", "huggingface"}}), dropped);
  EXPECT_EQ(Prompt(kTwoRounds, {{"drop-thinking", "true"}}), dropped);
  EXPECT_EQ(Prompt(kTwoRounds, {{"style", "huggingface"}, {"drop-thinking", "false"}}), kept);
  EXPECT_TRUE(Prompt(kTwoRounds, {{"generation-prompt", "never"}}).ends_with("<｜User｜>c"));
}

TEST(ChatEncode, CommandLineStandsOverTheConversation) {
  constexpr std::string_view kBody =
      R"({"messages": [{"role": "user", "content": "a"}], "reasoning_effort": 20})";
  EXPECT_NE(Prompt(kBody).find("Effort: 20 "), std::string::npos);
  EXPECT_NE(Prompt(kBody, {{"effort", "max"}}).find("Effort: 100 "), std::string::npos);
  EXPECT_EQ(Prompt(kBody, {{"thinking", "false"}}),
            "<｜begin▁of▁sentence｜><｜User｜>a<｜Assistant｜></think>");
  EXPECT_EQ(Prompt(kBody, {{"effort", "none"}}), Prompt(kBody, {{"thinking", "false"}}));
}

TEST(ChatEncode, IdsAreThoseOfThePromptReadAsAWhole) {
  const auto chat = EncodeConversation(Nano(), Json::parse(kTwoRounds), Options({})).value();
  EXPECT_EQ(chat.ids, Nano().Encode(chat.prompt, text::Specials::kRecognise));
  EXPECT_EQ(chat.start, "reasoning");
  EXPECT_EQ(ToJson(chat)["token_ids"].size(), chat.ids.size());
}

TEST(ChatEncode, ForcedCalls) {
  constexpr std::string_view kBody = R"({"messages": [{"role": "user", "content": "a"}],
      "tools": [{"type": "function", "function": {"name": "f"}}]})";
  EXPECT_TRUE(Prompt(kBody, {{"force-calls", "true"}, {"thinking", "false"}})
                  .ends_with("</think>\n\n<｜DSML｜ calls>\n"));
  EXPECT_NE(Prompt(kBody, {{"force-calls", "true"}}).find("tool_choice: "), std::string::npos);
}

TEST(ChatEncode, FilesOfOneAndOfMany) {
  const auto count = [](std::string_view file) {
    const auto read = ReadConversations(file, "file");
    return read.ok() ? std::to_string(read->size()) : read.status().message();
  };
  EXPECT_EQ(count(kTwoRounds), "1");
  EXPECT_EQ(count("{\"messages\":\n[]}\n"), "1");
  EXPECT_EQ(count("[]\n\n{}\n{}"), "3");
  EXPECT_NE(count("[]\n{\n").find("file line 2"), std::string::npos);
  EXPECT_NE(count("").find("file is not valid JSON"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::tools
