// The C interface's requests: every form of a prompt is read, every malformed one is an error that
// names the place.
#include "api/request_json.h"

#include <gtest/gtest.h>

namespace thalweg::api {
namespace {

void ExpectBad(std::string_view json, std::string_view part) {
  const auto request = BatchFromJson(json);
  ASSERT_FALSE(request.ok()) << json;
  EXPECT_NE(request.status().message().find(part), std::string::npos) << request.status().message();
}

TEST(RequestJson, EveryFormOfAPrompt) {
  const auto request = BatchFromJson(
      R"({"prompts": ["text", [0, 5], {"prompt": "p"}, {"prompt_token_ids": [1]},
           {"messages": [{"role": "user", "content": "hi"}], "thinking": true, "effort": 50}],
          "params": {"temperature": 0}})");
  ASSERT_TRUE(request.ok()) << request.status().message();
  ASSERT_EQ(request->prompts.size(), 5u);
  EXPECT_EQ(std::get<std::string>(request->prompts[0]), "text");
  EXPECT_EQ(std::get<std::vector<int32_t>>(request->prompts[1]), (std::vector<int32_t>{0, 5}));
  EXPECT_EQ(std::get<std::string>(request->prompts[2]), "p");
  EXPECT_EQ(std::get<std::vector<int32_t>>(request->prompts[3]), std::vector<int32_t>{1});
  const auto& conversation = std::get<Conversation>(request->prompts[4]);
  EXPECT_EQ(conversation.messages.at(0).content, "hi");
  EXPECT_TRUE(conversation.thinking);
  EXPECT_EQ(conversation.effort, 50);
  EXPECT_EQ(request->params.at(0).temperature, 0);
}

TEST(RequestJson, WhatIsWrongIsNamed) {
  ExpectBad("nonsense", "not valid JSON");
  ExpectBad("[]", "an object");
  ExpectBad(R"({"prompts": "x"})", "an array");
  ExpectBad(R"({"prompts": [7]})", "prompts[0]");
  ExpectBad(R"({"prompts": ["a", {"prompt": "x", "other": 1}]})", "prompts[1]");
  ExpectBad(R"({"prompts": [{"messages": [{"content": "x"}]}]})",
            "prompts[0].messages[0]: the field \"role\" is missing");
  ExpectBad(R"({"prompts": [{"messages": [{"role": 1}]}]})", "messages[0].role");
  ExpectBad(R"({"prompts": [{"messages": [], "effort": 0}]})", "effort");
  ExpectBad(R"({"prompts": [], "params": [{}, {"n": 0}]})", "params[1]: n is 0");
  ExpectBad(R"({"prompts": [], "more": 1})", "\"more\"");
}

TEST(RequestJson, ASingleRequestWithItsOptions) {
  const auto request = SingleFromJson(
      R"({"prompt": [3], "request_id": "r", "priority": -2, "prefix_reuse": false,
          "params": {"output_kind": "delta"}})");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_FALSE(request->options.prefix_reuse);
  EXPECT_EQ(request->options.request_id, "r");
  EXPECT_EQ(request->options.priority, -2);
  EXPECT_EQ(request->params.output_kind, OutputKind::kDelta);
  EXPECT_FALSE(SingleFromJson("{}").ok());
}

TEST(RequestJson, ContentMayBePartsOfText) {
  const auto request = SingleFromJson(
      R"({"prompt": {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"},
                                                               {"type": "text", "text": "b"}]},
                                  {"role": "assistant", "content": null,
                                   "reasoning_content": "r"}]}})");
  ASSERT_TRUE(request.ok()) << request.status().message();
  const auto& conversation = std::get<Conversation>(request->prompt);
  EXPECT_EQ(conversation.messages.at(0).content, "a\n\nb");
  EXPECT_EQ(conversation.messages.at(1).content, "");
  EXPECT_EQ(conversation.drop_thinking, true);
  EXPECT_EQ(conversation.messages.at(1).reasoning, "r");
  ExpectBad(
      R"({"prompts": [{"messages": [{"role": "user", "content": [
          {"type": "image_url", "image_url": {"url": "u"}}]}]}]})",
      "messages[0].content");
  ExpectBad(R"({"prompts": [{"messages": [{"role": "user", "content": [{"type": 1}]}]}]})",
            "messages[0].content");
}

TEST(RequestJson, OptionsArePlainValues) {
  const auto options = OptionsFromJson(R"({"model": "m", "max_rows": 64, "prefix_reuse": false})");
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->options.at("model"), "m");
  EXPECT_EQ(options->options.at("max_rows"), "64");
  EXPECT_EQ(options->options.at("prefix_reuse"), "false");
  EXPECT_FALSE(OptionsFromJson(R"({"model": ["m"]})").ok());
  EXPECT_TRUE(OptionsFromJson("").ok());
}

}  // namespace
}  // namespace thalweg::api
