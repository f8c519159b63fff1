// POST /v1/messages and /v1/messages/count_tokens: Anthropic's protocol.
#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "server/chat_reply.h"
#include "server/endpoints.h"
#include "server/handle.h"
#include "server/messages_request.h"
#include "server/openai_json.h"
#include "server/services.h"
#include "server/sse.h"

namespace thalweg::server {
namespace {

// Clients send the signature of a thinking block back; nothing is proved by it here.
constexpr std::string_view kSignature = "thalweg";

std::string StopReason(const ChatChoice& choice) {
  const text::OutputEnd& end = choice.answer.end;
  if (!end.stop_string.empty()) return "stop_sequence";
  switch (end.reason) {
    case text::OutputReason::kStop: return "end_turn";
    case text::OutputReason::kLength: return "max_tokens";
    case text::OutputReason::kToolCalls: return "tool_use";
    case text::OutputReason::kCancelled:
    case text::OutputReason::kError: return "abort";
  }
  return "abort";
}

// Arguments as an object; those that were cut off are what they are: a text.
Json InputOf(const text::DecodedCall& call) {
  const Result<Json> parsed = base::ParseJson(call.arguments, "arguments");
  return parsed.ok() ? *parsed : Json{{"arguments", call.arguments}};
}

class MessagesReply final : public ChatReply {
 public:
  MessagesReply(AnswerHead head, const ChatPlan& plan, int64_t prompt_tokens, bool stream,
                std::vector<text::TokenOutputDecoder> decoders, const text::Tokenizer* tokenizer,
                Metrics* metrics)
      : ChatReply(std::move(decoders), plan, tokenizer, metrics),
        head_(std::move(head)),
        prompt_tokens_(prompt_tokens),
        stream_(stream) {}

  void Begin(std::string* out) override {
    Json message = Head();
    message["content"] = Json::array();
    message["stop_reason"] = nullptr;
    message["stop_sequence"] = nullptr;
    message["usage"] = UsageOf({.prompt = prompt_tokens_});
    Json event;
    event["type"] = "message_start";
    event["message"] = std::move(message);
    Send("message_start", event, out);
    Send("ping", Json{{"type", "ping"}}, out);
  }

  void End(std::string* out) override {
    const ChatChoice& choice = choices().front();
    if (!stream_) {
      *out = DumpOneLine(Body(choice));
      return;
    }
    Json event;
    event["type"] = "message_delta";
    event["delta"] = EndJson(choice);
    event["usage"] = UsageOf(usage());
    if (!choice.tool_errors.empty()) event["tool_errors"] = ToolErrorsJson(choice.tool_errors);
    Send("message_delta", event, out);
    Send("message_stop", Json{{"type", "message_stop"}}, out);
  }

  void Fail(const ApiError& error, std::string* out) override {
    AppendErrorEvent(error, Dialect::kAnthropic, out);
  }

  std::string finish_reason() const override { return StopReason(choices().front()); }

 private:
  enum class Block : uint8_t { kNone, kThinking, kText, kTool };

  void OnEvents(size_t, const text::OutputEvents& events, std::string* out) override {
    if (!stream_) return;
    for (const text::OutputEvent& event : events)
      std::visit([&](const auto& one) { Write(one, out); }, event);
  }

