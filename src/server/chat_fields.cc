// The body of a chat completion as fields.
#include <fmt/format.h>

#include "api/json_values.h"
#include "server/chat_plan.h"
#include "server/refusals.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

constexpr int64_t kMaxTopLogprobs = 20;
constexpr int64_t kMaxCount = int64_t{1} << 40;

// max_completion_tokens is OpenAI's newer name.
Status ReadMaxTokens(const Json& body, SamplingParams* params) {
  params->max_tokens.reset();
  for (const char* name : {"max_tokens", "max_completion_tokens"}) {
    TW_ASSIGN(const auto most, OptionalInteger(body, name, 1, kMaxCount));
    if (most.has_value()) params->max_tokens = *most;
  }
  return {};
}

Status ReadLogprobs(const Json& body, SamplingParams* params) {
  TW_ASSIGN(const auto wanted, OptionalBool(body, "logprobs"));
  TW_ASSIGN(const auto top, OptionalInteger(body, "top_logprobs", 0, kMaxTopLogprobs));
  if (top.has_value() && !wanted.value_or(false))
    return base::InvalidArgument("top_logprobs needs \"logprobs\": true");
  if (wanted.value_or(false)) params->logprobs = static_cast<int>(top.value_or(0));
  return {};
}

// Beside "type", "thinking" may say how long.
Status ReadBudget(const Json& body, SamplingParams* params) {
  const Json* thinking = FindField(body, "thinking");
  if (thinking == nullptr || !thinking->is_object()) return {};
  TW_ASSIGN(const auto budget, OptionalInteger(*thinking, "budget_tokens", 0, kMaxCount));
  if (budget.has_value() && !params->thinking_budget.has_value()) params->thinking_budget = *budget;
  return {};
}

// vLLM's way of saying how a chat is written: whether it thinks is one of them, in two names.
Result<Json> ReadTemplateFields(const Json& body) {
  Json chat = body;
  const Json* kwargs = FindField(body, "chat_template_kwargs");
  if (kwargs == nullptr) return chat;
  if (!kwargs->is_object()) return api::WrongValue(*kwargs, "chat_template_kwargs", "an object");
  for (const auto& [name, value] : kwargs->items()) {
    const bool thinking = name == "thinking" || name == "enable_thinking";
    if (!thinking && name != "reasoning_effort")
      return base::Unsupported(fmt::format("chat_template_kwargs: there is no {}", name));
    const char* field = thinking ? "thinking" : "reasoning_effort";
    if (!value.is_null() && FindField(body, field) == nullptr) chat[field] = value;
  }
  return chat;
}

// Whether the last message is one to go on with, and whether an answer is begun behind it.
Status ReadEnding(const Json& body, ChatFields* fields) {
  TW_ASSIGN(const auto begun, OptionalBool(body, "add_generation_prompt"));
  TW_ASSIGN(const auto more, OptionalBool(body, "continue_final_message"));
  fields->generation_prompt = begun.value_or(true);
  if (!more.value_or(false)) return {};
  if (begun.value_or(false))
    return base::InvalidArgument(
        "continue_final_message: begins no answer of its own; leave "
        "add_generation_prompt out");
  text::ChatMessage& last = fields->chat.conversation.messages.back();
  if (last.role != text::Role::kAssistant)
    return base::InvalidArgument("continue_final_message: the last message is not an assistant's");
  last.to_be_continued = true;
  return {};
}

std::vector<ToolSchemaPlace> ToolPlaces(const Json& body) {
  std::vector<ToolSchemaPlace> places;
  constexpr std::string_view kSchema = "parameters";
  if (const Json* tools = FindField(body, "tools"); tools != nullptr)
    AddToolPlaces(*tools, "tools", kSchema, &places);
  const Json& messages = body["messages"];
  for (size_t i = 0; i < messages.size(); ++i) {
    const Json* tools = FindField(messages[i], "tools");
    if (tools != nullptr)
      AddToolPlaces(*tools, fmt::format("messages[{}].tools", i), kSchema, &places);
  }
  return places;
}

}  // namespace

Status ReadCheckArguments(const Json& body, ChatFields* fields) {
  TW_ASSIGN(const auto check, OptionalBool(body, "check_arguments"));
  fields->check_arguments = check.value_or(false);
  return {};
}

Result<ChatFields> ReadChatFields(const Json& body, const Services& services) {
  TW_TRY(RefuseChatFields(body));
  ChatFields fields;
  TW_ASSIGN(const Json chat, ReadTemplateFields(body));
  TW_ASSIGN(fields.chat, text::ReadChatRequest(chat));
  TW_TRY(ReadEnding(body, &fields));
  fields.tool_places = ToolPlaces(body);
  fields.params = services.model->RecommendedParams();
  TW_TRY(ReadSampling(body, &fields.params));
  TW_TRY(ReadMaxTokens(body, &fields.params));
  TW_TRY(ReadLogprobs(body, &fields.params));
  TW_TRY(ReadBudget(body, &fields.params));
  TW_TRY(ReadRequestOptions(body, &fields.options));
  TW_ASSIGN(fields.stops, ReadStops(body, "stop"));
  TW_ASSIGN(fields.structure, ReadStructure(body));
  TW_TRY(ReadCheckArguments(body, &fields));
  return fields;
}

}  // namespace thalweg::server
