#include "server/messages_request.h"

#include <fmt/format.h>

#include "api/json_values.h"
#include "server/chat_parts.h"
#include "server/refusals.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

Status ReadBlock(const std::string& role, const Json& block, const std::string& what,
                 MessageList* list) {
  TW_ASSIGN(const std::string type, RequiredString(block, "type", what));
  if (type == "text") {
    TW_ASSIGN(const std::string text, RequiredString(block, "text", what));
    list->AddText(role, text);
    return {};
  }
  if (type == "thinking") {
    TW_ASSIGN(const std::string text, RequiredString(block, "thinking", what));
    list->AddReasoning(text);
    return {};
  }
  if (type == "redacted_thinking") return {};  // nothing that could be read
  if (type == "tool_use") {
    TW_ASSIGN(const std::string id, RequiredString(block, "id", what));
    TW_ASSIGN(const std::string name, RequiredString(block, "name", what));
    list->AddCall(id, name, "", block.value("input", Json::object()).dump());
    return {};
  }
  if (type == "tool_result") {
    TW_ASSIGN(const std::string id, RequiredString(block, "tool_use_id", what));
    TW_ASSIGN(std::string text, TextOfBlocks(block.value("content", Json()), what + ".content"));
    list->AddResult(id, Json(std::move(text)));
    return {};
  }
  return base::Unsupported(
      fmt::format("{}: blocks of type {} are not taken: this server reads text", what, type));
}

Status ReadMessage(const Json& message, const std::string& what, MessageList* list) {
  TW_ASSIGN(const std::string role, RequiredString(message, "role", what));
  if (role != "user" && role != "assistant" && role != "system")
    return base::InvalidArgument(
        fmt::format("{}.role: \"{}\" is none of user, assistant, system", what, role));
  list->EndMessage();
  const Json* content = FindField(message, "content");
  if (content == nullptr) return base::InvalidArgument(what + ": content is missing");
  if (content->is_string()) {
    list->AddText(role, content->get_ref<const std::string&>());
    return {};
  }
  if (!content->is_array()) return api::WrongValue(*content, what, "a string or an array");
  for (size_t i = 0; i < content->size(); ++i)
    TW_TRY(ReadBlock(role, (*content)[i], fmt::format("{}.content[{}]", what, i), list));
  return {};
}

Result<Json> ReadTools(const Json& tools) {
  if (!tools.is_array()) return api::WrongValue(tools, "tools", "an array");
  Json out = Json::array();
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string what = fmt::format("tools[{}]", i);
    const Json& tool = tools[i];
    TW_ASSIGN(const std::string name, RequiredString(tool, "name", what));
    if (tool.value("type", Json("custom")) != "custom") {
      return base::Unsupported(fmt::format(
          "{}: tools that run at the server are not offered; describe the tool with input_schema",
          what));
    }
    Json function;
    function["name"] = name;
    function["description"] = tool.value("description", Json(""));
    function["parameters"] = tool.value("input_schema", Json::object());
    if (FindField(tool, "strict") != nullptr) function["strict"] = tool["strict"];
    out.push_back(Json{{"type", "function"}, {"function", std::move(function)}});
  }
  return out;
}

Status ReadChoice(const Json& choice, Json* chat) {
  TW_ASSIGN(const std::string type, RequiredString(choice, "type", "tool_choice"));
  if (type == "tool") {
    TW_ASSIGN(const std::string name, RequiredString(choice, "name", "tool_choice"));
    (*chat)["tool_choice"] = Json{{"type", "function"}, {"function", Json{{"name", name}}}};
  } else if (type == "auto" || type == "none") {
    (*chat)["tool_choice"] = type;
  } else if (type == "any") {
    (*chat)["tool_choice"] = "required";
  } else {
    return base::InvalidArgument(
        fmt::format("tool_choice.type: \"{}\" is none of auto, any, tool, none", type));
  }
  TW_ASSIGN(const auto one, OptionalBool(choice, "disable_parallel_tool_use"));
  (*chat)["parallel_tool_calls"] = !one.value_or(false);
  return {};
}

