// Tool choice, thinking, response format and protocol in every combination: what is not refused is
// answered, and what comes back parses, follows its schema and stands in the right field, whole and
// as a stream. Once with answers from a script, once with a model whose words mean nothing, so that
// only what is enforced can hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "api/engine_model.h"
#include "server/test_server.h"

namespace thalweg::server {
namespace {

enum class Protocol : uint8_t { kChat, kMessages, kResponses };
enum class Tools : uint8_t { kAbsent, kNone, kAuto, kRequired, kNamed };
enum class Format : uint8_t { kFree, kObject, kSchema, kRegex };

struct Combination {
  Protocol protocol = Protocol::kChat;
  Tools tools = Tools::kAbsent;
  Format format = Format::kFree;
  bool thinking = false;
  bool stream = false;

  bool forced() const { return tools == Tools::kRequired || tools == Tools::kNamed; }
  bool bound() const { return format != Format::kFree; }
  // One answer cannot be a call and a JSON text.
  bool legal() const { return !(forced() && bound()); }
  std::string Name() const {
    return fmt::format("protocol {} tools {} format {} thinking {} stream {}",
                       static_cast<int>(protocol), static_cast<int>(tools),
                       static_cast<int>(format), thinking, stream);
  }
};

std::vector<Combination> AllCombinations() {
  std::vector<Combination> all;
  for (int i = 0; i < 3 * 5 * 4 * 2 * 2; ++i) {
    all.push_back({.protocol = static_cast<Protocol>(i % 3),
                   .tools = static_cast<Tools>(i / 3 % 5),
                   .format = static_cast<Format>(i / 15 % 4),
                   .thinking = i / 60 % 2 == 1,
                   .stream = i / 120 == 1});
  }
  return all;
}

const Json kSchema = Json::parse(R"({"type": "object", "properties": {
    "city": {"enum": ["Paris", "Rome"]}, "days": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city"], "additionalProperties": false})");

// 3.0 is an integer of JSON Schema.
bool IsDays(const Json& value) {
  if (!value.is_number()) return false;
  const double days = value.get<double>();
  return days >= 0 && days <= 9 && days == std::floor(days);
}

bool FollowsSchema(const Json& value) {
  if (!value.is_object() || !value.contains("city")) return false;
  for (const auto& [name, member] : value.items()) {
    if (name == "city" && (member == "Paris" || member == "Rome")) continue;
    if (name == "days" && IsDays(member)) continue;
    return false;
  }
  return true;
}

// What the script answers is what a bound model would.
std::string Question(const Combination& c) {
  if (c.forced()) return "call the json tool";
  if (c.format == Format::kRegex) return "say a regex, not json";
  return c.bound() ? "give json" : "just talk about json";
}

Json ToolOf(Protocol protocol, const char* name) {
  Json tool{{"name", name}};
  tool[protocol == Protocol::kMessages ? "input_schema" : "parameters"] = kSchema;
  if (protocol == Protocol::kMessages) return tool;
  if (protocol == Protocol::kChat) return Json{{"type", "function"}, {"function", tool}};
  tool["type"] = "function";
  return tool;
}

Json ChoiceOf(const Combination& c) {
  const bool messages = c.protocol == Protocol::kMessages;
  const char* names[] = {"", "none", "auto", messages ? "any" : "required"};
  if (c.tools != Tools::kNamed) {
    const Json name = names[static_cast<int>(c.tools)];
    return messages ? Json{{"type", name}} : name;
  }
  if (messages) return Json{{"type", "tool"}, {"name", "visit"}};
  if (c.protocol == Protocol::kResponses) return Json{{"type", "function"}, {"name", "visit"}};
  return Json{{"type", "function"}, {"function", Json{{"name", "visit"}}}};
}

void SetFormat(const Combination& c, Json* body) {
  if (c.format == Format::kRegex) (*body)["regex"] = "[ab]{2,4}";
  if (c.format != Format::kObject && c.format != Format::kSchema) return;
  Json format{{"type", c.format == Format::kObject ? "json_object" : "json_schema"}};
  const Json named{{"name", "answer"}, {"schema", kSchema}, {"strict", true}};
  switch (c.protocol) {
    case Protocol::kChat:
      if (c.format == Format::kSchema) format["json_schema"] = named;
      (*body)["response_format"] = format;
      break;
    case Protocol::kResponses:
      if (c.format == Format::kSchema) format.update(named);
      (*body)["text"]["format"] = format;
      break;
    case Protocol::kMessages:
      if (c.format == Format::kObject) {
        (*body)["response_format"] = format;  // this protocol has no name for it
      } else {
        format["schema"] = kSchema;
        (*body)["output_config"]["format"] = format;
      }
  }
}

void SetThinking(const Combination& c, Json* body) {
  if (c.protocol == Protocol::kResponses) {
    (*body)["reasoning"]["effort"] = c.thinking ? "low" : "none";
  } else {
    (*body)["thinking"]["type"] = c.thinking ? "enabled" : "disabled";
  }
  if (c.thinking) (*body)["thinking_budget"] = 6;
}

// Enough for what ends by itself, few for what may go on for ever.
int MostTokens(const Combination& c) {
  if (c.forced()) return 400;
  return c.format == Format::kSchema ? 120 : 40;
}

Json BodyOf(const Combination& c) {
  const Json user = Json::array({Json{{"role", "user"}, {"content", Question(c)}}});
  const bool responses = c.protocol == Protocol::kResponses;
  Json body{{responses ? "input" : "messages", user},
            {responses ? "max_output_tokens" : "max_tokens", MostTokens(c)},
            {"seed", 7},
            {"stream", c.stream}};
  if (c.tools != Tools::kAbsent) {
    body["tools"] = Json::array({ToolOf(c.protocol, "visit"), ToolOf(c.protocol, "leave")});
    body["tool_choice"] = ChoiceOf(c);
    if (c.protocol == Protocol::kMessages) {
      body["tool_choice"]["disable_parallel_tool_use"] = true;
    } else {
      body["parallel_tool_calls"] = false;
    }
  }
  SetFormat(c, &body);
  SetThinking(c, &body);
  return body;
}

// An answer, whichever protocol it came in.
struct Said {
  struct Call {
    std::string name = {}, arguments = {};
  };
  std::string reasoning = {}, content = {};
  std::vector<Call> calls = {};
  std::string finish = {};  // "stop", "length", "tool_calls" in the words of the protocol

