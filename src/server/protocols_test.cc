// The other protocols over the same answers: completions, Anthropic's messages, responses, tokens,
// and the pages for operators.
#include <gtest/gtest.h>

#include "server/test_server.h"

namespace thalweg::server {
namespace {

constexpr std::string_view kScript =
    R"({
  "answers": [
    {"match": "weather", "pieces": ["Need it.</think>\n\n<｜DSML｜ calls>)"
    R"(\n<｜DSML｜ invoke name=\"get_weather\">)"
    R"(\n<｜DSML｜ parameter name=\"location\" string=\"true\">Paris</｜DSML｜ parameter>)"
    R"(\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"]},
    {"match": "patch", "pieces": ["</think>\n\n<｜DSML｜ calls>)"
    R"(\n<｜DSML｜ invoke name=\"apply_patch\">)"
    R"(\n<｜DSML｜ parameter name=\"input\" string=\"true\">*** Begin\n\"x\"</｜DSML｜ parameter>)"
    R"(\n</｜DSML｜ invoke>\n</｜DSML｜ calls>"]},
    {"match": "fails", "pieces": ["half"], "fail": {"code": "internal error", "message": "broken"}},
    {"pieces": ["Let me see.", "</think>", "Hello", " there", "!"], "cached_tokens": 3}
  ]})";

class Protocols : public testing::Test {
 protected:
  static Json Message(const std::string& text) {
    Json body;
    body["model"] = "fake";
    body["max_tokens"] = 200;
    body["messages"] = Json::array({Json{{"role", "user"}, {"content", text}}});
    return body;
  }
  static Json Tool() {
    return Json::parse(R"({"type": "object", "properties": {"location": {"type": "string"}}})");
  }
  TestServer server_{kScript};
};

TEST_F(Protocols, CompletionsOfTextsAndTokens) {
  const Json ids = server_.Post("/tokenize", Json{{"prompt", "one two"}}).json()["tokens"];
  Json body{{"prompt", Json::array({"one two", "three"})}, {"n", 2}};
  const Json two = server_.Post("/v1/completions", body).json();
  ASSERT_EQ(two["choices"].size(), 4u);
  EXPECT_EQ(two["choices"][3]["index"], 3);
  body = Json{{"prompt", ids}};
  const Json one = server_.Post("/completions", body).json();
  EXPECT_EQ(one["object"], "text_completion");
  EXPECT_EQ(one["usage"]["prompt_tokens"], ids.size());
  EXPECT_EQ(one["usage"]["prompt_cache_hit_tokens"], 3);
}

TEST_F(Protocols, EchoHasTheLogprobsOfThePrompt) {
  const Json body{{"prompt", "one two"}, {"echo", true}, {"logprobs", 1}, {"max_tokens", 0}};
  const Json json = server_.Post("/v1/completions", body).json();
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["text"], "one two");
  const Json& logprobs = choice["logprobs"];
  EXPECT_EQ(logprobs["tokens"].size(), json["usage"]["prompt_tokens"].get<size_t>());
  EXPECT_TRUE(logprobs["token_logprobs"][0].is_null());
  EXPECT_TRUE(logprobs["token_logprobs"][1].is_number());
  EXPECT_EQ(json["usage"]["completion_tokens"], 0);
}

TEST_F(Protocols, CompletionsStopWhereAsked) {
  Json body{{"prompt", "x"}, {"stop", " there"}};
  const Json json = server_.Post("/v1/completions", body).json();
  EXPECT_EQ(json["choices"][0]["text"], "Let me see.</think>Hello");
  EXPECT_EQ(json["choices"][0]["stop_reason"], " there");
  const auto events = server_.Stream("/v1/completions", body);
  EXPECT_EQ(events.back().data, "[DONE]");
}

TEST_F(Protocols, SuffixAndBestOfAreRefused) {
  EXPECT_EQ(server_.Post("/v1/completions", Json{{"prompt", "x"}, {"suffix", "y"}}).status, 400);
  EXPECT_EQ(server_.Post("/v1/completions", Json{{"prompt", "x"}, {"best_of", 3}}).status, 400);
  EXPECT_EQ(server_.Post("/v1/completions", Json{{"prompt", "x"}, {"max_tokens", 0}}).status, 400);
  EXPECT_EQ(server_.Post("/v1/completions", Json::object()).status, 400);
}

