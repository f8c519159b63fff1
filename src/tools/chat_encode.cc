#include "tools/chat_encode.h"

#include <fmt/format.h>

#include <algorithm>

namespace thalweg::tools {
namespace {

using base::Json;
using base::OptionKind;
using base::OptionRow;
using base::OptionValues;
using text::ChatOptions;
using Generation = ChatOptions::GenerationPrompt;

std::string_view StartName(text::OutputDecoderOptions::Start start) {
  using Start = text::OutputDecoderOptions::Start;
  switch (start) {
    case Start::kContent: return "content";
    case Start::kReasoning: return "reasoning";
    case Start::kContinuedContent: return "continued_content";
    case Start::kContinuedReasoning: return "continued_reasoning";
    case Start::kCalls: return "calls";
  }
  return "";
}

Generation GenerationOf(std::string_view name) {
  if (name == "never") return Generation::kNever;
  return name == "awaited" ? Generation::kAwaited : Generation::kAlways;
}

// What a flag says, if it was given.
void Overrule(const OptionValues& values, std::string_view name, bool* target) {
  if (values.Has(name)) *target = values.Flag(name);
}

// D1 to D6 of docs/chat.md.
ChatOptions StyleFrom(const OptionValues& values) {
  ChatOptions chat =
      values.Text("style") == "huggingface" ? ChatOptions::HuggingFace() : ChatOptions();
  Overrule(values, "drop-thinking", &chat.drop_thinking);
  Overrule(values, "unwrap-arguments", &chat.unwrap_arguments);
  if (values.Has("generation-prompt"))
    chat.generation_prompt = GenerationOf(values.Text("generation-prompt"));
  if (values.Has("reminders"))
    chat.reminder_place = values.Text("reminders") == "in-order"
                              ? ChatOptions::ReminderPlace::kInOrder
                              : ChatOptions::ReminderPlace::kAfterAssistant;
  if (values.Has("schemas"))
    chat.schema_text = values.Text("schemas") == "normalised" ? ChatOptions::SchemaText::kNormalised
                                                              : ChatOptions::SchemaText::kAsGiven;
  chat.image_token = values.Text("image-token");
  return chat;
}

// Messages alone are a body without other fields.
Result<text::ChatRequest> ReadBody(const Json& body) {
  if (!body.is_array()) return text::ReadChatRequest(body);
  return text::ReadChatRequest(Json{{"messages", body}});
}

Result<Json> ParseConversation(std::string_view text, std::string_view what) {
  return base::ParseJson(text, what, text::kChatJsonLimits);
}

// The first line alone is a document.
bool HasManyDocuments(std::string_view file) {
  const size_t end = file.find('\n');
  if (end == std::string_view::npos) return false;
  const bool more = file.find_first_not_of(" \t\r\n", end) != std::string_view::npos;
  return more && ParseConversation(file.substr(0, end), "line 1").ok();
}

}  // namespace

std::vector<OptionRow> ChatEncodeOptions::Rows() {
  return {
      {.name = "thinking",
       .kind = OptionKind::kFlag,
       .help = "whether the model thinks first; else as the conversation says, else yes"},
      {.name = "effort",
       .help = "how hard it thinks: minimal, low (50), medium, high, xhigh (75), max (100), a "
               "number 1..100, or none",
       .value_name = "EFFORT"},
      {.name = "style",
       .help = "where published encoders disagree: as a server, whose prompts only grow, or as "
               "the encoder on Hugging Face; the options below choose one by one",
       .fallback = "server",
       .choices = {"server", "huggingface"}},
      {.name = "drop-thinking",
       .kind = OptionKind::kFlag,
       .help = "leave out reasoning before the last turn of the user"},
      {.name = "generation-prompt",
       .help = "whether the prompt ends with the opening of an answer",
       .choices = {"always", "awaited", "never"}},
      {.name = "reminders",
       .help = "where a latest_reminder stands",
       .choices = {"in-order", "after-assistant"}},
      {.name = "schemas", .help = "how tools are written", .choices = {"normalised", "as-given"}},
      {.name = "unwrap-arguments",
       .kind = OptionKind::kFlag,
       .help = "take arguments that are a JSON string of an object as that object"},
      {.name = "image-token",
       .help = "token that stands for an image; else the one that the tokenizer has",
       .value_name = "TOKEN"},
      {.name = "force-calls",
       .kind = OptionKind::kFlag,
       .help = "end the prompt inside a block of tool calls"}};
}

Result<ChatEncodeOptions> ChatEncodeOptions::From(const OptionValues& values) {
  ChatEncodeOptions options;
  options.chat = StyleFrom(values);
  options.force_calls = values.Flag("force-calls");
  if (values.Has("thinking")) options.thinking = values.Flag("thinking");
  if (values.Has("effort")) {
    TW_ASSIGN(options.effort, text::ParseEffortChoice(values.Text("effort")));
  }
  return options;
}

Result<EncodedChat> EncodeConversation(const text::Tokenizer& tokenizer, const Json& body,
                                       const ChatEncodeOptions& options) {
  TW_ASSIGN(text::ChatRequest request, ReadBody(body));
  const text::EffortChoice effort =
      options.effort.value_or(request.effort.value_or(text::EffortChoice()));
  ChatOptions chat = options.chat;
  chat.thinking = options.thinking.value_or(effort.thinking);
  chat.effort = effort.effort;
  if (options.force_calls) request.conversation.tool_choice = text::ToolChoice::kForced;
  TW_ASSIGN(text::RenderedChat rendered, text::RenderChat(tokenizer, request.conversation, chat));
  return EncodedChat{.prompt = text::SpellPieces(tokenizer, rendered.pieces),
                     .ids = text::EncodePieces(tokenizer, rendered.pieces),
                     .images = std::move(rendered.images),
                     .start = std::string(StartName(rendered.start))};
}

Result<std::vector<Json>> ReadConversations(std::string_view file, std::string_view what) {
  std::vector<Json> out;
  if (!HasManyDocuments(file)) {
    TW_ASSIGN(out.emplace_back(), ParseConversation(file, what));
    return out;
  }
  int64_t line = 1;
  for (size_t begin = 0; begin < file.size(); ++line) {
    const size_t end = std::min(file.find('\n', begin), file.size());
    const std::string_view text = file.substr(begin, end - begin);
    begin = end + 1;
    if (text.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    TW_ASSIGN(Json one, ParseConversation(text, fmt::format("{} line {}", what, line)));
    out.push_back(std::move(one));
  }
  return out;
}

Json ToJson(const EncodedChat& chat) {
  return {{"prompt", chat.prompt},
          {"token_ids", chat.ids},
          {"images", chat.images},
          {"start", chat.start}};
}

}  // namespace thalweg::tools
