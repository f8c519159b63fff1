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

// A structure of the grammar room that allows calls as `chat` selects them (docs/grammar.md).
Json CallsFormat(const text::ChatRequest& chat, bool required) {
  Json json;
  json["type"] = "tool_calls";
  json["tools"] = ToolsJson(text::AllTools(chat.conversation));
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
  plan->request.relaxed = !forced && !AnyStrict(text::AllTools(chat.conversation));
  return {};
}

bool BeginsWithReasoning(Start start) {
  return start == Start::kReasoning || start == Start::kContinuedReasoning;
}

// What stands before a continued answer was not sampled.
bool Continues(Start start) {
  return start == Start::kContinuedContent || start == Start::kContinuedReasoning;
}

text::ChatOptions RenderOptions(const ChatFields& fields, const ServerOptions& server) {
  const text::EffortChoice effort =
      fields.chat.effort.value_or(text::EffortChoice{.thinking = server.thinking});
  text::ChatOptions options;
  options.thinking = effort.thinking;
  options.effort = effort.effort;
  options.drop_thinking = !server.keep_reasoning;
  if (!fields.generation_prompt)
    options.generation_prompt = text::ChatOptions::GenerationPrompt::kNever;
  return options;
}

// Stop strings act in content alone, which the engine cannot tell from reasoning and markup.
void SetDecoder(std::vector<std::string> stops, Start start, bool calls_in_reasoning,
                ChatPlan* plan) {
  plan->decoder.start = start;
  plan->decoder.tools = plan->tools;
  plan->decoder.calls_in_reasoning = calls_in_reasoning;
  plan->decoder.stop = std::move(stops);
  plan->decoder.include_stop = plan->request.params.include_stop_str_in_output;
  plan->request.params.include_stop_str_in_output = false;
}

Status AddTools(ChatFields* fields, Services& services, ChatPlan* plan) {
  TW_TRY(AddCalls(*fields, plan));
  const bool all = services.options.check_arguments || fields->check_arguments;
  TW_ASSIGN(plan->checks, ToolChecks::Make(text::AllTools(fields->chat.conversation), all,
                                           fields->tool_places, &services.checks));
  if (services.options.repeat_turns > 0 && !Continues(plan->decoder.start))
    plan->turns = &services.turns;
  plan->request.source.tools = std::move(fields->tool_places);
  return {};
}

}  // namespace

Result<ChatPlan> PlanChat(ChatFields fields, Services& services) {
  text::Conversation& conversation = fields.chat.conversation;
  const text::Tokenizer& tokenizer = services.model->tokenizer();
  services.turns.Restore(&conversation);
  TW_ASSIGN(const text::RenderedChat rendered,
            text::RenderChat(tokenizer, conversation, RenderOptions(fields, services.options)));
  if (!rendered.images.empty())
    return base::Unsupported(
        "messages: images are not taken: this server reads text; send the request without them");
  ChatPlan plan;
  plan.tools =
      !text::AllTools(conversation).empty() && conversation.tool_choice != text::ToolChoice::kNone;
  plan.thinking = BeginsWithReasoning(rendered.start);
  ModelRequest& request = plan.request;
  request.prompt = text::EncodePieces(tokenizer, rendered.pieces);
  request.params = std::move(fields.params);
  request.params.so_args = std::move(fields.structure.args);
  request.params.skip_special_tokens = false;
  request.options = std::move(fields.options);
  request.source.field = std::move(fields.structure.field);
  SetDecoder(std::move(fields.stops), rendered.start, services.options.calls_in_reasoning, &plan);
  if (plan.tools) TW_TRY(AddTools(&fields, services, &plan));
  return plan;
}

}  // namespace thalweg::server
