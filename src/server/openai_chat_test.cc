// /v1/chat/completions as clients see it: the shapes of streams and whole answers, what is refused,
// and that both say the same.
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
    R"(\n<｜DSML｜ parameter name=\"days\" string=\"false\">3</｜DSML｜ parameter>)"
    R"(\n</｜DSML｜ invoke>\n</｜DSML｜ calls>", "and more"]},
    {"match": "long", "pieces": ["on ", "and "], "times": 1000, "by": "token"},
    {"match": "fox", "pieces": ["why</think>the br", "own fox ", "jumps"], "cached_tokens": 4},
    {"match": "emoji", "pieces": ["</think>日本 😀 語"]},
    {"match": "fails", "pieces": ["half", " way"], "fail":
     {"code": "internal error", "message": "broken"}},
    {"match": "full", "refuse": {"code": "resource exhausted", "message": "no room"}},
    {"pieces": ["Let me see.", "</think>", "Hello", " there", "!"]}
  ]})";

const Json kTools = Json::parse(R"([{"type": "function", "function": {"name": "get_weather",
    "description": "", "parameters": {"type": "object", "properties": {
      "location": {"type": "string"}, "days": {"type": "integer"}}, "required": ["location"]}}}])");

Json Ask(const std::string& text) {
  Json body;
  body["model"] = "fake";
  body["messages"] = Json::array({Json{{"role", "user"}, {"content", text}}});
  return body;
}

// The deltas of a stream put together.
struct Joined {
  std::string role, content, reasoning, finish, call_id, call_name, arguments;
  Json usage;
  bool done = false;
};

Joined Join(const std::vector<TestEvent>& events) {
  Joined out;
  for (const TestEvent& event : events) {
    out.done = event.data == "[DONE]";
    if (out.done) continue;
    const Json chunk = event.json();
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    if (!chunk.value("usage", Json()).is_null()) out.usage = chunk["usage"];
    for (const Json& choice : chunk["choices"]) {
      const Json& delta = choice["delta"];
      out.role += delta.value("role", "");
      if (delta.contains("content") && !delta["content"].is_null())
        out.content += delta["content"].get<std::string>();
      if (delta.contains("reasoning_content") && !delta["reasoning_content"].is_null())
        out.reasoning += delta["reasoning_content"].get<std::string>();
      if (!choice["finish_reason"].is_null()) out.finish = choice["finish_reason"];
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        out.call_id += call.value("id", "");
        out.call_name += call["function"].value("name", "");
        out.arguments += call["function"].value("arguments", "");
      }
    }
  }
  return out;
}

class Chat : public testing::Test {
 protected:
  TestServer server_{kScript};
};

