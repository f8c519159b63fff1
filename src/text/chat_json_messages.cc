#include <fmt/format.h>

#include "text/chat_json.h"
#include "text/python_json.h"
#include "text/utf8.h"

namespace thalweg::text {
namespace {

using base::Json;

// OpenAI's chat writes {"url": ...}, its responses the URL itself.
Result<ContentBlock> ReadImage(const JsonField& block) {
  TW_ASSIGN(const JsonField image, block.Member("image_url"));
  ContentBlock out{.kind = ContentBlock::Kind::kImage};
  if (image.value().is_string()) {
    TW_ASSIGN(out.text, image.AsString());
    return out;
  }
  TW_ASSIGN(const JsonField url, image.Member("url"));
  TW_ASSIGN(out.text, url.AsString());
  return out;
}

Result<ContentBlock> ReadText(const JsonField& block, std::string_view field) {
  TW_ASSIGN(const JsonField text, block.Member(field));
  ContentBlock out;
  TW_ASSIGN(out.text, text.AsString());
  return out;
}

Result<ContentBlock> ReadBlock(const JsonField& block) {
  TW_ASSIGN(const JsonField type_field, block.Member("type"));
  const Json& type = type_field.value();
  if (type == "text" || type == "input_text" || type == "output_text")
    return ReadText(block, "text");
  if (type == "refusal") return ReadText(block, "refusal");
  if (type == "image_url" || type == "input_image") return ReadImage(block);
  return type_field.NotSupported(
      fmt::format("{} is not taken; use text or image_url", Excerpt(type.dump())));
}

// A string, or an object as libraries for local models keep it.
Result<std::string> ReadArguments(const JsonField& function) {
  TW_ASSIGN(const std::optional<JsonField> arguments, function.Optional("arguments"));
  if (!arguments) return std::string();
  if (arguments->value().is_object()) return PythonJson(arguments->value());
  return arguments->AsString();
}

Result<ToolCall> ReadCall(const JsonField& field) {
  ToolCall call;
  TW_ASSIGN(const std::optional<JsonField> type, field.Optional("type"));
  if (type && type->value() != "function")
    return field.NotSupported(
        fmt::format("calls of type {} are not taken", Excerpt(type->value().dump())));
  TW_ASSIGN(const JsonField id, field.Member("id"));
  TW_ASSIGN(call.id, id.AsString());
  if (call.id.size() > kMaxIdBytes)
    return id.Wrong(
        fmt::format("has {} bytes, but at most {} are taken", call.id.size(), kMaxIdBytes));
  TW_ASSIGN(call.name_space, field.StringOr("namespace", ""));
  TW_ASSIGN(const JsonField function, field.Member("function"));
  TW_ASSIGN(const JsonField name, function.Member("name"));
  TW_ASSIGN(call.name, name.AsString());
  TW_ASSIGN(call.arguments, ReadArguments(function));
  return call;
}

Result<std::vector<ToolCall>> ReadCalls(const JsonField& calls) {
  TW_TRY(CheckArray(calls, kMaxToolCalls));
  if (calls.value().empty()) return calls.Wrong("is empty; leave it out");
  std::vector<ToolCall> out;
  for (size_t i = 0; i < calls.value().size(); ++i) {
    TW_ASSIGN(ToolCall call, ReadCall(calls.Element(i)));
    out.push_back(std::move(call));
  }
  return out;
}

Result<Role> ReadRole(const JsonField& message) {
  TW_ASSIGN(const JsonField field, message.Member("role"));
  TW_ASSIGN(const std::string name, field.AsString());
  const Result<Role> role = ParseRole(name);
  return role.ok() ? role : Result<Role>(field.Wrong(role.status().message()));
}

// DeepSeek's API calls it prefix, the published encoder wo_eos.
Result<bool> ReadToBeContinued(const JsonField& message) {
  TW_ASSIGN(const bool prefix, message.BoolOr("prefix", false));
  TW_ASSIGN(const bool without_end, message.BoolOr("wo_eos", false));
  return prefix || without_end;
}

Result<std::string> ReadReasoning(const JsonField& message) {
  TW_ASSIGN(const std::string reasoning, message.StringOr("reasoning", ""));
  return message.StringOr("reasoning_content", reasoning);
}

Status ReadLists(const JsonField& message, ChatMessage* out) {
  TW_ASSIGN(const std::optional<JsonField> calls, message.Optional("tool_calls"));
  if (calls) {
    TW_ASSIGN(out->tool_calls, ReadCalls(*calls));
  }
  TW_ASSIGN(const std::optional<JsonField> tools, message.Optional("tools"));
  if (tools) {
    TW_ASSIGN(out->tools, ReadTools(*tools));
  }
  return {};
}

// What an answer may consist of that has no place in a prompt: read over, it would be lost.
Status CheckAnswer(const JsonField& message) {
  TW_ASSIGN(const std::optional<JsonField> call, message.Optional("function_call"));
  if (call) return call->NotSupported("is not taken; use tool_calls");
  TW_ASSIGN(const std::optional<JsonField> audio, message.Optional("audio"));
  if (audio) return audio->NotSupported("is not taken; send its text as content");
  return {};
}

// A refusal is what an answer says in the place of content.
Result<ChatContent> ReadSaid(const JsonField& message) {
  TW_ASSIGN(const std::optional<JsonField> content, message.Optional("content"));
  if (content) return ReadContent(*content);
  TW_ASSIGN(const std::optional<JsonField> refusal, message.Optional("refusal"));
  if (!refusal) return ChatContent();
  TW_ASSIGN(std::string text, refusal->AsString());
  return ChatContent(std::move(text));
}

Result<ChatMessage> ReadMessage(const JsonField& message) {
  ChatMessage out;
  TW_ASSIGN(out.role, ReadRole(message));
  TW_TRY(CheckAnswer(message));
  TW_ASSIGN(out.content, ReadSaid(message));
  TW_TRY(ReadLists(message, &out));
  TW_ASSIGN(out.tool_call_id, message.StringOr("tool_call_id", ""));
  TW_ASSIGN(out.to_be_continued, ReadToBeContinued(message));
  if (out.role != Role::kAssistant) return out;
  TW_ASSIGN(out.reasoning, ReadReasoning(message));
  return out;
}

}  // namespace

Result<ChatContent> ReadContent(const JsonField& content) {
  if (content.value().is_string()) return ChatContent(content.value().get<std::string>());
  if (!content.value().is_array()) return content.Wrong("must be a string or an array of blocks");
  TW_TRY(CheckArray(content, kMaxBlocks));
  ChatContent out;
  for (size_t i = 0; i < content.value().size(); ++i) {
    TW_ASSIGN(ContentBlock block, ReadBlock(content.Element(i)));
    out.blocks.push_back(std::move(block));
  }
  return out;
}

Result<std::vector<ChatMessage>> ReadMessages(const JsonField& messages) {
  TW_TRY(CheckArray(messages, kMaxMessages));
  std::vector<ChatMessage> out;
  for (size_t i = 0; i < messages.value().size(); ++i) {
    TW_ASSIGN(ChatMessage message, ReadMessage(messages.Element(i)));
    out.push_back(std::move(message));
  }
  return out;
}

}  // namespace thalweg::text
