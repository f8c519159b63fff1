// Lines of OpenAI's batches and plain ones mean the same request; what is wrong with a line is
// named, and nothing of it is ignored but what the documentation lists.
#include "tools/batch/request_line.h"

#include <gtest/gtest.h>

#include <set>

namespace thalweg::tools::batch {
namespace {

Result<LineRequest> Read(std::string_view text, const Json& defaults = Json::object()) {
  LineId id;
  TW_ASSIGN(const Json line, ParseLine(text, &id));
  return RequestOfLine(line, defaults);
}

void ExpectBad(std::string_view text, std::string_view part) {
  const auto request = Read(text);
  ASSERT_FALSE(request.ok()) << text;
  EXPECT_NE(request.status().message().find(part), std::string::npos) << request.status().message();
}

TEST(BatchLine, OpenAiAndPlainLinesAgree) {
  const auto wrapped = Read(
      R"({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m",
          "messages": [{"role": "user", "content": "hi"}], "max_completion_tokens": 9,
          "logprobs": true, "top_logprobs": 2, "stream": false, "seed": 3}})");
  const auto plain = Read(
      R"({"id": "a", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9,
          "logprobs": 2, "seq_seed": 3})");
  for (const auto* one : {&wrapped, &plain}) {
    ASSERT_TRUE(one->ok()) << one->status().message();
    EXPECT_EQ(std::get<Conversation>((*one)->prompt).messages.at(0).content, "hi");
    EXPECT_EQ((*one)->params.max_tokens, 9);
    EXPECT_EQ((*one)->params.logprobs, 2);
    EXPECT_EQ((*one)->params.seed, 3u);
  }
}

TEST(BatchLine, EveryFormOfAPrompt) {
  EXPECT_EQ(std::get<std::string>(Read(R"({"prompt": "x"})")->prompt), "x");
  EXPECT_EQ(std::get<std::vector<int32_t>>(Read(R"({"prompt": [4, 5]})")->prompt).size(), 2u);
  EXPECT_EQ(std::get<std::vector<int32_t>>(Read(R"({"prompt_token_ids": [4]})")->prompt).at(0), 4);
  const auto thinking = Read(R"({"messages": [], "thinking": true, "effort": 10})");
  EXPECT_TRUE(std::get<Conversation>(thinking->prompt).thinking);
  EXPECT_EQ(std::get<Conversation>(thinking->prompt).effort, 10);
  const auto tools = Read(R"({"messages": [], "tools": [{"function": {"name": "f"}}]})");
  EXPECT_EQ(std::get<Conversation>(tools->prompt).tools.at(0).name, "f");
}

TEST(BatchLine, DefaultsStandWhereTheLineIsSilent) {
  const Json defaults = {{"temperature", 0}, {"max_tokens", 5}};
  EXPECT_EQ(Read(R"({"messages": []})", defaults)->params.max_tokens, 5);
  EXPECT_EQ(Read(R"({"prompt": "x"})", defaults)->params.temperature, 0);
  EXPECT_EQ(Read(R"({"prompt": "x", "temperature": 2})", defaults)->params.temperature, 2);
  EXPECT_EQ(Read(R"({"prompt": "x"})")->params.max_tokens, 16);
  EXPECT_FALSE(Read(R"({"messages": []})")->params.max_tokens.has_value());
  EXPECT_TRUE(Read(R"({"prompt": "x", "return_token_ids": true})")->return_token_ids);
  EXPECT_FALSE(
      Read(R"({"prompt": "x", "parse_special_tokens": false})")->options.parse_special_tokens);
}

TEST(BatchLine, WhatIsWrongIsNamed) {
  ExpectBad("", "not valid JSON");
  ExpectBad("{", "not valid JSON");
  ExpectBad("[]", "an object");
  ExpectBad("{}", "exactly one of messages, prompt, prompt_token_ids");
  ExpectBad(R"({"prompt": "x", "messages": []})", "exactly one of");
  ExpectBad(R"({"prompt": "x", "prompt": "y"})", "duplicate key");
  ExpectBad(R"({"prompt": 5})", "prompt is 5");
  ExpectBad(R"({"prompt": "x", "thinking": true})", "prompt");
  ExpectBad(R"({"custom_id": 5, "prompt": "x"})", "custom_id is 5");
  ExpectBad(R"({"custom_id": "a", "id": "a", "prompt": "x"})", "custom_id and id");
  ExpectBad(R"({"body": 5})", "body is 5");
  ExpectBad(R"({"body": {"prompt": "x"}, "temperature": 1})", "beside body");
  ExpectBad(R"({"prompt": "x", "stream": true})", "does not stream");
  ExpectBad(R"({"prompt": "x", "temprature": 1})", "temprature");
  ExpectBad(R"({"prompt": "x", "top_logprobs": 1})", "top_logprobs needs");
  ExpectBad(R"({"prompt": "x", "seed": 1, "seq_seed": 2})", "seed and seq_seed");
  ExpectBad(R"({"prompt": "x", "max_tokens": 1, "max_completion_tokens": 2})", "two names");
  ExpectBad(R"({"prompt": "x", "response_format": {}})", "response_format");
  ExpectBad(R"({"prompt": "x", "response_format": {"type": "text"}, "so_args": {}})",
            "so_args and response_format");
  ExpectBad(R"({"prompt": "x", "tools": []})", "tools");
}

TEST(BatchLine, TheNameIsKnownEvenWhenTheRequestIsWrong) {
  LineId id;
  ASSERT_TRUE(ParseLine(R"({"custom_id": "a", "body": 5})", &id).ok());
  EXPECT_EQ(id.key, "custom_id");
  EXPECT_EQ(id.value, "a");
}

TEST(BatchLine, SeedsDifferByLineAndByRun) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    for (int64_t line = 1; line <= 100; ++line) seeds.insert(SeedOfLine(seed, line));
  }
  EXPECT_EQ(seeds.size(), 1000u);
  EXPECT_EQ(SeedOfLine(3, 7), SeedOfLine(3, 7));
}

}  // namespace
}  // namespace thalweg::tools::batch
