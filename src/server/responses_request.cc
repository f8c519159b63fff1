#include "server/responses_request.h"

#include <fmt/format.h>

#include "api/json_values.h"
#include "server/chat_parts.h"
#include "server/refusals.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

Status AddMessage(const Json& item, const std::string& what, MessageList* list) {
  TW_ASSIGN(std::string role, RequiredString(item, "role", what));
  if (role == "developer") role = "system";
  if (role != "assistant") list->EndMessage();
  TW_ASSIGN(const std::string text, TextOfBlocks(item.value("content", Json()), what + ".content"));
  list->AddText(role, text);
  if (role != "assistant") list->EndMessage();
  return {};
}

// Plain text of earlier reasoning, where the client kept it; the summary otherwise.
Status AddReasoning(const Json& item, const std::string& what, MessageList* list) {
  const Json* content = FindField(item, "content");
  if (content == nullptr || (content->is_array() && content->empty()))
    content = FindField(item, "summary");
  if (content == nullptr) return {};
  TW_ASSIGN(const std::string text, TextOfBlocks(*content, what));
  if (!text.empty()) list->AddReasoning(text);
  return {};
}

Status AddCall(const Json& item, const std::string& what, bool custom, MessageList* list) {
  TW_ASSIGN(const std::string id, RequiredString(item, "call_id", what));
  TW_ASSIGN(const std::string name, RequiredString(item, "name", what));
  TW_ASSIGN(const auto name_space, OptionalString(item, "namespace"));
  TW_ASSIGN(std::string arguments, RequiredString(item, custom ? "input" : "arguments", what));
  if (custom) arguments = Json{{kCustomInput, arguments}}.dump();
  list->AddCall(id, name, name_space.value_or(""), arguments);
  return {};
}

Status AddItem(const Json& item, const std::string& what, MessageList* list) {
  if (!item.is_object()) return api::WrongValue(item, what, "an object");
  TW_ASSIGN(const auto given, OptionalString(item, "type"));
  const std::string type = given.value_or("message");
  if (type == "message") return AddMessage(item, what, list);
  if (type == "reasoning") return AddReasoning(item, what, list);
  if (type == "function_call") return AddCall(item, what, false, list);
  if (type == "custom_tool_call") return AddCall(item, what, true, list);
  if (type == "function_call_output" || type == "custom_tool_call_output") {
    TW_ASSIGN(const std::string id, RequiredString(item, "call_id", what));
    TW_ASSIGN(std::string text, TextOfBlocks(item.value("output", Json()), what + ".output"));
    list->AddResult(id, Json(std::move(text)));
    return {};
  }
  return base::Unsupported(
      fmt::format("{}: items of type {} are not taken: this server keeps nothing and runs no tools",
                  what, type));
}

Result<Json> ReadInput(const Json& body) {
  MessageList list;
  TW_ASSIGN(const auto instructions, OptionalString(body, "instructions"));
  if (instructions.has_value()) list.AddText("system", *instructions);
  list.EndMessage();
  const Json* input = FindField(body, "input");
  if (input == nullptr) return base::InvalidArgument("input: is missing");
  if (input->is_string()) {
    list.AddText("user", input->get_ref<const std::string&>());
    return list.Take();
  }
  if (!input->is_array()) return api::WrongValue(*input, "input", "a string or an array of items");
  for (size_t i = 0; i < input->size(); ++i)
    TW_TRY(AddItem((*input)[i], fmt::format("input[{}]", i), &list));
  return list.Take();
}

// A tool whose input is free text, as a function of one string.
Json CustomTool(const Json& tool) {
  Json schema{{"type", "object"}, {"required", Json::array({kCustomInput})}};
  schema["properties"][std::string(kCustomInput)] = Json{{"type", "string"}};
  Json function;
  function["name"] = tool.value("name", Json());
  std::string description;
  if (const Json* text = FindField(tool, "description"); text != nullptr && text->is_string())
    description = text->get<std::string>();
  // The grammar of its input, where there is one, is told and not enforced.
  if (const Json* format = FindField(tool, "format");
      format != nullptr && format->is_object() && format->contains("definition")) {
    description += "\nThe input follows this grammar:\n" + (*format)["definition"].dump();
  }
  function["description"] = description;
  function["parameters"] = std::move(schema);
  return function;
}

Status AddTool(const Json& tool, const std::string& what, Json* out, ResponsesCall* call) {
  TW_ASSIGN(const std::string type, RequiredString(tool, "type", what));
  if (type == "function" || type == "namespace") {
    out->push_back(tool);
    return {};
  }
  if (type != "custom") {
    return base::Unsupported(
        fmt::format("{}: tools of type {} are not offered: this server runs no tools", what, type));
  }
  TW_ASSIGN(std::string name, RequiredString(tool, "name", what));
  call->custom_tools.push_back(std::move(name));
  out->push_back(CustomTool(tool));
  return {};
}

