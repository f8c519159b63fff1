#include "server/chat_plan.h"

#include <utility>

#include "server/services.h"
#include "text/chat_encoding.h"

namespace thalweg::server {
namespace {

using Kind = text::ToolSelection::Kind;
using Start = text::OutputDecoderOptions::Start;

Json ToolsJson(const std::vector<text::ToolDefinition>& tools) {
  Json json = Json::array();
  for (const text::ToolDefinition& tool : tools) {
    Json one;
    one["name"] = tool.FullName();
    one["parameters"] = tool.parameters;
    json.push_back(std::move(one));
  }
  return json;
}

bool AnyStrict(const std::vector<text::ToolDefinition>& tools) {
  for (const text::ToolDefinition& tool : tools) {
    if (tool.strict.value_or(false)) return true;
  }
  return false;
}

// Those of the request and those that messages declare.
std::vector<text::ToolDefinition> AllTools(const text::Conversation& conversation) {
  std::vector<text::ToolDefinition> tools = conversation.tools;
  for (const text::ChatMessage& message : conversation.messages)
    tools.insert(tools.end(), message.tools.begin(), message.tools.end());
  return tools;
}

// A structure of the grammar room that allows calls as `chat` selects them (docs/grammar.md).
Json CallsFormat(const text::ChatRequest& chat, bool required) {
  Json json;
  json["type"] = "tool_calls";
  json["tools"] = ToolsJson(AllTools(chat.conversation));
  json["parallel_tool_calls"] = chat.parallel_tool_calls;
  if (chat.selection.kind == Kind::kNamed) {
    json["tool_choice"] =
        Json{{"type", "function"}, {"function", Json{{"name", chat.selection.name}}}};
  } else {
    json["tool_choice"] = required ? "required" : "auto";
  }
  return json;
}

std::string Structural(Json format) {
  Json tag;
  tag["type"] = "structural_tag";
  tag["format"] = std::move(format);
  Json args;
  args["type"] = "structural";
  args["content"] = std::move(tag);
  return args.dump();
}

// Content under `so_args`, or a block of calls.
Result<std::string> ContentOrCalls(const std::string& so_args, const text::ChatRequest& chat) {
  TW_ASSIGN(Json content, base::ParseJson(so_args, "so_args"));
  Json either;
  either["type"] = "or";
  either["elements"] = Json::array({std::move(content), CallsFormat(chat, true)});
  return Structural(std::move(either));
}

// Calls bind the answer as soon as tools are there: structure always, arguments where schemas can
// be enforced. Only strict tools and required calls insist on it.
Status AddCalls(const ChatFields& fields, ChatPlan* plan) {
  const text::ChatRequest& chat = fields.chat;
  const bool forced = chat.selection.kind != Kind::kAuto;
  SamplingParams& params = plan->request.params;
  if (!params.so_args.empty() && !forced) {
    TW_ASSIGN(params.so_args, ContentOrCalls(params.so_args, chat));
    return {};
  }
  if (!params.so_args.empty())
    return base::InvalidArgument(
        "tool_choice asks for a call and response_format for an answer: give one of them");
  params.so_args = Structural(CallsFormat(chat, forced));
  plan->request.relaxed = !forced && !AnyStrict(AllTools(chat.conversation));
  return {};
}

bool BeginsWithReasoning(Start start) {
  return start == Start::kReasoning || start == Start::kContinuedReasoning;
}

}  // namespace

Result<ChatPlan> PlanChat(ChatFields fields, const Services& services) {
  text::Conversation& conversation = fields.chat.conversation;
  const text::EffortChoice effort =
      fields.chat.effort.value_or(text::EffortChoice{.thinking = services.options.thinking});
  text::ChatOptions options;
  options.thinking = effort.thinking;
  options.effort = effort.effort;
  options.drop_thinking = !services.options.keep_reasoning;
  const text::Tokenizer& tokenizer = services.model->tokenizer();
  TW_ASSIGN(const text::RenderedChat rendered, text::RenderChat(tokenizer, conversation, options));
  if (!rendered.images.empty())
    return base::Unsupported("images: this server reads text only; send the request without them");
  ChatPlan plan;
  plan.tools =
      !AllTools(conversation).empty() && conversation.tool_choice != text::ToolChoice::kNone;
  plan.thinking = BeginsWithReasoning(rendered.start);
  plan.request.prompt = text::EncodePieces(tokenizer, rendered.pieces);
  plan.request.params = std::move(fields.params);
  plan.request.params.so_args = fields.so_args;
  plan.request.params.skip_special_tokens = false;
  plan.request.options = std::move(fields.options);
  if (plan.tools) TW_TRY(AddCalls(fields, &plan));
  plan.decoder.start = rendered.start;
  plan.decoder.tools = plan.tools;
  // Stop strings act in content alone, which the engine cannot tell from reasoning and markup.
  plan.decoder.stop = std::move(fields.stops);
  plan.decoder.include_stop = plan.request.params.include_stop_str_in_output;
  plan.request.params.include_stop_str_in_output = false;
  return plan;
}

}  // namespace thalweg::server
