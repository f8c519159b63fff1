// What is asked for is honoured or refused, in every protocol: no field that changes the answer is
// read over, and an error names the field that it is about. Calls are checked against their schemas
// where that was asked for; answers with calls come back as they were sampled.
#include <gtest/gtest.h>

#include <algorithm>

#include "server/test_server.h"

namespace thalweg::server {
namespace {

constexpr std::string_view kCall =
    R"(<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"get_weather\">)"
    R"(\n<｜DSML｜ parameter name=\"location\" string=\"true\">Paris</｜DSML｜ parameter>)"
    R"(\n   <｜DSML｜ parameter name=\"days\" string=\"false\">3</｜DSML｜ parameter>)"
    R"(\n</｜DSML｜ invoke>\n</｜DSML｜ calls>)";

// One newline before the block, where a prompt has two; spaces, where it has none.
std::string Script() {
  const std::string call(kCall);
  return R"({"answers": [
    {"match": "</tool_result><｜Assistant｜>", "pieces": ["It rains.</think>Rain."]},
    {"match": "early", "pieces": ["Hm. )" +
         call + R"(", "</think>Final answer."]},
    {"match": "weather", "pieces": ["Need it.</think>Wait.\n)" +
         call + R"("]},
    {"match": "fox", "pieces": ["</think>the br", "own fox ", "jumps over "], "times": 400,
     "delay_ms": 1},
    {"pieces": ["Let me see.", "</think>", "Hello", " there", "!"]}
  ]})";
}

const Json kFunction = Json::parse(R"({"name": "get_weather", "parameters": {"type": "object",
    "properties": {"location": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["location"], "additionalProperties": false}})");

Json Wrapped(const Json& function) {
  return Json::array({Json{{"type", "function"}, {"function", function}}});
}

class Meaning : public testing::Test {
 protected:
  static Json Ask(const std::string& text) {
    return Json{{"messages", Json::array({Json{{"role", "user"}, {"content", text}}})}};
  }
  static Json AskAnthropic(const std::string& text) {
    Json body = Ask(text);
    body["max_tokens"] = 200;
    return body;
  }
  static Json AskResponses(const std::string& text) { return Json{{"input", text}}; }

  // The `param` of the error that a field makes of a request.
  std::string Param(const std::string& path, Json body, const std::string& field,
                    const std::string& value) {
    body[field] = Json::parse(value);
    const TestAnswer answer = server_.Post(path, body);
    EXPECT_EQ(answer.status, 400) << field << ": " << value << " " << answer.body;
    const Json error = answer.json().value("error", Json::object());
    const std::string message = error.value("message", "");
    EXPECT_NE(message.find(field), std::string::npos) << message;
    return error.value("param", Json()).is_string() ? error["param"].get<std::string>() : "";
  }
  TestServer server_{Script()};
  int64_t repeated_ = 0;
};

using Fields = std::vector<std::pair<std::string, std::string>>;

TEST_F(Meaning, ChatFieldsThatCannotBeHonouredAreRefused) {
  const Fields fields = {{"functions", "[{}]"},
                         {"function_call", "\"auto\""},
                         {"modalities", R"(["text", "audio"])"},
                         {"audio", R"({"voice": "x"})"},
                         {"web_search_options", R"({"search_context_size": "low"})"},
                         {"use_beam_search", "true"},
                         {"echo", "true"},
                         {"chat_template", "\"{{ x }}\""},
                         {"chat_template_kwargs", R"({"tone": "warm"})"},
                         {"documents", R"([{"text": "x"}])"},
                         {"truncate_prompt_tokens", "5"},
                         {"logits_processors", R"(["x"])"},
                         {"return_token_ids", "true"},
                         {"include_reasoning", "false"},
                         {"prompt_logprobs", "1"},
                         {"skip_special_tokens", "false"},
                         {"lora_path", "\"x\""}};
  for (const auto& [field, value] : fields)
    EXPECT_EQ(Param("/v1/chat/completions", Ask("hi"), field, value), field);
}

