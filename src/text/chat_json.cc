#include "text/chat_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/utf8.h"

namespace thalweg::text {
namespace {

using base::Json;

Result<ToolChoice> ChoiceOf(const ToolSelection& selection, const Conversation& conversation) {
  if (selection.kind == ToolSelection::Kind::kNone) return ToolChoice::kNone;
  if (selection.kind == ToolSelection::Kind::kAuto) return ToolChoice::kAuto;
  const std::vector<ToolDefinition> tools = AllTools(conversation);
  if (tools.empty())
    return base::InvalidArgument("tool_choice: asks for a call, but there are no tools");
  const auto chosen = [&](const ToolDefinition& tool) { return tool.FullName() == selection.name; };
  if (selection.kind == ToolSelection::Kind::kNamed && std::ranges::none_of(tools, chosen))
    return base::InvalidArgument(
        fmt::format("tool_choice: there is no tool \"{}\"", Excerpt(selection.name)));
  return ToolChoice::kAuto;
}

// The JSON that the model is told to adhere to.
Result<Json> ReadResponseFormat(const JsonField& body) {
  TW_ASSIGN(const std::optional<JsonField> format, body.Optional("response_format"));
  if (!format) return Json();
  TW_ASSIGN(const JsonField type_field, format->Member("type"));
  const Json& type = type_field.value();
  if (type == "json_object") return Json{{"type", "json_object"}};
  if (type != "json_schema") return Json();
  TW_ASSIGN(const JsonField json_schema, format->Member("json_schema"));
  TW_ASSIGN(const std::optional<JsonField> schema, json_schema.Optional("schema"));
  return schema ? schema->value() : Json();
}

Result<EffortChoice> ReadEffortValue(const JsonField& effort) {
  const Json& value = effort.value();
  if (value.is_string()) {
    const Result<EffortChoice> named = ParseEffortName(value.get<std::string>());
    return named.ok() ? named : Result<EffortChoice>(effort.Wrong(named.status().message()));
  }
  if (!value.is_number_integer()) return effort.Wrong("must be a name or a whole number");
  // Values beyond the range of int are beyond that of efforts, too.
  const int64_t number = std::clamp<int64_t>(value.get<int64_t>(), -1, kMaxEffort + 1);
  const Status status = CheckEffort(static_cast<int>(number));
  if (!status.ok()) return effort.Wrong(status.message());
  return EffortChoice{.thinking = true, .effort = static_cast<int>(number)};
}

Result<bool> ReadThinking(const JsonField& thinking) {
  if (thinking.value().is_boolean()) return thinking.value().get<bool>();
  TW_ASSIGN(const JsonField type_field, thinking.Member("type"));
  const Json& type = type_field.value();
  if (type == "enabled") return true;
  if (type == "disabled") return false;
  return type_field.Wrong("must be enabled or disabled");
}

Status CheckImageCount(const std::vector<ChatMessage>& messages) {
  size_t images = 0;
  for (const ChatMessage& message : messages) {
    for (const ContentBlock& block : message.content.blocks)
      images += block.kind == ContentBlock::Kind::kImage ? 1 : 0;
  }
  if (images <= kMaxImages) return {};
  return base::InvalidArgument(
      fmt::format("messages: {} images, but at most {} are taken", images, kMaxImages));
}

}  // namespace

Status CheckArray(const JsonField& field, size_t most) {
  TW_TRY(field.RequireArray());
  const size_t size = field.value().size();
  if (size <= most) return {};
  return field.Wrong(fmt::format("has {} elements, but at most {} are taken", size, most));
}

Result<ChatRequest> ReadChatRequest(const Json& body) {
  const JsonField root(body, "");
  if (!body.is_object()) return base::InvalidArgument("the request must be a JSON object");
  ChatRequest request;
  Conversation& conversation = request.conversation;
  TW_ASSIGN(const JsonField messages, root.Member("messages"));
  TW_ASSIGN(conversation.messages, ReadMessages(messages));
  TW_TRY(CheckImageCount(conversation.messages));
  TW_ASSIGN(const std::optional<JsonField> tools, root.Optional("tools"));
  if (tools) {
    TW_ASSIGN(conversation.tools, ReadTools(*tools));
  }
  TW_ASSIGN(const std::optional<JsonField> choice, root.Optional("tool_choice"));
  if (choice) {
    TW_ASSIGN(request.selection, ReadToolChoice(*choice));
  }
  TW_ASSIGN(conversation.tool_choice, ChoiceOf(request.selection, conversation));
  TW_ASSIGN(request.parallel_tool_calls, root.BoolOr("parallel_tool_calls", true));
  TW_ASSIGN(conversation.response_format, ReadResponseFormat(root));
  TW_ASSIGN(request.effort, ReadEffort(root));
  TW_TRY(ValidateConversation(conversation, /*answered=*/false));
  return request;
}

Result<std::optional<EffortChoice>> ReadEffort(const JsonField& body) {
  std::optional<EffortChoice> choice;
  TW_ASSIGN(const std::optional<JsonField> effort, body.Optional("reasoning_effort"));
  if (effort) {
    TW_ASSIGN(choice, ReadEffortValue(*effort));
  }
  TW_ASSIGN(const std::optional<JsonField> thinking, body.Optional("thinking"));
  if (!thinking) return choice;
  TW_ASSIGN(const bool enabled, ReadThinking(*thinking));
  if (!choice) choice.emplace();
  choice->thinking = enabled;
  return choice;
}

}  // namespace thalweg::text