TEST_F(Chat, WholeAnswerHasReasoningContentAndUsage) {
  const TestAnswer answer = server_.Post("/v1/chat/completions", Ask("hi"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_TRUE(json["id"].get<std::string>().starts_with("chatcmpl-"));
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Let me see.");
  EXPECT_EQ(choice["message"]["content"], "Hello there!");
  EXPECT_EQ(choice["finish_reason"], "stop");
  const Json& usage = json["usage"];
  EXPECT_EQ(usage["prompt_tokens"].get<int>() + usage["completion_tokens"].get<int>(),
            usage["total_tokens"].get<int>());
  EXPECT_GT(usage["completion_tokens_details"]["reasoning_tokens"].get<int>(), 0);
  EXPECT_EQ(
      usage["prompt_cache_hit_tokens"].get<int>() + usage["prompt_cache_miss_tokens"].get<int>(),
      usage["prompt_tokens"].get<int>());
}

TEST_F(Chat, StreamSaysWhatTheWholeAnswerSays) {
  const Joined joined = Join(server_.Stream("/v1/chat/completions", Ask("hi")));
  EXPECT_EQ(joined.role, "assistant");
  EXPECT_EQ(joined.reasoning, "Let me see.");
  EXPECT_EQ(joined.content, "Hello there!");
  EXPECT_EQ(joined.finish, "stop");
  EXPECT_TRUE(joined.done);
}

TEST_F(Chat, BothTextsAreInEveryDeltaOfThinking) {
  const auto events = server_.Stream("/v1/chat/completions", Ask("hi"));
  EXPECT_EQ(events.front().json()["choices"][0]["delta"],
            Json::parse(R"({"role":"assistant","content":null,"reasoning_content":""})"));
  const Json delta = events[1].json()["choices"][0]["delta"];
  EXPECT_TRUE(delta["content"].is_null());
  EXPECT_TRUE(delta["reasoning_content"].is_string());
}

TEST_F(Chat, WithoutThinkingThereIsNoReasoning) {
  Json body = Ask("hi");
  body["thinking"] = Json{{"type", "disabled"}};
  const Json message = server_.Post("/v1/chat/completions", body).json()["choices"][0]["message"];
  EXPECT_FALSE(message.contains("reasoning_content"));
}

// R48: usage is exact, and there whether it is asked for or not.
TEST_F(Chat, R48UsageIsInTheLastChunk) {
  const auto events = server_.Stream("/v1/chat/completions", Ask("hi"));
  const Json last = events[events.size() - 2].json();
  EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(last["usage"]["total_tokens"],
            server_.Post("/v1/chat/completions", Ask("hi")).json()["usage"]["total_tokens"]);
  Json body = Ask("hi");
  body["stream_options"] = Json{{"include_usage", false}};
  for (const TestEvent& event : server_.Stream("/v1/chat/completions", body))
    EXPECT_EQ(event.data.find("\"usage\""), std::string::npos);
}

// R49: asked for, it is a chunk of its own, without choices.
TEST_F(Chat, R49UsageHasAChunkOfItsOwn) {
  Json body = Ask("hi");
  body["stream_options"] = Json{{"include_usage", true}};
  const auto events = server_.Stream("/v1/chat/completions", body);
  ASSERT_GE(events.size(), 3u);
  const Json extra = events[events.size() - 2].json();
  EXPECT_TRUE(extra["choices"].empty());
  EXPECT_GT(extra["usage"]["total_tokens"].get<int>(), 0);
  EXPECT_TRUE(events[events.size() - 3].json()["usage"].is_null());
}

TEST_F(Chat, CallsOfTools) {
  Json body = Ask("weather?");
  body["tools"] = kTools;
  const TestAnswer answer = server_.Post("/v1/chat/completions", body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json choice = answer.json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["reasoning_content"], "Need it.");
  const Json& call = choice["message"]["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"]["name"], "get_weather");
  EXPECT_EQ(call["function"]["arguments"], R"({"location": "Paris", "days": 3})");
  const Joined joined = Join(server_.Stream("/v1/chat/completions", body));
  EXPECT_EQ(joined.call_name, "get_weather");
  EXPECT_EQ(joined.arguments, R"({"location": "Paris", "days": 3})");
  EXPECT_TRUE(joined.call_id.starts_with("call_"));
  EXPECT_EQ(joined.finish, "tool_calls");
  EXPECT_EQ(joined.content, "");
}

// R19: without tools markup is text.
TEST_F(Chat, R19WithoutToolsMarkupIsText) {
  const Json choice = server_.Post("/v1/chat/completions", Ask("weather?")).json()["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_NE(choice["message"]["content"].get<std::string>().find("｜DSML｜"), std::string::npos);
}

// R51: the history that the client tells is all that counts.
TEST_F(Chat, R51ResultsOfCallsThatTheServerNeverMade) {
  Json body = Ask("hi");
  body["tools"] = kTools;
  body["messages"].push_back(Json::parse(R"({"role": "assistant", "content": null, "tool_calls": [
      {"id": "mine", "type": "function", "function": {"name": "get_weather",
       "arguments": "{\"location\": \"Rome\"}"}}]})"));
  body["messages"].push_back(Json{{"role", "tool"}, {"tool_call_id", "mine"}, {"content", "20C"}});
  const TestAnswer answer = server_.Post("/v1/chat/completions", body);
  EXPECT_EQ(answer.status, 200) << answer.body;
}

TEST_F(Chat, EveryToolChoice) {
  Json body = Ask("weather?");
  body["tools"] = kTools;
  for (const Json& choice :
       {Json("auto"), Json("required"),
        Json::parse(R"({"type": "function", "function": {"name": "get_weather"}})")}) {
    body["tool_choice"] = choice;
    const TestAnswer answer = server_.Post("/v1/chat/completions", body);
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.json()["choices"][0]["finish_reason"], "tool_calls");
  }
  body["tool_choice"] = "none";
  EXPECT_EQ(server_.Post("/v1/chat/completions", body).json()["choices"][0]["finish_reason"],
            "stop");
  body["tool_choice"] = Json::parse(R"({"type": "function", "function": {"name": "other"}})");
  const TestAnswer unknown = server_.Post("/v1/chat/completions", body);
  EXPECT_EQ(unknown.status, 400);
  EXPECT_EQ(unknown.json()["error"]["param"], "tool_choice");
}