TEST_F(Meaning, CompletionFieldsThatCannotBeHonouredAreRefused) {
  const Json body{{"prompt", "x"}};
  for (const auto& [field, value] : Fields{{"use_beam_search", "true"},
                                           {"prompt_embeds", R"(["x"])"},
                                           {"prompt_logprobs", "0"},
                                           {"suffix", "\"x\""},
                                           {"truncate_prompt_tokens", "3"}})
    EXPECT_EQ(Param("/v1/completions", body, field, value), field);
}

TEST_F(Meaning, MessagesFieldsThatCannotBeHonouredAreRefused) {
  for (const auto& [field, value] :
       Fields{{"container", "\"x\""},
              {"mcp_servers", R"([{"url": "x"}])"},
              {"context_management", R"({"edits": [{"type": "clear_tool_uses_20250919"}]})"},
              {"n", "2"}})
    Param("/v1/messages", AskAnthropic("hi"), field, value);
}

TEST_F(Meaning, ResponsesFieldsThatCannotBeHonouredAreRefused) {
  for (const auto& [field, value] : Fields{{"previous_response_id", "\"resp_1\""},
                                           {"conversation", "\"conv_1\""},
                                           {"prompt", R"({"id": "pmpt_1"})"},
                                           {"background", "true"},
                                           {"truncation", "\"auto\""},
                                           {"include", R"(["message.output_text.logprobs"])"},
                                           {"context_management", R"([{"type": "compaction"}])"}})
    EXPECT_EQ(Param("/v1/responses", AskResponses("hi"), field, value), field);
}

// The values that ask for nothing, and fields that only hint.
TEST_F(Meaning, WhatChangesNothingIsTaken) {
  Json chat = Ask("hi");
  chat.update(Json::parse(R"({"modalities": ["text"], "echo": false, "use_beam_search": false,
      "function_call": "none", "functions": [], "prompt_logprobs": null, "store": true,
      "metadata": {"a": "b"}, "user": "u", "service_tier": "auto", "prompt_cache_key": "k",
      "verbosity": "low", "prediction": {"type": "content", "content": "x"}})"));
  EXPECT_EQ(server_.Post("/v1/chat/completions", chat).status, 200);
  Json messages = AskAnthropic("hi");
  messages.update(Json::parse(R"({"metadata": {"user_id": "u"}, "service_tier": "auto",
      "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}})"));
  EXPECT_EQ(server_.Post("/v1/messages", messages).status, 200);
  Json responses = AskResponses("hi");
  responses.update(Json::parse(R"({"include": ["reasoning.encrypted_content"], "store": true,
      "background": false, "truncation": "disabled", "previous_response_id": null,
      "reasoning": {"summary": "auto"}, "text": {"verbosity": "medium"}})"));
  EXPECT_EQ(server_.Post("/v1/responses", responses).status, 200);
}

TEST_F(Meaning, PartsOfMessagesThatWouldBeLostAreRefused) {
  Json body = Ask("hi");
  body["messages"].push_back(Json::parse(
      R"({"role": "assistant", "content": "", "function_call": {"name": "f", "arguments": ""}})"));
  const TestAnswer answer = server_.Post("/v1/chat/completions", body);
  EXPECT_EQ(answer.json()["error"]["param"], "messages[1].function_call") << answer.body;
  body["messages"][1] = Json::parse(R"({"role": "assistant", "refusal": "I must not."})");
  body["messages"].push_back(Json{{"role", "user"}, {"content", "why?"}});
  const Json rendered = server_.Post("/render", body).json();
  EXPECT_NE(rendered["prompt"].get<std::string>().find("I must not."), std::string::npos);
}

TEST_F(Meaning, ThinkingInTheWordsOfVllm) {
  Json body = Ask("hi");
  body["chat_template_kwargs"] = Json{{"enable_thinking", false}};
  const std::string off = server_.Post("/render", body).json()["prompt"];
  EXPECT_TRUE(off.ends_with("<｜Assistant｜></think>")) << off;
  body["chat_template_kwargs"] = Json{{"thinking", true}, {"reasoning_effort", "max"}};
  const std::string on = server_.Post("/render", body).json()["prompt"];
  EXPECT_NE(on.find("Reasoning Effort: 100 "), std::string::npos) << on;
}

