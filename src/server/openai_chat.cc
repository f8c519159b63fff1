// POST /v1/chat/completions.
#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "server/chat_reply.h"
#include "server/endpoints.h"
#include "server/handle.h"
#include "server/openai_json.h"
#include "server/services.h"
#include "server/sse.h"

namespace thalweg::server {
namespace {

constexpr std::string_view kChunk = "chat.completion.chunk";

struct ChatShape {
  StreamFields stream = {};
  bool thinking = false;
  bool logprobs = false;
};

class OpenAiChatReply final : public ChatReply {
 public:
  OpenAiChatReply(AnswerHead head, const ChatPlan& plan, const ChatShape& shape,
                  std::vector<text::TokenOutputDecoder> decoders, const text::Tokenizer* tokenizer,
                  Metrics* metrics)
      : ChatReply(std::move(decoders), plan, tokenizer, metrics),
        head_(std::move(head)),
        open_(head_.Open(kChunk)),
        shape_(shape) {}

  void Begin(std::string* out) override {
    const std::string_view delta =
        shape_.thinking ? R"({"role":"assistant","content":null,"reasoning_content":""})"
                        : R"({"role":"assistant","content":""})";
    for (size_t i = 0; i < choices().size(); ++i) WriteChunk(i, delta, {}, out);
  }

  void End(std::string* out) override {
    if (!shape_.stream.stream) {
      *out = DumpOneLine(Body());
      return;
    }
    if (shape_.stream.include_usage) {
      std::string json =
          open_ + R"(,"choices":[],"usage":)" + DumpOneLine(UsageJson(usage())) + "}";
      AppendEvent(json, out);
    }
    out->append(kDoneEvent);
  }

 private:
  void OnEvents(size_t index, const text::OutputEvents& events, std::string* out) override {
    if (!shape_.stream.stream) return;
    for (const text::OutputEvent& event : events) {
      delta_.clear();
      std::visit([&](const auto& one) { WriteDelta(one); }, event);
      const auto* end = std::get_if<text::OutputEnd>(&event);
      if (!delta_.empty()) WriteChunk(index, delta_, end == nullptr ? "" : Finish(index), out);
    }
  }

  std::string Finish(size_t index) { return FinishName(choices()[index]); }

  // In thinking mode both texts are in every delta, one of them null.
  void WriteDelta(const text::ReasoningText& event) {
    delta_ = R"({"content":null,"reasoning_content":)";
    AppendJsonString(event.text, &delta_);
    delta_ += '}';
  }
  void WriteDelta(const text::ContentText& event) {
    delta_ = R"({"content":)";
    AppendJsonString(event.text, &delta_);
    delta_ += shape_.thinking ? R"(,"reasoning_content":null})" : "}";
  }
  void WriteDelta(const text::CallBegin& event) {
    fmt::format_to(std::back_inserter(delta_), R"({{"tool_calls":[{{"index":{},"id":"{}",)",
                   event.index, event.id);
    delta_ += R"("type":"function","function":{"name":)";
    AppendJsonString(event.name, &delta_);
    delta_ += R"(,"arguments":""}}]})";
  }
  void WriteDelta(const text::CallArguments& event) {
    fmt::format_to(std::back_inserter(delta_),
                   R"({{"tool_calls":[{{"index":{},"function":{{"arguments":)", event.index);
    AppendJsonString(event.text, &delta_);
    delta_ += "}}]}";
  }
  void WriteDelta(const text::CallEnd&) {}
  void WriteDelta(const text::OutputEnd&) { delta_ = R"({"content":""})"; }

  Json LogprobsJson(size_t index) {
    ChatChoice& choice = choices()[index];
    Json json;
    json["content"] = Json::array();
    for (const PositionLogprobs& one : std::exchange(choice.content_logprobs, {}))
      json["content"].push_back(ChatLogprobJson(one, tokenizer()));
    if (shape_.thinking) {
      json["reasoning_content"] = Json::array();
      for (const PositionLogprobs& one : std::exchange(choice.reasoning_logprobs, {}))
        json["reasoning_content"].push_back(ChatLogprobJson(one, tokenizer()));
    }
    return json;
  }