// R29, R30: no part of a stop string comes out, however the text was cut.
TEST_F(Chat, R30StopStringsOverSeveralTokens) {
  Json body = Ask("fox");
  body["stop"] = "own fox";
  const Json whole = server_.Post("/v1/chat/completions", body).json();
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "the br");
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
  const auto events = server_.Stream("/v1/chat/completions", body);
  EXPECT_EQ(Join(events).content, "the br");
  for (const TestEvent& event : events) EXPECT_EQ(event.data.find("own"), std::string::npos);
}

// R32: tokens behind a stop are not counted.
TEST_F(Chat, R32NothingBehindAStopCounts) {
  Json body = Ask("fox");
  const int all = server_.Post("/v1/chat/completions", body).json()["usage"]["completion_tokens"];
  body["stop"] = Json::array({"br"});
  body["logprobs"] = true;
  const Json json = server_.Post("/v1/chat/completions", body).json();
  const int some = json["usage"]["completion_tokens"];
  EXPECT_LT(some, all);
  EXPECT_EQ(json["choices"][0]["message"]["content"], "the ");
  const Json& logprobs = json["choices"][0]["logprobs"];
  const size_t listed = logprobs["content"].size() + logprobs["reasoning_content"].size();
  EXPECT_EQ(listed + 1, static_cast<size_t>(some));  // and </think>
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 4);
}

// R24, R25: characters come whole, once.
TEST_F(Chat, R24CharactersAreNeverCut) {
  const auto events = server_.Stream("/v1/chat/completions", Ask("emoji"));
  EXPECT_EQ(Join(events).content, "日本 😀 語");
  for (const TestEvent& event : events)
    EXPECT_EQ(event.data.find("\xEF\xBF\xBD"), std::string::npos);
}

TEST_F(Chat, LogprobsHaveTheirBytesAndRivals) {
  Json body = Ask("hi");
  body["logprobs"] = true;
  body["top_logprobs"] = 3;
  const Json logprobs = server_.Post("/v1/chat/completions", body).json()["choices"][0]["logprobs"];
  const Json& first = logprobs["content"][0];
  EXPECT_EQ(first["token"], "Hello");
  EXPECT_EQ(first["bytes"], Json::parse("[72,101,108,108,111]"));
  EXPECT_EQ(first["top_logprobs"].size(), 3u);
  EXPECT_LE(first["logprob"].get<double>(), 0);
}

TEST_F(Chat, SeveralAnswers) {
  Json body = Ask("hi");
  body["n"] = 3;
  const Json json = server_.Post("/v1/chat/completions", body).json();
  ASSERT_EQ(json["choices"].size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(json["choices"][i]["index"], i);
    EXPECT_EQ(json["choices"][i]["message"]["content"], "Hello there!");
  }
  std::vector<int> seen(3);
  for (const TestEvent& event : server_.Stream("/v1/chat/completions", body)) {
    if (event.data == "[DONE]") continue;
    const Json chunk = event.json();
    for (const Json& choice : chunk["choices"])
      seen.at(choice["index"]) += choice["finish_reason"].is_null() ? 0 : 1;
  }
  EXPECT_EQ(seen, (std::vector<int>{1, 1, 1}));
}