TEST_F(Meaning, EffortsAreFieldsOfEveryProtocol) {
  Json body = AskAnthropic("hi");
  const auto count = [&] {
    return server_.Post("/v1/messages/count_tokens", body).json()["input_tokens"].get<int>();
  };
  const int with = count();
  body["reasoning_effort"] = "none";
  EXPECT_LT(count(), with);
  Json responses = AskResponses("hi");
  responses["thinking"] = Json{{"type", "disabled"}};
  const Json output = server_.Post("/v1/responses", responses).json()["output"];
  EXPECT_EQ(output[0]["type"], "message") << output;
  responses["thinking"] = Json{{"type", "sometimes"}};
  EXPECT_EQ(server_.Post("/v1/responses", responses).json()["error"]["param"], "thinking.type");
}

TEST_F(Meaning, TheEndOfAPromptIsAsAsked) {
  Json body = Ask("hi");
  body["add_generation_prompt"] = false;
  const std::string bare = server_.Post("/render", body).json()["prompt"];
  EXPECT_TRUE(bare.ends_with("<｜User｜>hi")) << bare;
  body = Ask("hi");
  body["messages"].push_back(Json{{"role", "assistant"}, {"content", "So fa"}});
  body["continue_final_message"] = true;
  const std::string open = server_.Post("/render", body).json()["prompt"];
  EXPECT_TRUE(open.ends_with("So fa")) << open;
  body["messages"].erase(1);
  EXPECT_EQ(server_.Post("/render", body).status, 400);
}

// Fields of engines are fields of every protocol.
TEST_F(Meaning, StructureIsBoundInEveryProtocol) {
  for (const char* field : {"regex", "guided_regex"}) {
    EXPECT_EQ(Param("/v1/chat/completions", Ask("hi"), field, "\"[a-\""), field);
    EXPECT_EQ(Param("/v1/responses", AskResponses("hi"), field, "\"[a-\""), field);
    EXPECT_EQ(Param("/v1/completions", Json{{"prompt", "x"}}, field, "\"[a-\""), field);
    Param("/v1/messages", AskAnthropic("hi"), field, "\"[a-\"");
  }
}