TEST_F(Protocols, MessagesWhole) {
  const TestAnswer answer = server_.Post("/v1/messages", Message("hi"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  EXPECT_EQ(json["type"], "message");
  EXPECT_EQ(json["content"][0]["type"], "thinking");
  EXPECT_EQ(json["content"][0]["thinking"], "Let me see.");
  EXPECT_EQ(json["content"][1]["text"], "Hello there!");
  EXPECT_EQ(json["stop_reason"], "end_turn");
  EXPECT_EQ(json["usage"]["cache_read_input_tokens"], 3);
  const Json count = server_.Post("/v1/messages/count_tokens", Message("hi")).json();
  EXPECT_EQ(json["usage"]["input_tokens"].get<int>() + 3, count["input_tokens"].get<int>());
}

TEST_F(Protocols, MessagesStreamOpensAndClosesEveryBlock) {
  Json body = Message("weather");
  body["tools"] =
      Json::array({Json{{"name", "get_weather"}, {"description", ""}, {"input_schema", Tool()}}});
  std::vector<std::string> names;
  std::string input;
  for (const TestEvent& event : server_.Stream("/v1/messages", body)) {
    EXPECT_EQ(event.name, event.json()["type"].get<std::string>());
    if (names.empty() || names.back() != event.name) names.push_back(event.name);
    const Json delta = event.json().value("delta", Json::object());
    if (delta.value("type", "") == "input_json_delta")
      input += delta["partial_json"].get<std::string>();
    if (event.name == "message_delta") {
      EXPECT_EQ(delta["stop_reason"], "tool_use");
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{
                       "message_start", "ping", "content_block_start", "content_block_delta",
                       "content_block_stop", "content_block_start", "content_block_delta",
                       "content_block_stop", "message_delta", "message_stop"}));
  EXPECT_EQ(input, R"({"location": "Paris"})");
}

TEST_F(Protocols, MessagesStopSequencesAreNamed) {
  Json body = Message("hi");
  body["stop_sequences"] = Json::array({" there"});
  const Json json = server_.Post("/anthropic/v1/messages", body).json();
  EXPECT_EQ(json["stop_reason"], "stop_sequence");
  EXPECT_EQ(json["stop_sequence"], " there");
  EXPECT_EQ(json["content"][1]["text"], "Hello");
}

TEST_F(Protocols, MessagesTakeWholeConversations) {
  Json body = Message("hi");
  body["system"] = Json::parse(R"([{"type": "text", "text": "Be brief."}])");
  body["tools"] = Json::array({Json{{"name", "get_weather"}, {"input_schema", Tool()}}});
  body["messages"].push_back(Json::parse(R"({"role": "assistant", "content": [
      {"type": "thinking", "thinking": "Hm.", "signature": "s"},
      {"type": "text", "text": "I look."},
      {"type": "tool_use", "id": "t1", "name": "get_weather", "input": {"location": "Rome"}}]})"));
  body["messages"].push_back(Json::parse(R"({"role": "user", "content": [
      {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "20C"}]},
      {"type": "text", "text": "And?"}]})"));
  const TestAnswer answer = server_.Post("/v1/messages", body);
  EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST_F(Protocols, MessagesErrorsHaveTheirOwnShape) {
  Json body = Message("hi");
  body.erase("max_tokens");
  const TestAnswer answer = server_.Post("/v1/messages", body);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["type"], "error");
  EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error");
  body = Message("hi");
  body["max_tokens"] = 100000;  // R46
  EXPECT_EQ(server_.Post("/v1/messages", body).json()["error"]["type"], "invalid_request_error");
  body["model"] = "other";
  EXPECT_EQ(server_.Post("/v1/messages", body).json()["error"]["type"], "not_found_error");
  const auto events = server_.Stream("/v1/messages", Message("fails"));
  EXPECT_EQ(events.back().name, "error");
  EXPECT_EQ(events.back().json()["error"]["message"], "broken");
}

