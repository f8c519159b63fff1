// Bodies of chat requests are read as OpenAI's and DeepSeek's clients write them; what is wrong is
// an error that begins with the path of the field.
#include "text/chat_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "text/test_chat.h"
#include "text/test_tokenizer.h"

namespace thalweg::text {
namespace {

using base::Json;

Result<ChatRequest> Read(std::string_view body) {
  TW_ASSIGN(const Json json, base::ParseJson(body, "body", kChatJsonLimits));
  return ReadChatRequest(json);
}

std::string ErrorOf(std::string_view body) {
  const auto request = Read(body);
  return request.ok() ? "accepted" : request.status().message();
}

// One message beside a user's.
std::string With(std::string_view fields) {
  return fmt::format(R"({{"messages": [{{"role": "user", "content": "x"}}], {}}})", fields);
}
std::string Messages(std::string_view list) { return fmt::format(R"({{"messages": [{}]}})", list); }

constexpr std::string_view kUser = R"({"role": "user", "content": "x"})";
constexpr std::string_view kCall =
    R"({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}})";

std::string Calls(std::string_view calls) {
  return fmt::format(R"({{"role": "assistant", "tool_calls": [{}]}})", calls);
}
std::string ResultOf(std::string_view id) {
  return fmt::format(R"({{"role": "tool", "tool_call_id": "{}", "content": "r"}})", id);
}

void ExpectError(const std::string& body, std::string_view path, std::string_view what) {
  const std::string error = ErrorOf(body);
  EXPECT_TRUE(error.starts_with(std::string(path) + ": ")) << body << "\n" << error;
  EXPECT_NE(error.find(what), std::string::npos) << body << "\n" << error;
}

TEST(ChatJson, ReadsAWholeRequest) {
  const auto request = Read(R"({
    "model": "m", "temperature": 1, "messages": [
      {"role": "developer", "content": "sys"},
      {"role": "user", "name": "u", "content": [{"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}]},
      {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
      {"role": "tool", "tool_call_id": "c1", "content": "res"},
      {"role": "latest_reminder", "content": "now"},
      {"role": "assistant", "content": "So", "prefix": true}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d",
      "parameters": {"type": "object"}, "strict": true}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
    "reasoning_effort": 37})");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  const auto& m = request->conversation.messages;
  ASSERT_EQ(m.size(), 6u);
  EXPECT_EQ(m[0], System("sys"));
  EXPECT_EQ(m[1].content.blocks[1],
            (ContentBlock{.kind = ContentBlock::Kind::kImage, .text = "data:x"}));
  EXPECT_EQ(m[2], Calling({{"c1", "", "f", "{\"a\": 1}"}}, "r"));
  EXPECT_EQ(m[3], Answered("c1", "res"));
  EXPECT_EQ(m[4], Reminder("now"));
  EXPECT_TRUE(m[5].to_be_continued);
  const ToolDefinition& tool = request->conversation.tools.at(0);
  EXPECT_EQ(tool.description, "d");
  EXPECT_EQ(tool.strict, true);
  EXPECT_EQ(tool.as_given["strict"], true);
  EXPECT_EQ(request->selection, (ToolSelection{.kind = ToolSelection::Kind::kNamed, .name = "f"}));
  EXPECT_FALSE(request->parallel_tool_calls);
  EXPECT_EQ(request->effort, (EffortChoice{.thinking = true, .effort = 37}));
}

TEST(ChatJson, OtherFieldsAreNotLookedAt) {
  EXPECT_TRUE(Read(With(R"("logprobs": true, "user": 7, "x": {"y": []})")).ok());
  EXPECT_TRUE(Read(Messages(R"({"role": "user", "content": "x", "refusal": 3})")).ok());
}

TEST(ChatJson, Namespaces) {
  const auto names = [](std::string_view tools) {
    const auto request = Read(With(fmt::format(R"("tools": [{}])", tools)));
    if (!request.ok()) return request.status().message();
    std::string all;
    for (const ToolDefinition& tool : request->conversation.tools)
      all += tool.FullName() + "(" + tool.description + ")";
    return all;
  };
  EXPECT_EQ(names(R"({"type": "function", "namespace": "w", "function": {"name": "f"}})"),
            "w::f()");
  EXPECT_EQ(names(R"({"type": "function", "function": {"name": "w::f"}})"), "w::f()");
  EXPECT_EQ(names(R"({"function": {"name": "f", "namespace": "w", "description": "d"}})"),
            "w::f(d)");
  EXPECT_EQ(names(R"({"type": "namespace", "name": "w", "description": "W",
                      "tools": [{"type": "function", "name": "f", "description": "d"}]})"),
            "w::f(W\nd)");
  EXPECT_EQ(names(R"({"namespace": "v", "function": {"name": "w::f"}})"),
            R"(tools[0].function: is in two namespaces, "w" and "v")");
  EXPECT_EQ(names(R"({"type": "namespace", "name": "w", "tools": [{"type": "namespace"}]})"),
            "tools[0].tools[0]: tools of type \"namespace\" are not taken; use function");
}

TEST(ChatJson, ResponseFormats) {
  EXPECT_EQ(Read(With(R"("response_format": {"type": "text"})"))->conversation.response_format,
            Json());
  EXPECT_EQ(Read(With(R"("response_format": {"type": "json_schema", "json_schema":
                         {"name": "s", "schema": {"type": "object"}}})"))
                ->conversation.response_format,
            (Json{{"type", "object"}}));
}

TEST(ChatJson, R45JsonModeNeedsTheWord) {
  constexpr std::string_view kMode = R"("response_format": {"type": "json_object"})";
  ExpectError(With(kMode), "response_format", "json must appear");
  const std::string asked =
      fmt::format(R"({{"messages": [{{"role": "user", "content": "As JSON."}}], {}}})", kMode);
  EXPECT_EQ(Read(asked)->conversation.response_format, (Json{{"type", "json_object"}}));
}

TEST(ChatJson, EffortAndThinking) {
  const auto effort = [](std::string_view fields) { return Read(With(fields))->effort; };
  EXPECT_EQ(effort(R"("n": 1)"), std::nullopt);
  EXPECT_EQ(effort(R"("reasoning_effort": "low")"), (EffortChoice{true, 50}));
  EXPECT_EQ(effort(R"("reasoning_effort": "none")"), (EffortChoice{false, 75}));
  EXPECT_EQ(effort(R"("thinking": {"type": "disabled"}, "reasoning_effort": "max")"),
            (EffortChoice{false, 100}));
  EXPECT_EQ(effort(R"("thinking": {"type": "enabled", "budget_tokens": 9},
                      "reasoning_effort": "none")"),
            (EffortChoice{true, 75}));
  EXPECT_EQ(effort(R"("thinking": {"type": "enabled"})"), (EffortChoice{true, 75}));
  for (const char* bad : {"0", "101", "5.0", "true", "\"50\"", "\"extreme\"", "1e999", "-1", "[]",
                          "18446744073709551615", "9223372036854775808"}) {
    const std::string error = ErrorOf(With(fmt::format(R"("reasoning_effort": {})", bad)));
    EXPECT_NE(error, "accepted") << bad;
    EXPECT_TRUE(error.starts_with("reasoning_effort: ") || error.starts_with("body")) << error;
  }
  ExpectError(With(R"("thinking": {"type": "adaptive"})"), "thinking.type", "enabled or disabled");
}

// Each of the refusals of spec/serving.md 2.8 that concern messages.
TEST(ChatJson, WrongMessages) {
  ExpectError(R"({"messages": []})", "messages", "at least one");
  ExpectError(Messages("7"), "messages[0]", "must be an object");
  ExpectError(R"({"messages": {}})", "messages", "must be an array");
  EXPECT_EQ(ErrorOf("{}"), "the field \"messages\" is missing");
  EXPECT_EQ(ErrorOf("[]"), "the request must be a JSON object");
  ExpectError(Messages(R"({"content": "x"})"), "messages[0]", "\"role\" is missing");
  ExpectError(Messages(R"({"role": "robot", "content": "x"})"), "messages[0].role",
              "latest_reminder");
  ExpectError(Messages(R"({"role": "user"})"), "messages[0].content", "needs content");
  ExpectError(Messages(R"({"role": "user", "content": []})"), "messages[0].content",
              "needs content");
  ExpectError(Messages(R"({"role": "user", "content": 5})"), "messages[0].content",
              "a string or an array");
  ExpectError(Messages(R"({"role": "user", "content": [{"type": "audio"}]})"),
              "messages[0].content[0].type", "\"audio\" is not taken");
  ExpectError(Messages(R"({"role": "user", "content": [{"type": "file", "file_id": "f"}]})"),
              "messages[0].content[0].type", "\"file\" is not taken");
  ExpectError(Messages(R"({"role": "assistant"})"), "messages[0]", "content or tool_calls");
  ExpectError(Messages(R"({"role": "assistant", "content": "", "tool_calls": []})"),
              "messages[0].tool_calls", "empty");
  ExpectError(Messages(R"({"role": "system", "content": [{"type": "image_url", "image_url":
                          {"url": "u"}}]})"),
              "messages[0].content", "image cannot stand in a system message");
  ExpectError(Messages(R"({"role": "assistant", "content": [{"type": "text", "text": "a"},
                          {"type": "image_url", "image_url": "u"}]})"),
              "messages[0].content[1]", "image cannot stand in a assistant message");
  ExpectError(Messages(fmt::format(R"({{"role": "assistant", "content": "a", "prefix": true}}, {})",
                                   kUser)),
              "messages[0].prefix", "last message");
  ExpectError(Messages(R"({"role": "user", "content": "a", "prefix": true})"), "messages[0].prefix",
              "assistant");
}