  bool cut() const {
    return finish == "length" || finish == "max_tokens" || finish == "incomplete";
  }
};

std::string TextOr(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

void AddChatCalls(const Json& message, Said* said) {
  for (const Json& call : message.value("tool_calls", Json::array())) {
    if (call.contains("id")) said->calls.emplace_back();
    said->calls.back().name += TextOr(call["function"], "name");
    said->calls.back().arguments += TextOr(call["function"], "arguments");
  }
}

Said ReadChat(const TestAnswer& answer, bool stream) {
  Said said;
  const auto add = [&](const Json& choice, const char* member) {
    said.content += TextOr(choice[member], "content");
    said.reasoning += TextOr(choice[member], "reasoning_content");
    AddChatCalls(choice[member], &said);
    said.finish += TextOr(choice, "finish_reason");
  };
  if (!stream) {
    add(answer.json()["choices"][0], "message");
    return said;
  }
  for (const TestEvent& event : ParseEvents(answer.body)) {
    if (event.data == "[DONE]") continue;
    const Json chunk = event.json();
    for (const Json& choice : chunk["choices"]) add(choice, "delta");
  }
  return said;
}

void AddBlock(const Json& block, Said* said) {
  said->reasoning += TextOr(block, "thinking");
  said->content += TextOr(block, "text");
  if (block["type"] != "tool_use") return;
  said->calls.push_back({.name = block["name"]});
  if (!block["input"].empty()) said->calls.back().arguments = block["input"].dump();
}

Said ReadMessages(const TestAnswer& answer, bool stream) {
  Said said;
  if (!stream) {
    const Json message = answer.json();
    for (const Json& block : message["content"]) AddBlock(block, &said);
    said.finish = message["stop_reason"];
    return said;
  }
  for (const TestEvent& event : ParseEvents(answer.body)) {
    const Json json = event.json();
    if (event.name == "content_block_start") AddBlock(json["content_block"], &said);
    if (event.name == "message_delta") said.finish = json["delta"]["stop_reason"];
    if (event.name != "content_block_delta") continue;
    said.reasoning += TextOr(json["delta"], "thinking");
    said.content += TextOr(json["delta"], "text");
    if (json["delta"].contains("partial_json"))
      said.calls.back().arguments += TextOr(json["delta"], "partial_json");
  }
  return said;
}

Said ReadResponses(const TestAnswer& answer, bool stream) {
  Json response;
  if (stream) {
    response = ParseEvents(answer.body).back().json()["response"];
  } else {
    response = answer.json();
  }
  Said said{.finish = response["status"]};
  for (const Json& item : response["output"]) {
    if (item["type"] == "function_call") {
      said.calls.push_back({.name = item["name"], .arguments = item["arguments"]});
      continue;
    }
    std::string& text = item["type"] == "reasoning" ? said.reasoning : said.content;
    text += TextOr(item["content"][0], "text");
  }
  return said;
}

Said Read(const Combination& c, const TestAnswer& answer) {
  switch (c.protocol) {
    case Protocol::kChat: return ReadChat(answer, c.stream);
    case Protocol::kMessages: return ReadMessages(answer, c.stream);
    case Protocol::kResponses: return ReadResponses(answer, c.stream);
  }
  return {};
}

void ExpectBoundContent(Format format, const std::string& content) {
  if (format == Format::kRegex) {
    EXPECT_TRUE(content.size() >= 2 && content.size() <= 4 &&
                content.find_first_not_of("ab") == std::string::npos)
        << content;
    return;
  }
  const Json json = Json::parse(content, nullptr, false);
  EXPECT_TRUE(json.is_object()) << content;
  if (format == Format::kSchema) {
    EXPECT_TRUE(FollowsSchema(json)) << content;
  }
}

void ExpectCalls(const Combination& c, const Said& said) {
  const bool may = c.tools != Tools::kAbsent && c.tools != Tools::kNone;
  EXPECT_TRUE(may || said.calls.empty());
  if (c.forced() && !said.cut()) {
    EXPECT_EQ(said.calls.size(), 1u);
  }
  if (c.forced()) {
    EXPECT_EQ(said.content, "");
  }
  for (size_t i = 0; i < said.calls.size(); ++i) {
    const auto& [name, arguments] = said.calls[i];
    if (said.cut() && i + 1 == said.calls.size()) continue;  // may end anywhere
    EXPECT_TRUE(name == "visit" || (name == "leave" && c.tools != Tools::kNamed)) << name;
    EXPECT_TRUE(FollowsSchema(Json::parse(arguments, nullptr, false))) << arguments;
  }
}

void ExpectRight(const Combination& c, const Said& said) {
  ExpectCalls(c, said);
  if (!c.thinking) {
    EXPECT_EQ(said.reasoning, "");
  }
  if (c.bound() && !said.cut() && said.calls.empty()) ExpectBoundContent(c.format, said.content);
  if (c.tools == Tools::kAuto || c.forced()) {
    EXPECT_EQ(said.content.find("DSML"), std::string::npos) << said.content;
  }
}

void AskAll(int port, bool words_mean_something) {
  constexpr const char* kPaths[] = {"/v1/chat/completions", "/v1/messages", "/v1/responses"};
  for (const Combination& c : AllCombinations()) {
    SCOPED_TRACE(c.Name());
    const TestAnswer answer = PostTo(port, kPaths[static_cast<int>(c.protocol)], BodyOf(c).dump());
    ASSERT_EQ(answer.status, c.legal() ? 200 : 400) << answer.body;
    if (!c.legal()) {
      EXPECT_NE(answer.body.find("tool_choice"), std::string::npos) << answer.body;
      continue;
    }
    const Said said = Read(c, answer);
    ExpectRight(c, said);
    if (!words_mean_something) continue;
    EXPECT_FALSE(said.cut());
    EXPECT_EQ(said.reasoning, c.thinking ? "Hm." : "");
  }
}

// The beginning of the script's answers is what the prompts of both modes end with.
TEST(Combinations, OfAScript) {
  std::string answers;
  const auto add = [&](const char* match, const std::string& text) {
    for (const bool thinks : {true, false}) {
      Json answer;
      answer["match"] = std::string(match) + "<｜Assistant｜>" + (thinks ? "<think>" : "</think>");
      answer["pieces"] = Json::array({(thinks ? "Hm.</think>" : "") + text});
      answers += (answers.empty() ? "" : ",") + answer.dump();
    }
  };
  add("call the json tool",
      "\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"visit\">\n"
      "<｜DSML｜ parameter name=\"city\" string=\"true\">Rome</｜DSML｜ parameter>\n"
      "</｜DSML｜ invoke>\n</｜DSML｜ calls>");
  add("say a regex, not json", "abba");
  add("give json", R"({"city": "Paris", "days": 3})");
  add("just talk about json", "It is a notation.");
  TestServer server("{\"answers\": [" + answers + "]}");
  AskAll(server.port(), true);
}

class Nano : public testing::Test {
 protected:
  void SetUp() override {
    auto model = api::EngineModel::Load(
        {.model = THALWEG_SOURCE_DIR "/models/nano", .options = {{"max_sequences", "8"}}}, "nano");
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = *std::move(model);
    auto server = Server::Start(model_.get(), TestServer::Options());
    ASSERT_TRUE(server.ok());
    server_ = std::move(*server);
  }

  std::unique_ptr<api::EngineModel> model_;
  std::unique_ptr<Server> server_;
};

TEST_F(Nano, CombinationsOfAModelWhoseWordsMeanNothing) { AskAll(server_->port(), false); }

// A stop string of a chat is not the engine's: the sequence that said it is ended, the others go
// on, and none of them runs to its limit.
TEST_F(Nano, SequencesAreEndedAlone) {
  const Json body = Json::parse(R"({"messages": [{"role": "user", "content": "Say something."}],
      "thinking": {"type": "disabled"}, "n": 4, "max_tokens": 1500, "stop": ["e", "a", "t"],
      "seed": 3, "ignore_eos": true})");
  const TestAnswer answer = PostTo(server_->port(), "/v1/chat/completions", body.dump());
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = answer.json();
  ASSERT_EQ(json["choices"].size(), 4u);
  for (const Json& choice : json["choices"]) EXPECT_EQ(choice["finish_reason"], "stop") << choice;
  const int64_t counted = json["usage"]["completion_tokens"];
  const int64_t made = Json::parse(model_->MetricsJson())["output_tokens"];
  EXPECT_LT(counted, 1000);
  EXPECT_LE(counted, made);
  EXPECT_LT(made, counted + 400);  // what steps under way still said
}

}  // namespace
}  // namespace thalweg::server