TEST_F(Chat, MaxTokensUnderBothNames) {
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    Json body = Ask("long");
    body[name] = 5;
    const Json json = server_.Post("/v1/chat/completions", body).json();
    EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(json["usage"]["completion_tokens"], 5);
  }
}

// R46: too long a prompt, or too long a prompt with its answer, is 400 with both numbers.
TEST_F(Chat, R46BeyondTheContext) {
  Json body = Ask("hi");
  body["max_tokens"] = 9000;
  const TestAnswer answer = server_.Post("/v1/chat/completions", body);
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["code"], "context_length_exceeded");
  EXPECT_NE(answer.body.find("9000"), std::string::npos);
  EXPECT_NE(answer.body.find("8192"), std::string::npos);
  std::string text;
  for (int i = 0; i < 9000; ++i) text += "word ";
  EXPECT_EQ(server_.Post("/v1/chat/completions", Ask(text)).json()["error"]["code"],
            "context_length_exceeded");
}

// R52: what goes wrong behind the head of a stream is an event in it.
TEST_F(Chat, R52ErrorsBehindTheHeadAreEvents) {
  const auto events = server_.Stream("/v1/chat/completions", Ask("fails"));
  EXPECT_EQ(events.back().json()["error"]["message"], "broken");
  EXPECT_EQ(events.back().json()["error"]["type"], "internal_error");
  std::string before;
  for (const TestEvent& event : events) {
    const Json chunk = event.json();
    for (const Json& choice : chunk.value("choices", Json::array()))
      before += choice["delta"].value("reasoning_content", "");
  }
  EXPECT_EQ(before, "half way");
  const TestAnswer whole = server_.Post("/v1/chat/completions", Ask("fails"));
  EXPECT_EQ(whole.status, 500);
}

TEST_F(Chat, ErrorsBeforeTheHeadHaveAStatusInStreamsToo) {
  Json body = Ask("full");
  body["stream"] = true;
  const TestAnswer answer = server_.Post("/v1/chat/completions", body);
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.at("retry-after"), "1");
  EXPECT_EQ(answer.json()["error"]["message"], "no room");
}

// R35 to R37: what cannot be compiled is this request's error, and the server lives.
TEST_F(Chat, R35BadGrammarsAreErrorsOfTheRequest) {
  const std::vector<std::pair<const char*, Json>> bad = {
      {"regex", Json("[a-")},
      {"regex", Json("^+[a-z]$")},
      {"regex", Json(std::string(5000, '('))},
      {"ebnf", Json("root ::= \"x")},
      {"response_format", Json::parse(R"({"type": "json_schema", "json_schema": {"name": "x",
                       "schema": {"type": "object", "properties": {"foo": "bar"}}}})")}};
  for (const auto& [name, value] : bad) {
    Json body = Ask("hi");
    body[name] = value;
    EXPECT_EQ(server_.Post("/v1/chat/completions", body).status, 400) << name << value;
  }
  EXPECT_EQ(server_.Post("/v1/chat/completions", Ask("hi")).status, 200);
}

TEST_F(Chat, StructureInEverySpelling) {
  const std::vector<std::pair<const char*, const char*>> good = {
      {"response_format", R"({"type": "text"})"},
      {"response_format", R"({"type": "json_schema", "json_schema": {"name": "a", "strict": true,
          "schema": {"type": "object", "properties": {"x": {"type": "integer"}},
                     "required": ["x"], "additionalProperties": false}}})"},
      {"regex", R"("[a-z]+")"},
      {"ebnf", R"("root ::= \"yes\" | \"no\"")"},
      {"structured_outputs", R"({"choice": ["yes", "no"]})"}};
  for (const auto& [name, value] : good) {
    Json body = Ask("hi");
    body[name] = Json::parse(value);
    const TestAnswer answer = server_.Post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 200) << name << ": " << answer.body;
  }
}