TEST(ChatJson, WrongCallsAndResults) {
  ExpectError(Messages(fmt::format("{}, {}", kUser, ResultOf("c1"))), "messages[1]", "must follow");
  const std::string called = Calls(kCall);
  ExpectError(Messages(fmt::format("{}, {}", called, ResultOf("c2"))), "messages[1].tool_call_id",
              "has no call \"c2\"");
  ExpectError(Messages(fmt::format("{}, {}, {}", called, ResultOf("c1"), ResultOf("c1"))),
              "messages[2].tool_call_id", "second result");
  ExpectError(Messages(fmt::format("{}, {}", called, kUser)), "messages[0].tool_calls[0].id",
              "no tool message");
  ExpectError(
      Messages(fmt::format("{}, {}", Calls(fmt::format("{}, {}", kCall, kCall)), ResultOf("c1"))),
      "messages[0].tool_calls[1].id", "another call");
  ExpectError(Messages(R"({"role": "tool", "content": "r"})"), "messages[0].tool_call_id", "id");
  ExpectError(Messages(Calls(R"({"function": {"name": "f"}})")), "messages[0].tool_calls[0]",
              "\"id\" is missing");
  ExpectError(Messages(Calls(R"({"id": "", "function": {"name": "f"}})")),
              "messages[0].tool_calls[0].id", "needs an id");
  ExpectError(Messages(Calls(R"({"id": "c", "function": {"name": ""}})")),
              "messages[0].tool_calls[0].function.name", "name of a tool");
  ExpectError(Messages(Calls(R"({"id": "c", "function": {"name": "a\"b"}})")),
              "messages[0].tool_calls[0].function.name", "quotation");
  ExpectError(Messages(Calls(R"({"id": "c", "type": "custom"})")), "messages[0].tool_calls[0]",
              "custom");
  // The last message may have calls whose results are still to come.
  EXPECT_TRUE(Read(Messages(called)).ok());
}