// "thinking" and "output_config.effort".
Status ReadThinking(const Json& body, Json* chat, SamplingParams* params) {
  if (const Json* effort = FindField(body, "reasoning_effort"); effort != nullptr)
    (*chat)["reasoning_effort"] = *effort;
  const Json* config = FindField(body, "output_config");
  if (config != nullptr) {
    TW_ASSIGN(const auto effort, OptionalString(*config, "effort"));
    if (effort.has_value()) (*chat)["reasoning_effort"] = *effort;
  }
  const Json* thinking = FindField(body, "thinking");
  if (thinking == nullptr) return {};
  TW_ASSIGN(const std::string type, RequiredString(*thinking, "type", "thinking"));
  if (type != "enabled" && type != "disabled" && type != "adaptive") {
    return base::InvalidArgument(
        fmt::format("thinking.type: \"{}\" is none of enabled, disabled, adaptive", type));
  }
  (*chat)["thinking"] = Json{{"type", type == "disabled" ? "disabled" : "enabled"}};
  TW_ASSIGN(const auto budget, OptionalInteger(*thinking, "budget_tokens", 1, int64_t{1} << 40));
  if (budget.has_value() && type == "enabled") params->thinking_budget = *budget;
  return {};
}

std::string FormatField(const Json& body) {
  for (const char* name : {"response_format", "output_format"}) {
    if (FindField(body, name) != nullptr) return name;
  }
  return "output_config.format";
}

// output_config.format, or output_format as it was called before.
Status ReadFormat(const Json& body, Json* chat) {
  const Json* config = FindField(body, "output_config");
  const Json* format = config == nullptr ? nullptr : FindField(*config, "format");
  if (format == nullptr) format = FindField(body, "output_format");
  if (format == nullptr) return {};
  TW_ASSIGN(const std::string type, RequiredString(*format, "type", "output_config.format"));
  const Json* schema = FindField(*format, "schema");
  if (type != "json_schema" || schema == nullptr) {
    return base::InvalidArgument(
        R"(output_config.format must be {"type": "json_schema", "schema": {...}})");
  }
  Json named{{"name", "answer"}, {"schema", *schema}};
  (*chat)["response_format"] = Json{{"type", "json_schema"}, {"json_schema", std::move(named)}};
  return {};
}

Result<Json> ReadConversation(const Json& body) {
  const Json* messages = FindField(body, "messages");
  if (messages == nullptr || !messages->is_array())
    return base::InvalidArgument("messages: must be an array of messages");
  MessageList list;
  if (const Json* system = FindField(body, "system"); system != nullptr) {
    TW_ASSIGN(const std::string text, TextOfBlocks(*system, "system"));
    list.AddText("system", text);
  }
  for (size_t i = 0; i < messages->size(); ++i)
    TW_TRY(ReadMessage((*messages)[i], fmt::format("messages[{}]", i), &list));
  Json chat;
  chat["messages"] = list.Take();
  return chat;
}

Status ReadLengths(const Json& body, bool counting, SamplingParams* params) {
  TW_ASSIGN(const auto most, OptionalInteger(body, "max_tokens", 1, int64_t{1} << 40));
  if (!most.has_value() && !counting)
    return base::InvalidArgument("max_tokens: is missing; how long may the answer be?");
  params->max_tokens.reset();
  if (most.has_value()) params->max_tokens = *most;
  return {};
}

}  // namespace

Result<MessagesCall> ReadMessagesCall(const Json& body, const Services& services, bool counting) {
  MessagesCall call;
  ChatFields& fields = call.fields;
  fields.params = services.model->RecommendedParams();
  TW_TRY(RefuseMessagesFields(body));
  TW_ASSIGN(Json chat, ReadConversation(body));
  if (const Json* tools = FindField(body, "tools"); tools != nullptr) {
    TW_ASSIGN(chat["tools"], ReadTools(*tools));
    AddToolPlaces(*tools, "tools", "input_schema", &fields.tool_places);
  }
  if (const Json* choice = FindField(body, "tool_choice"); choice != nullptr)
    TW_TRY(ReadChoice(*choice, &chat));
  TW_TRY(ReadThinking(body, &chat, &fields.params));
  TW_TRY(ReadFormat(body, &chat));
  TW_ASSIGN(fields.chat, text::ReadChatRequest(chat));
  TW_TRY(ReadSampling(body, &fields.params));
  if (fields.params.n != 1) return base::Unsupported("n: this protocol has one answer");
  TW_TRY(ReadLengths(body, counting, &fields.params));
  TW_TRY(ReadRequestOptions(body, &fields.options));
  TW_TRY(ReadCheckArguments(body, &fields));
  TW_ASSIGN(fields.stops, ReadStops(body, "stop_sequences"));
  CopyStructure(body, &chat);
  TW_ASSIGN(fields.structure, ReadStructure(chat));
  if (fields.structure.field == "response_format") fields.structure.field = FormatField(body);
  TW_ASSIGN(const auto stream, OptionalBool(body, "stream"));
  call.stream = stream.value_or(false);
  return call;
}

}  // namespace thalweg::server