  bool AllFinished() {
    for (const ChatChoice& choice : choices()) {
      if (!choice.finished) return false;
    }
    return true;
  }

  // OpenAI's form of usage is a chunk of its own, asked for; DeepSeek's is in the last chunk.
  void WriteUsage(const std::string& finish, std::string* json) {
    if (shape_.stream.usage_each ||
        (!finish.empty() && !shape_.stream.usage_said && AllFinished())) {
      *json += R"(,"usage":)" + DumpOneLine(UsageJson(usage()));
    } else if (!shape_.stream.usage_said || shape_.stream.include_usage) {
      *json += R"(,"usage":null)";
    }
  }

  void WriteChunk(size_t index, std::string_view delta, const std::string& finish,
                  std::string* out) {
    chunk_ = open_;
    fmt::format_to(std::back_inserter(chunk_), R"(,"choices":[{{"index":{},"delta":)", index);
    chunk_.append(delta);
    chunk_ += R"(,"logprobs":)";
    chunk_ += shape_.logprobs ? DumpOneLine(LogprobsJson(index)) : "null";
    chunk_ += R"(,"finish_reason":)";
    chunk_ += finish.empty() ? "null" : '"' + finish + '"';
    if (!choices()[index].tool_errors.empty())
      chunk_ += R"(,"tool_errors":)" + DumpOneLine(ToolErrorsJson(choices()[index].tool_errors));
    chunk_ += "}]";
    WriteUsage(finish, &chunk_);
    chunk_ += '}';
    AppendEvent(chunk_, out);
  }

  Json MessageJson(const text::DecodedOutput& answer) const {
    Json json;
    json["role"] = "assistant";
    const bool null = answer.content.empty() && !answer.calls.empty();
    json["content"] = null ? Json() : Json(answer.content);
    if (shape_.thinking) json["reasoning_content"] = answer.reasoning;
    for (const text::DecodedCall& call : answer.calls) {
      Json one;
      one["id"] = call.id;
      one["type"] = "function";
      one["function"] = Json{{"name", call.name}, {"arguments", call.arguments}};
      json["tool_calls"].push_back(std::move(one));
    }
    return json;
  }

  Json Body() {
    Json json = head_.ToJson("chat.completion");
    json["choices"] = Json::array();
    for (size_t i = 0; i < choices().size(); ++i) {
      Json one;
      one["index"] = i;
      one["message"] = MessageJson(choices()[i].answer);
      one["logprobs"] = shape_.logprobs ? LogprobsJson(i) : Json();
      one["finish_reason"] = Finish(i);
      if (!choices()[i].tool_errors.empty())
        one["tool_errors"] = ToolErrorsJson(choices()[i].tool_errors);
      json["choices"].push_back(std::move(one));
    }
    json["usage"] = UsageJson(usage());
    return json;
  }

  AnswerHead head_;
  std::string open_;
  ChatShape shape_;
  std::string delta_, chunk_;  // reused
};

Result<Generation> MakeGeneration(const Json& body, const HttpRequest& request,
                                  Services& services) {
  TW_ASSIGN(ChatFields fields, ReadChatFields(body, services));
  TW_ASSIGN(const StreamFields stream, ReadStream(body));
  TW_ASSIGN(ChatPlan plan, PlanChat(std::move(fields), services));
  const text::Tokenizer& tokenizer = services.model->tokenizer();
  TW_ASSIGN(auto decoders,
            ChatReply::MakeDecoders(plan, tokenizer, fmt::format("call_{}_", request.id)));
  const ChatShape shape{.stream = stream,
                        .thinking = plan.thinking,
                        .logprobs = plan.request.params.logprobs.has_value()};
  Generation generation{.stream = stream.stream};
  generation.reply = std::make_unique<OpenAiChatReply>(
      AnswerHead::Make("chatcmpl-", request.id, services.model->name()), plan, shape,
      std::move(decoders), &tokenizer, &services.metrics);
  generation.requests.push_back(std::move(plan.request));
  return generation;
}

}  // namespace

Outcome HandleChat(const HttpRequest& request, Services& services) {
  return HandleBody(request, services,
                    [&](const Json& body) { return MakeGeneration(body, request, services); });
}

}  // namespace thalweg::server