TEST_F(Protocols, ResponsesWhole) {
  const TestAnswer answer = server_.Post(
      "/v1/responses", Json{{"model", "fake"}, {"input", "hi"}, {"instructions", "Be brief."}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  EXPECT_EQ(json["object"], "response");
  EXPECT_EQ(json["status"], "completed");
  EXPECT_EQ(json["output"][0]["type"], "reasoning");
  EXPECT_EQ(json["output"][0]["content"][0]["text"], "Let me see.");
  EXPECT_EQ(json["output"][1]["content"][0]["text"], "Hello there!");
  EXPECT_EQ(json["output"][1]["phase"], "final_answer");
  EXPECT_EQ(json["usage"]["input_tokens_details"]["cached_tokens"], 3);
  EXPECT_EQ(json["instructions"], "Be brief.");
}

TEST_F(Protocols, ResponsesStreamIsNumberedAndComplete) {
  Json body{{"model", "fake"},
            {"input", Json::array({Json{{"role", "user"}, {"content", "weather"}}})}};
  body["tools"] =
      Json::array({Json{{"type", "function"}, {"name", "get_weather"}, {"parameters", Tool()}}});
  const auto events = server_.Stream("/v1/responses", body);
  std::string arguments;
  for (size_t i = 0; i < events.size(); ++i) {
    const Json json = events[i].json();
    EXPECT_EQ(json["type"].get<std::string>(), events[i].name);
    EXPECT_EQ(json["sequence_number"], i);
    if (events[i].name == "response.function_call_arguments.delta")
      arguments += json["delta"].get<std::string>();
  }
  EXPECT_EQ(events.front().name, "response.created");
  EXPECT_EQ(events[1].name, "response.in_progress");
  EXPECT_EQ(events.back().name, "response.completed");
  EXPECT_EQ(arguments, R"({"location": "Paris"})");
  const Json output = events.back().json()["response"]["output"];
  EXPECT_EQ(output[1]["type"], "function_call");
  EXPECT_EQ(output[1]["arguments"], arguments);
  EXPECT_TRUE(output[1]["call_id"].get<std::string>().starts_with("call_"));
}

TEST_F(Protocols, ResponsesTakeTheirOwnOutputBack) {
  Json input = Json::array({Json{{"role", "user"}, {"content", "weather"}}});
  Json body{{"input", input}};
  body["tools"] =
      Json::array({Json{{"type", "function"}, {"name", "get_weather"}, {"parameters", Tool()}}});
  const Json first = server_.Post("/v1/responses", body).json();
  for (const Json& item : first["output"]) body["input"].push_back(item);
  body["input"].push_back(Json{{"type", "function_call_output"},
                               {"call_id", first["output"][1]["call_id"]},
                               {"output", "20C"}});
  const TestAnswer second = server_.Post("/v1/responses", body);
  EXPECT_EQ(second.status, 200) << second.body;
}

TEST_F(Protocols, ResponsesCallCustomToolsWithText) {
  Json body{{"input", "patch"}};
  body["tools"] = Json::array({Json{{"type", "custom"}, {"name", "apply_patch"}}});
  const Json item = server_.Post("/v1/responses", body).json()["output"][0];
  EXPECT_EQ(item["type"], "custom_tool_call");
  EXPECT_EQ(item["input"], "*** Begin\n\"x\"");
}

TEST_F(Protocols, ResponsesFailWithAnEventAndAResponse) {
  const auto events = server_.Stream("/v1/responses", Json{{"input", "fails"}});
  EXPECT_EQ(events[events.size() - 2].name, "error");
  EXPECT_EQ(events.back().name, "response.failed");
  EXPECT_EQ(events.back().json()["response"]["error"]["message"], "broken");
}

TEST_F(Protocols, TokensGoThereAndBack) {
  const Json json = server_
                        .Post("/tokenize", Json{{"prompt", "Hello 😀"},
                                                {"add_special_tokens", false},
                                                {"return_token_strs", true}})
                        .json();
  EXPECT_EQ(json["token_strs"].size(), json["count"].get<size_t>());
  EXPECT_EQ(server_.Post("/detokenize", Json{{"tokens", json["tokens"]}}).json()["prompt"],
            "Hello 😀");
  EXPECT_EQ(server_.Post("/detokenize", Json{{"tokens", "x"}}).status, 400);
}

TEST_F(Protocols, PagesForOperators) {
  EXPECT_EQ(server_.Get("/health").status, 200);
  EXPECT_EQ(server_.Get("/ready").status, 200);
  EXPECT_TRUE(server_.Get("/version").json().contains("version"));
  EXPECT_EQ(server_.Get("/v1/models").json()["data"][0]["id"], "fake");
  EXPECT_EQ(server_.Get("/v1/models/fake").json()["max_model_len"], 8192);
  EXPECT_EQ(server_.Get("/v1/models/other").status, 404);
  EXPECT_EQ(server_.Get("/load").json()["server_load"], 0);
  const TestAnswer metrics = server_.Get("/metrics");
  EXPECT_EQ(metrics.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_NE(metrics.body.find("vllm:num_requests_running"), std::string::npos);
}

TEST_F(Protocols, WhatIsNotThere) {
  EXPECT_EQ(server_.Get("/nothing").status, 404);
  EXPECT_EQ(server_.Get("/v1/chat/completions").status, 405);
  const TestAnswer embeddings = server_.Post("/v1/embeddings", Json::object());
  EXPECT_EQ(embeddings.status, 501);
  EXPECT_NE(embeddings.body.find("embeddings"), std::string::npos);
}

}  // namespace
}  // namespace thalweg::server