TEST(ChatJson, WrongTools) {
  const auto tools = [](std::string_view list) {
    return With(fmt::format(R"("tools": [{}])", list));
  };
  ExpectError(tools(R"({"type": "web_search"})"), "tools[0]", "web_search");
  ExpectError(tools(R"({"function": {"name": "bad name"}})"), "tools[0].function.name", "A-Z");
  ExpectError(tools(fmt::format(R"({{"function": {{"name": "{}"}}}})", std::string(129, 'a'))),
              "tools[0].function.name", "128");
  EXPECT_TRUE(
      Read(tools(fmt::format(R"({{"function": {{"name": "{}"}}}})", std::string(128, 'a')))).ok());
  ExpectError(tools(R"({"function": {"name": "a", "parameters": {"type": "string"}}})"),
              "tools[0].function.parameters", "type object");
  ExpectError(tools(R"({"function": {"name": "a", "parameters": []}})"),
              "tools[0].function.parameters", "JSON Schema");
  ExpectError(tools(R"({"function": {"name": "a"}}, {"function": {"name": "a"}})"),
              "tools[1].function.name", "another tool");
  ExpectError(With(R"("tool_choice": "required")"), "tool_choice", "no tools");
  ExpectError(With(R"("tool_choice": "sometimes")"), "tool_choice", "required");
  ExpectError(With(R"("tools": [{"function": {"name": "a"}}],
                      "tool_choice": {"type": "function", "function": {"name": "b"}})"),
              "tool_choice", "no tool \"b\"");
}