  void Write(const text::ReasoningText& event, std::string* out) {
    Open(Block::kThinking, Json{{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
    WriteDelta("thinking_delta", "thinking", event.text, out);
  }
  void Write(const text::ContentText& event, std::string* out) {
    Open(Block::kText, Json{{"type", "text"}, {"text", ""}}, out);
    WriteDelta("text_delta", "text", event.text, out);
  }
  void Write(const text::CallBegin& event, std::string* out) {
    CloseBlock(out);
    Json block{{"type", "tool_use"}, {"id", event.id}, {"name", event.name}};
    block["input"] = Json::object();
    Open(Block::kTool, std::move(block), out);
  }
  void Write(const text::CallArguments& event, std::string* out) {
    WriteDelta("input_json_delta", "partial_json", event.text, out);
  }
  void Write(const text::CallEnd&, std::string* out) { CloseBlock(out); }
  void Write(const text::OutputEnd&, std::string* out) { CloseBlock(out); }

  void Open(Block block, Json content, std::string* out) {
    if (block_ == block) return;
    CloseBlock(out);
    block_ = block;
    Json event;
    event["type"] = "content_block_start";
    event["index"] = index_;
    event["content_block"] = std::move(content);
    Send("content_block_start", event, out);
  }

  void CloseBlock(std::string* out) {
    if (block_ == Block::kNone) return;
    if (block_ == Block::kThinking) WriteDelta("signature_delta", "signature", kSignature, out);
    block_ = Block::kNone;
    Send("content_block_stop", Json{{"type", "content_block_stop"}, {"index", index_++}}, out);
  }

  // The path of every token: no JSON document is built.
  void WriteDelta(std::string_view type, std::string_view member, std::string_view text,
                  std::string* out) {
    line_.clear();
    fmt::format_to(std::back_inserter(line_),
                   R"({{"type":"content_block_delta","index":{},"delta":{{"type":"{}","{}":)",
                   index_, type, member);
    AppendJsonString(text, &line_);
    line_ += "}}";
    AppendNamedEvent("content_block_delta", line_, out);
  }

  static void Send(std::string_view name, const Json& event, std::string* out) {
    AppendNamedEvent(name, DumpOneLine(event), out);
  }

  Json Head() const {
    Json json;
    json["id"] = head_.id;
    json["type"] = "message";
    json["role"] = "assistant";
    json["model"] = head_.model;
    return json;
  }

  // Input tokens are those that did not come from the cache.
  static Json UsageOf(const Usage& usage) {
    Json json;
    json["input_tokens"] = usage.prompt - usage.cached;
    json["cache_creation_input_tokens"] = 0;
    json["cache_read_input_tokens"] = usage.cached;
    json["output_tokens"] = usage.completion;
    json["service_tier"] = "standard";
    return json;
  }

  static Json EndJson(const ChatChoice& choice) {
    const std::string& stop = choice.answer.end.stop_string;
    Json json;
    json["stop_reason"] = StopReason(choice);
    json["stop_sequence"] = stop.empty() ? Json() : Json(stop);
    return json;
  }

  Json Body(const ChatChoice& choice) {
    const text::DecodedOutput& answer = choice.answer;
    Json content = Json::array();
    if (!answer.reasoning.empty()) {
      content.push_back(
          Json{{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", kSignature}});
    }
    if (!answer.content.empty())
      content.push_back(Json{{"type", "text"}, {"text", answer.content}});
    for (const text::DecodedCall& call : answer.calls) {
      content.push_back(Json{
          {"type", "tool_use"}, {"id", call.id}, {"name", call.name}, {"input", InputOf(call)}});
    }
    Json json = Head();
    json["content"] = std::move(content);
    json.update(EndJson(choice));
    json["usage"] = UsageOf(usage());
    if (!choice.tool_errors.empty()) json["tool_errors"] = ToolErrorsJson(choice.tool_errors);
    return json;
  }

  AnswerHead head_;
  int64_t prompt_tokens_;
  bool stream_;
  Block block_ = Block::kNone;
  int index_ = 0;  // of the block
  std::string line_;
};

Result<Generation> MakeGeneration(const Json& body, const HttpRequest& request,
                                  Services& services) {
  TW_ASSIGN(MessagesCall call, ReadMessagesCall(body, services, false));
  TW_ASSIGN(ChatPlan plan, PlanChat(std::move(call.fields), services));
  const text::Tokenizer& tokenizer = services.model->tokenizer();
  TW_ASSIGN(auto decoders,
            ChatReply::MakeDecoders(plan, tokenizer, fmt::format("toolu_{}_", request.id)));
  const auto tokens =
      static_cast<int64_t>(std::get<std::vector<int32_t>>(plan.request.prompt).size());
  Generation generation{.stream = call.stream};
  generation.reply = std::make_unique<MessagesReply>(
      AnswerHead::Make("msg_", request.id, services.model->name()), plan, tokens, call.stream,
      std::move(decoders), &tokenizer, &services.metrics);
  generation.requests.push_back(std::move(plan.request));
  return generation;
}

Result<HttpResponse> CountTokens(const Json& body, Services& services) {
  TW_ASSIGN(MessagesCall call, ReadMessagesCall(body, services, true));
  TW_ASSIGN(const ChatPlan plan, PlanChat(std::move(call.fields), services));
  const size_t tokens = std::get<std::vector<int32_t>>(plan.request.prompt).size();
  return HttpResponse{.body = Json{{"input_tokens", tokens}}.dump()};
}

}  // namespace

Outcome HandleMessages(const HttpRequest& request, Services& services) {
  return HandleBody(request, services,
                    [&](const Json& body) { return MakeGeneration(body, request, services); });
}

Outcome HandleCountTokens(const HttpRequest& request, Services& services) {
  return HandleBody(request, services,
                    [&](const Json& body) { return CountTokens(body, services); });
}

}  // namespace thalweg::server