TEST_F(Meaning, ErrorsOfSchemasNameTheirField) {
  const std::string path = "/v1/chat/completions";
  EXPECT_EQ(Param(path, Ask("hi"), "response_format",
                  R"({"type": "json_schema", "json_schema": {"schema": {"type": "wizard"}}})"),
            "response_format");
  EXPECT_EQ(Param(path, Ask("hi"), "ebnf", R"("root ::= \"x")"), "ebnf");
  EXPECT_EQ(Param(path, Ask("hi"), "structured_outputs", R"({"regex": "("})"),
            "structured_outputs");
  EXPECT_EQ(Param(path, Ask("hi"), "so_args", R"({"type": "regex", "content": "("})"), "so_args");
  Json bad = kFunction;
  bad["name"] = "other";
  bad["parameters"]["properties"]["days"] = Json{{"type", "wizard"}};
  Json tools = Wrapped(kFunction);
  tools.push_back(Wrapped(bad)[0]);
  EXPECT_EQ(Param(path, Ask("hi"), "tools", tools.dump()), "tools[1].function.parameters");
  const Json group{{"type", "namespace"}, {"name", "g"}, {"tools", Json::array({bad})}};
  EXPECT_EQ(Param(path, Ask("hi"), "tools", Json::array({tools[0], group}).dump()),
            "tools[1].tools[0].parameters");
  Json flat = bad;
  flat["type"] = "function";
  EXPECT_EQ(Param("/v1/responses", AskResponses("hi"), "tools", Json::array({flat}).dump()),
            "tools[0].parameters");
  Json responses = AskResponses("hi");
  responses["text"]["format"] =
      Json{{"type", "json_schema"}, {"name", "x"}, {"schema", Json{{"type", "wizard"}}}};
  const Json error = server_.Post("/v1/responses", responses).json()["error"];
  EXPECT_EQ(error["param"], "text.format") << error;
}

TEST_F(Meaning, ToolsOfAMessageCountAsTools) {
  Json body = Ask("How is the weather?");
  body["messages"][0]["tools"] = Wrapped(kFunction);
  for (const Json& choice : {Json("auto"), Json("required"),
                             Json{{"type", "function"}, {"function", {{"name", "get_weather"}}}}}) {
    body["tool_choice"] = choice;
    const TestAnswer answer = server_.Post("/v1/chat/completions", body);
    ASSERT_EQ(answer.status, 200) << answer.body;
    const Json one = answer.json()["choices"][0];
    EXPECT_EQ(one["finish_reason"], "tool_calls");
    EXPECT_EQ(one["message"]["tool_calls"][0]["function"]["name"], "get_weather");
  }
  const std::string prompt = server_.Post("/render", body).json()["prompt"];
  EXPECT_NE(prompt.find("weather?\n\n## Tools"), std::string::npos) << prompt;
  body["tool_choice"] = "none";
  const std::string without = server_.Post("/render", body).json()["prompt"];
  EXPECT_EQ(without.find("## Tools"), std::string::npos) << without;
  body["messages"][0]["tools"][0]["function"]["parameters"]["properties"] = "bad";
  body["tool_choice"] = "required";
  const Json error = server_.Post("/v1/chat/completions", body).json()["error"];
  EXPECT_EQ(error["param"], "messages[0].tools[0].function.parameters") << error;
}

TEST_F(Meaning, CallsThatLeaveTheirSchemaAreReportedWhereAsked) {
  Json function = kFunction;
  function["parameters"]["properties"]["days"] = Json{{"type", "integer"}, {"maximum", 2}};
  Json body = Ask("How is the weather?");
  body["tools"] = Wrapped(function);
  const auto choice = [&] {
    return server_.Post("/v1/chat/completions", body).json()["choices"][0];
  };
  EXPECT_FALSE(choice().contains("tool_errors"));
  body["check_arguments"] = true;
  Json one = choice();
  ASSERT_TRUE(one.contains("tool_errors")) << one;
  EXPECT_EQ(one["tool_errors"][0]["index"], 0);
  EXPECT_EQ(one["tool_errors"][0]["id"], one["message"]["tool_calls"][0]["id"]);
  EXPECT_EQ(one["tool_errors"][0]["name"], "get_weather");
  body.erase("check_arguments");
  body["tools"][0]["function"]["strict"] = true;
  EXPECT_TRUE(choice().contains("tool_errors"));
  std::string last;
  for (const TestEvent& event : server_.Stream("/v1/chat/completions", body)) {
    if (event.data.find("tool_errors") != std::string::npos) last = event.data;
  }
  EXPECT_EQ(Json::parse(last)["choices"][0]["finish_reason"], "tool_calls");
  body["tools"][0]["function"] = kFunction;
  body["tools"][0]["function"]["strict"] = true;
  EXPECT_FALSE(choice().contains("tool_errors"));
}

TEST_F(Meaning, OtherProtocolsReportCallsToo) {
  Json messages = AskAnthropic("How is the weather?");
  messages["tools"] = Json::array(
      {Json{{"name", "look"}, {"input_schema", kFunction["parameters"]}, {"strict", true}}});
  const Json whole = server_.Post("/v1/messages", messages).json();
  EXPECT_EQ(whole["tool_errors"][0]["message"], "there is no tool \"get_weather\"") << whole;
  Json responses = AskResponses("How is the weather?");
  responses["tools"] = Json::array({kFunction});
  responses["tools"][0]["type"] = "function";
  responses["tools"][0]["parameters"]["required"] = Json::array({"when"});
  responses["tools"][0]["parameters"]["properties"]["when"] = Json{{"type", "string"}};
  EXPECT_FALSE(server_.Post("/v1/responses", responses).json().contains("tool_errors"));
  responses["check_arguments"] = true;
  EXPECT_TRUE(server_.Post("/v1/responses", responses).json().contains("tool_errors"));
}

// R23: the block had one newline before it, where a prompt would have two.
TEST_F(Meaning, R23AnswersWithCallsComeBackAsTheyWereSampled) {
  Json body = Ask("How is the weather?");
  body["tools"] = Wrapped(kFunction);
  const std::vector<int32_t> asked = server_.Post("/render", body).json()["tokens"];
  Json turn = server_.Post("/v1/chat/completions", body).json()["choices"][0]["message"];
  body["messages"].push_back(turn);
  body["messages"].push_back(
      Json{{"role", "tool"}, {"tool_call_id", turn["tool_calls"][0]["id"]}, {"content", "20C"}});
  const Json rendered = server_.Post("/render", body).json();
  const std::string prompt = rendered["prompt"];
  EXPECT_NE(prompt.find("Need it.</think>Wait.\n<｜DSML｜ calls>"), std::string::npos) << prompt;
  const std::vector<int32_t> tokens = rendered["tokens"];
  ASSERT_GT(tokens.size(), asked.size());
  EXPECT_TRUE(std::equal(asked.begin(), asked.end(), tokens.begin()));
  EXPECT_EQ(server_.Post("/v1/chat/completions", body).json()["choices"][0]["message"]["content"],
            "Rain.");
  // A history that says something else wins.
  body["messages"][1]["content"] = "Hold on.";
  const std::string other = server_.Post("/render", body).json()["prompt"];
  EXPECT_NE(other.find("Hold on.\n\n<｜DSML｜ calls>"), std::string::npos) << other;
}

TEST_F(Meaning, R23OtherProtocolsAndAServerThatRemembersNothing) {
  Json body = AskAnthropic("How is the weather?");
  body["thinking"] = Json{{"type", "enabled"}, {"budget_tokens", 100}};
  body["tools"] =
      Json::array({Json{{"name", "get_weather"}, {"input_schema", kFunction["parameters"]}}});
  ServerOptions options = TestServer::Options();
  options.repeat_turns = 0;
  TestServer forgetful(Script(), options);
  for (TestServer* server : {&server_, &forgetful}) {
    const Json content = server->Post("/v1/messages", body).json()["content"];
    ASSERT_EQ(content.size(), 3u) << content;
    Json next = body;
    next["messages"].push_back(Json{{"role", "assistant"}, {"content", content}});
    Json result{{"type", "tool_result"}, {"tool_use_id", content[2]["id"]}, {"content", "20C"}};
    next["messages"].push_back(Json{{"role", "user"}, {"content", Json::array({result})}});
    const int64_t count = server->Post("/v1/messages/count_tokens", next).json()["input_tokens"];
    if (server == &server_) repeated_ = count;
    if (server == &forgetful) {
      EXPECT_NE(count, repeated_);  // without the spaces
    }
    EXPECT_EQ(server->Post("/v1/messages", next).json()["content"][1]["text"], "Rain.");
  }
}

TEST_F(Meaning, R17BlocksInsideOfReasoningAreTextWhereTheServerSaysSo) {
  Json body = Ask("early");
  body["tools"] = Wrapped(kFunction);
  const Json count = server_.Post("/v1/chat/completions", body).json()["choices"][0];
  EXPECT_EQ(count["finish_reason"], "tool_calls");
  EXPECT_EQ(count["message"]["tool_calls"].size(), 1u);
  ServerOptions options = TestServer::Options();
  options.calls_in_reasoning = false;
  TestServer strict(Script(), options);
  const Json text = strict.Post("/v1/chat/completions", body).json()["choices"][0];
  EXPECT_EQ(text["finish_reason"], "stop");
  EXPECT_FALSE(text["message"].contains("tool_calls"));
  EXPECT_EQ(text["message"]["content"], "Final answer.");
}

// R32: of several sequences each is ended when its answer is complete, and nothing behind counts.
TEST_F(Meaning, R32ASequenceThatIsCompleteIsEndedAlone) {
  Json body = Ask("fox");
  body["n"] = 3;
  body["stop"] = "own fox";
  body["max_tokens"] = 1000;
  const Json json = server_.Post("/v1/chat/completions", body).json();
  ASSERT_EQ(json["choices"].size(), 3u);
  for (const Json& choice : json["choices"]) {
    EXPECT_EQ(choice["message"]["content"], "the br");
    EXPECT_EQ(choice["finish_reason"], "stop");
  }
  EXPECT_LT(json["usage"]["completion_tokens"], 60);
  ASSERT_TRUE(server_.WaitIdle());
  EXPECT_LT(server_.Counter("output_tokens"), 600);  // of 3 times 1000
}

}  // namespace
}  // namespace thalweg::server