// R54: schemas may nest as deep as 127, and deeper ones are errors, not crashes.
TEST(ChatJson, DepthOfSchemas) {
  const auto nested = [](int depth) {
    std::string schema;
    for (int i = 1; i < depth; ++i) schema += R"({"p": )";
    schema += R"({"type": "object"})" + std::string(static_cast<size_t>(depth) - 1, '}');
    return With(R"("tools": [{"function": {"name": "a", "parameters": )" + schema + "}}]");
  };
  EXPECT_TRUE(Read(nested(127)).ok());
  ExpectError(nested(130), "tools[0].function.parameters", "deep");
  EXPECT_NE(ErrorOf(nested(100'000)).find("deep"), std::string::npos);
}

TEST(ChatJson, R08PlaceholdersInTexts) {
  for (const std::string_view token : {"<｜image｜>", "<｜deepseek_image｜>"}) {
    const auto text = [&](std::string_view format) {
      std::string out(format);
      const size_t at = out.find("IMAGE");
      return out.replace(at, 5, token);
    };
    ExpectError(Messages(text(R"({"role": "user", "content": "a IMAGE"})")), "messages[0].content",
                "stands for an image");
    ExpectError(Messages(text(R"({"role": "system", "content": [{"type": "text", "text": "a"},
                                 {"type": "text", "text": "IMAGE"}]})")),
                "messages[0].content[1]", "image");
    ExpectError(Messages(text(R"({"role": "assistant", "content": "", "reasoning": "IMAGE"})")),
                "messages[0].reasoning_content", "image");
    ExpectError(With(text(R"("tools": [{"function": {"name": "a", "description": "IMAGE"}}])")),
                "tools[0].function.description", "image");
    ExpectError(With(text(R"("tools": [{"function": {"name": "a", "parameters":
                             {"properties": {"IMAGE": {}}}}}])")),
                "tools[0].function.parameters", "image");
    ExpectError(With(text(R"("response_format": {"type": "json_schema", "json_schema":
                             {"schema": {"title": "IMAGE"}}})")),
                "response_format", "image");
    ExpectError(Messages(Calls(text(R"({"id": "c", "function": {"name": "IMAGE"}})"))),
                "messages[0].tool_calls[0].function.name", "image");
    ExpectError(Messages(Calls(text(R"({"id": "c", "function": {"name": "f",
                                       "arguments": "{\"a\": \"IMAGE\"}"}})"))),
                "messages[0].tool_calls[0].function.arguments", "image");
  }
  ExpectError(Messages(Calls(R"({"id": "c", "function": {"name": "f",
                                "arguments": "{\"a\": \"\\u003c｜image｜>\"}"}})")),
              "messages[0].tool_calls[0].function.arguments", "image");
}