Status ReadTools(const Json& body, Json* chat, ResponsesCall* call) {
  const Json* tools = FindField(body, "tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) return api::WrongValue(*tools, "tools", "an array");
  Json out = Json::array();
  for (size_t i = 0; i < tools->size(); ++i)
    TW_TRY(AddTool((*tools)[i], fmt::format("tools[{}]", i), &out, call));
  AddToolPlaces(out, "tools", "parameters", &call->fields.tool_places);
  if (!out.empty()) (*chat)["tools"] = std::move(out);
  if (const Json* choice = FindField(body, "tool_choice"); choice != nullptr) {
    (*chat)["tool_choice"] = *choice;
    if (choice->is_object() && choice->value("type", Json()) == "custom")
      (*chat)["tool_choice"]["type"] = "function";
  }
  TW_ASSIGN(const auto parallel, OptionalBool(body, "parallel_tool_calls"));
  (*chat)["parallel_tool_calls"] = parallel.value_or(true);
  return {};
}

// text.format has the members of response_format.json_schema in itself.
Status ReadFormat(const Json& body, Json* chat) {
  const Json* text = FindField(body, "text");
  const Json* format = text != nullptr && text->is_object() ? FindField(*text, "format") : nullptr;
  if (format == nullptr) return {};
  TW_ASSIGN(const std::string type, RequiredString(*format, "type", "text.format"));
  if (type == "text") return {};
  (*chat)["response_format"]["type"] = type;
  if (type != "json_schema") return {};
  Json inner;
  for (const char* name : {"name", "description", "schema", "strict"}) {
    if (const Json* value = FindField(*format, name); value != nullptr) inner[name] = *value;
  }
  (*chat)["response_format"]["json_schema"] = std::move(inner);
  return {};
}

Status ReadEffort(const Json& body, Json* chat) {
  for (const char* name : {"reasoning_effort", "thinking"}) {
    if (const Json* value = FindField(body, name); value != nullptr) (*chat)[name] = *value;
  }
  const Json* reasoning = FindField(body, "reasoning");
  if (reasoning == nullptr) return {};
  if (!reasoning->is_object()) return api::WrongValue(*reasoning, "reasoning", "an object");
  if (const Json* effort = FindField(*reasoning, "effort"); effort != nullptr)
    (*chat)["reasoning_effort"] = *effort;
  return {};
}

Json Echoed(const Json& body) {
  Json json = Json::object();
  const auto copy = [&](const char* name, Json fallback) {
    const Json* value = FindField(body, name);
    json[name] = value == nullptr ? std::move(fallback) : *value;
  };
  copy("instructions", nullptr);
  copy("metadata", Json::object());
  copy("parallel_tool_calls", true);
  copy("temperature", 1.0);
  copy("top_p", 1.0);
  copy("tool_choice", "auto");
  copy("tools", Json::array());
  copy("max_output_tokens", nullptr);
  copy("previous_response_id", nullptr);
  copy("reasoning", Json{{"effort", nullptr}, {"summary", nullptr}});
  copy("text", Json{{"format", Json{{"type", "text"}}}});
  copy("truncation", "disabled");
  copy("user", nullptr);
  return json;
}

}  // namespace

Result<ResponsesCall> ReadResponsesCall(const Json& body, const Services& services) {
  TW_TRY(RefuseResponsesFields(body));
  ResponsesCall call;
  Json chat;
  TW_ASSIGN(chat["messages"], ReadInput(body));
  TW_TRY(ReadTools(body, &chat, &call));
  TW_TRY(ReadFormat(body, &chat));
  TW_TRY(ReadEffort(body, &chat));
  ChatFields& fields = call.fields;
  TW_ASSIGN(fields.chat, text::ReadChatRequest(chat));
  fields.params = services.model->RecommendedParams();
  TW_TRY(ReadSampling(body, &fields.params));
  if (fields.params.n != 1) return base::Unsupported("n: this protocol has one answer");
  TW_ASSIGN(const auto most, OptionalInteger(body, "max_output_tokens", 1, int64_t{1} << 40));
  fields.params.max_tokens.reset();
  if (most.has_value()) fields.params.max_tokens = *most;
  TW_TRY(ReadRequestOptions(body, &fields.options));
  TW_TRY(ReadCheckArguments(body, &fields));
  TW_ASSIGN(fields.stops, ReadStops(body, "stop"));
  const bool own_format = chat.contains("response_format");
  CopyStructure(body, &chat);
  TW_ASSIGN(fields.structure, ReadStructure(chat));
  if (own_format && fields.structure.field == "response_format")
    fields.structure.field = "text.format";
  TW_ASSIGN(const auto stream, OptionalBool(body, "stream"));
  call.stream = stream.value_or(false);
  call.echoed = Echoed(body);
  return call;
}

}  // namespace thalweg::server