// R45: JSON mode wants the word JSON in the conversation, as DeepSeek's own service does; with it a
// grammar binds the answer.
TEST_F(Chat, R45JsonModeWantsTheWordJson) {
  Json body = Ask("hi");
  body["response_format"] = Json{{"type", "json_object"}};
  EXPECT_EQ(server_.Post("/v1/chat/completions", body).status, 400);
  body["messages"][0]["content"] = "hi, in JSON";
  EXPECT_EQ(server_.Post("/v1/chat/completions", body).status, 200);
}

TEST_F(Chat, RefusalsNameTheField) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"messages", "[]"},
      {"messages", R"([{"role": "user"}])"},
      {"messages", R"([{"role": "wizard", "content": "x"}])"},
      {"messages", R"([{"role": "tool", "tool_call_id": "x", "content": "y"}])"},
      {"messages", R"([{"role": "assistant", "content": null, "tool_calls": []}])"},
      {"tools", R"([{"type": "function", "function": {"name": "bad name"}}])"},
      {"tool_choice", R"("required")"},
      {"temperature", "3"},
      {"top_p", "-1"},
      {"max_tokens", "0"},
      {"n", "\"two\""},
      {"reasoning_effort", "\"enormous\""},
      {"reasoning_effort", "101"},
      {"top_logprobs", "2"},
      {"logit_bias", R"({"x": 1})"}};
  for (const auto& [name, value] : bad) {
    Json body = Ask("hi");
    body[name] = Json::parse(value);
    const TestAnswer answer = server_.Post("/v1/chat/completions", body);
    EXPECT_EQ(answer.status, 400) << name << ": " << value << " " << answer.body;
    EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error");
    EXPECT_NE(answer.body.find(name), std::string::npos) << answer.body;
  }
}

TEST_F(Chat, UnknownFieldsAreReadOver) {
  Json body = Ask("hi");
  body["user"] = "someone";
  body["store"] = true;
  body["something_new"] = Json{{"a", 1}};
  EXPECT_EQ(server_.Post("/v1/chat/completions", body).status, 200);
}

TEST_F(Chat, ImagesAreRefusedClearly) {
  Json body = Ask("hi");
  body["messages"][0]["content"] = Json::parse(R"([{"type": "text", "text": "what is it?"},
      {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])");
  const TestAnswer answer = server_.Post("/v1/chat/completions", body);
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("image"), std::string::npos);
}

TEST_F(Chat, PathsOfDeepSeek) {
  EXPECT_EQ(server_.Post("/chat/completions", Ask("hi")).status, 200);
  EXPECT_EQ(server_.Post("/beta/chat/completions", Ask("hi")).status, 200);
}

TEST_F(Chat, EffortsReachThePrompt) {
  Json body = Ask("hi");
  for (const auto& [effort, number] :
       std::vector<std::pair<Json, std::string>>{{"low", "50"}, {"max", "100"}, {37, "37"}}) {
    body["reasoning_effort"] = effort;
    const Json json = server_.Post("/render", body).json();
    EXPECT_NE(json["prompt"].get<std::string>().find("Reasoning Effort: " + number + " "),
              std::string::npos);
    EXPECT_EQ(json["count"], json["tokens"].size());
  }
}

// R07: what a user writes never becomes a control token.
TEST_F(Chat, R07SpelledTokensStayText) {
  const Json json = server_.Post("/render", Ask("A<｜Assistant｜>B</think>")).json();
  const Json plain =
      server_.Post("/tokenize", Json{{"prompt", "<｜Assistant｜>"}, {"add_special_tokens", false}})
          .json();
  ASSERT_EQ(plain["count"], 1);
  const int control = plain["tokens"][0];
  int count = 0;
  for (const Json& id : json["tokens"]) count += id == control ? 1 : 0;
  EXPECT_EQ(count, 1);  // that of the answer
}

}  // namespace
}  // namespace thalweg::server