// R51: the messages alone say which calls there were.
TEST(ChatJson, R51HistoryIsAuthoritative) {
  const std::string body =
      Messages(fmt::format(R"({}, {}, {}, {{"role": "assistant", "content": "done"}}, {})", kUser,
                           Calls(R"({"id": "toolu_of_another_server", "function":
                                     {"name": "gone", "arguments": "{}"}})"),
                           ResultOf("toolu_of_another_server"), kUser));
  const auto request = Read(body);  // no tools are declared either
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_NE(Render(request->conversation).find("invoke name=\"gone\""), std::string::npos);
}

TEST(ChatJson, Limits) {
  std::string blocks = R"({"type": "text", "text": ""})";
  for (size_t i = 1; i < kMaxBlocks; ++i) blocks += R"(, {"type": "text", "text": ""})";
  EXPECT_TRUE(Read(Messages(fmt::format(R"({{"role": "user", "content": [{}]}})", blocks))).ok());
  blocks += R"(, {"type": "text", "text": ""})";
  ExpectError(Messages(fmt::format(R"({{"role": "user", "content": [{}]}})", blocks)),
              "messages[0].content", "4096");
  ExpectError(Messages(Calls(fmt::format(R"({{"id": "{}", "function": {{"name": "f"}}}})",
                                         std::string(kMaxIdBytes + 1, 'i')))),
              "messages[0].tool_calls[0].id", "512");
  std::string images;
  for (size_t i = 0; i <= kMaxImages; ++i) {
    images += i == 0 ? "" : ", ";
    images += R"({"type": "image_url", "image_url": "u"})";
  }
  ExpectError(Messages(fmt::format(R"({{"role": "user", "content": [{}]}})", images)), "messages",
              "600");
}

// A value anywhere in the document.
Json* PickNode(Json* root, Dice* dice) {
  Json* node = root;
  while (node->is_structured() && !node->empty() && dice->Below(6) != 0) {
    auto at = node->begin();
    std::advance(at, dice->Below(static_cast<uint32_t>(node->size())));
    node = &*at;
  }
  return node;
}

// Any field may be anything: what is accepted can be rendered, all else is an error with a message.
TEST(ChatJson, FieldsOfAnyType) {
  const Json good = base::ParseJson(R"({
    "messages": [
      {"role": "system", "content": "s", "tools": [{"function": {"name": "l"}}]},
      {"role": "user", "content": [{"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "u"}}]},
      {"role": "assistant", "content": null, "reasoning_content": "r", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
      {"role": "tool", "tool_call_id": "c", "content": "x"},
      {"role": "assistant", "content": "So", "prefix": true}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d",
      "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}, "strict": true}},
      {"type": "namespace", "name": "w", "description": "W", "tools": [{"name": "g"}]}],
    "tool_choice": {"type": "function", "function": {"name": "f"}}, "parallel_tool_calls": false,
    "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
    "reasoning_effort": 37, "thinking": {"type": "enabled"}})",
                                    "body")
                        .value();
  ASSERT_TRUE(ReadChatRequest(good).ok()) << ReadChatRequest(good).status().ToString();
  const std::vector<Json> values = {
      nullptr,          true,         -1, 1e300, "", "f", "user", Json::array(), Json::object(),
      Json::array({1}), "<｜image｜>"};
  Dice dice(9);
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    Json body = good;
    for (uint32_t i = 1 + dice.Below(2); i > 0; --i)
      *PickNode(&body, &dice) = values[dice.Below(static_cast<uint32_t>(values.size()))];
    const auto request = ReadChatRequest(body);
    if (!request.ok()) {
      EXPECT_FALSE(request.status().message().empty());
      continue;
    }
    ++accepted;
    const auto chat = RenderChat(Chatty(), request->conversation, {});
    EXPECT_TRUE(chat.ok() || chat.status().message().find("no tool message") != std::string::npos)
        << body.dump() << chat.status().ToString();
  }
  EXPECT_GT(accepted, 1000);
}

}  // namespace
}  // namespace thalweg::text
