// POST /v1/completions: text in, text out, without the chat encoding.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/json_values.h"
#include "api/prompts.h"
#include "server/endpoints.h"
#include "server/fields.h"
#include "server/handle.h"
#include "server/limits.h"
#include "server/openai_json.h"
#include "server/refusals.h"
#include "server/services.h"
#include "server/sse.h"

namespace thalweg::server {
namespace {

constexpr int64_t kDefaultMaxTokens = 16;  // OpenAI's
constexpr int64_t kMaxLogprobs = 20;

struct CompletionCall {
  std::vector<Prompt> prompts = {};
  SamplingParams params = {};
  RequestOptions options = {};
  StreamFields stream = {};
  StructureSource structure = {};
  bool echo = false;
  bool prompt_alone = false;  // echo with max_tokens 0: nothing is generated that is shown
};

// What the answer's logprobs object is made of.
struct LogprobLists {
  Json tokens = Json::array(), logprobs = Json::array(), top = Json::array(),
       offsets = Json::array();

  void Add(const PositionLogprobs& position, size_t* offset) {
    tokens.push_back(position.chosen.decoded_token);
    logprobs.push_back(position.chosen.logprob);
    Json best = Json::object();
    for (const Logprob& one : position.top) best[one.decoded_token] = one.logprob;
    top.push_back(std::move(best));
    offsets.push_back(*offset);
    *offset += position.chosen.decoded_token.size();
  }
  // The first token of a prompt: nothing precedes it.
  void AddFirst(const std::string& token, size_t* offset) {
    tokens.push_back(token);
    logprobs.push_back(nullptr);
    top.push_back(nullptr);
    offsets.push_back(*offset);
    *offset += token.size();
  }
  Json Take() {
    Json json;
    json["tokens"] = std::exchange(tokens, Json::array());
    json["token_logprobs"] = std::exchange(logprobs, Json::array());
    json["top_logprobs"] = std::exchange(top, Json::array());
    json["text_offset"] = std::exchange(offsets, Json::array());
    return json;
  }
};

std::string FinishName(const std::string& reason) {
  return reason == "cancelled" ? "abort" : reason;
}

class CompletionReply final : public Reply {
 public:
  CompletionReply(AnswerHead head, const CompletionCall& call, std::vector<std::string> echoes,
                  std::vector<std::string> first_tokens)
      : head_(std::move(head)),
        open_(head_.Open("text_completion")),
        stream_(call.stream),
        n_(static_cast<size_t>(call.params.n)),
        prompt_alone_(call.prompt_alone),
        wants_logprobs_(call.params.logprobs.has_value()),
        echoes_(std::move(echoes)),
        first_tokens_(std::move(first_tokens)),
        choices_(n_ * call.prompts.size()),
        usages_(call.prompts.size()) {}

  void Begin(std::string*) override {}

  void Take(size_t request, const Delta& delta, std::string* out) override {
    const size_t at = request * n_ + static_cast<size_t>(delta.output.index);
    Choice& choice = choices_[at];
    usages_[request].prompt = delta.prompt_tokens;
    usages_[request].cached = delta.cached_tokens;
    std::string text = TakeEcho(request, delta, &choice);
    if (!prompt_alone_) TakeTokens(request, delta, &choice, &text);
    if (!delta.output.finish_reason.empty()) choice.finish = FinishOf(delta);
    if (!stream_.stream) {
      choice.text += text;
    } else if (!text.empty() || !choice.finish.empty()) {
      WriteChunk(at, choice, text, out);
    }
  }

  bool Satisfied(size_t, size_t) const override { return false; }

  void End(std::string* out) override {
    if (!stream_.stream) {
      *out = DumpOneLine(Body());
      return;
    }
    if (stream_.include_usage) {
      Json json = head_.ToJson("text_completion");
      json["choices"] = Json::array();
      json["usage"] = UsageJson(usage());
      AppendEvent(DumpOneLine(json), out);
    }
    out->append(kDoneEvent);
  }

  Usage usage() const override {
    Usage sum;
    for (const Usage& one : usages_) {
      sum.prompt += one.prompt;
      sum.cached += one.cached;
      sum.completion += one.completion;
      sum.reasoning += one.reasoning;
    }
    return sum;
  }

  std::string finish_reason() const override { return choices_.front().finish; }

 private:
  struct Choice {
    bool echoed = false;
    std::string text = {};
    std::string finish = {};
    Json stop_reason = {};
    LogprobLists logprobs = {};
    size_t offset = 0;  // bytes of text before the next token
  };

  std::string FinishOf(const Delta& delta) const {
    return prompt_alone_ ? "length" : FinishName(delta.output.finish_reason);
  }

  std::string TakeEcho(size_t request, const Delta& delta, Choice* choice) {
    if (echoes_.empty() || choice->echoed) return {};
    choice->echoed = true;
    if (wants_logprobs_) AddPrompt(request, delta, choice);
    return echoes_[request];
  }

  // Log-probabilities of the prompt come once, with the first sequence; the others repeat them.
  void AddPrompt(size_t request, const Delta& delta, Choice* choice) {
    if (delta.prompt_logprobs.has_value()) prompt_logprobs_ = *delta.prompt_logprobs;
    for (const auto& position : prompt_logprobs_) {
      if (position.has_value()) {
        choice->logprobs.Add(*position, &choice->offset);
      } else {
        choice->logprobs.AddFirst(first_tokens_[request], &choice->offset);
      }
    }
  }

  void TakeTokens(size_t request, const Delta& delta, Choice* choice, std::string* text) {
    text->append(delta.output.text);
    usages_[request].completion += static_cast<int64_t>(delta.output.token_ids.size());
    if (const auto* stop = std::get_if<std::string>(&delta.output.stop_reason))
      choice->stop_reason = *stop;
    if (const auto* stop = std::get_if<int32_t>(&delta.output.stop_reason))
      choice->stop_reason = *stop;
    if (!wants_logprobs_ || !delta.output.logprobs.has_value()) return;
    for (const PositionLogprobs& one : *delta.output.logprobs)
      choice->logprobs.Add(one, &choice->offset);
  }

  void WriteChunk(size_t at, Choice& choice, const std::string& text, std::string* out) {
    std::string json = open_;
    fmt::format_to(std::back_inserter(json), ",\"choices\":[{{\"index\":{},\"text\":", at);
    AppendJsonString(text, &json);
    json += ",\"logprobs\":";
    json += wants_logprobs_ ? DumpOneLine(choice.logprobs.Take()) : "null";
    json += ",\"finish_reason\":";
    json += choice.finish.empty() ? "null" : '"' + choice.finish + '"';
    json += ",\"stop_reason\":" + DumpOneLine(choice.stop_reason) + "}]";
    if (stream_.usage_each) {
      json += ",\"usage\":" + DumpOneLine(UsageJson(usage()));
    } else if (stream_.include_usage) {
      json += ",\"usage\":null";
    }
    json += '}';
    AppendEvent(json, out);
  }

  Json Body() {
    Json json = head_.ToJson("text_completion");
    json["choices"] = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      Choice& choice = choices_[i];
      Json one;
      one["index"] = i;
      one["text"] = choice.text;
      one["logprobs"] = wants_logprobs_ ? choice.logprobs.Take() : Json();
      one["finish_reason"] = choice.finish;
      one["stop_reason"] = choice.stop_reason;
      json["choices"].push_back(std::move(one));
    }
    json["usage"] = UsageJson(usage());
    return json;
  }

  AnswerHead head_;
  std::string open_;
  StreamFields stream_;
  size_t n_;
  bool prompt_alone_;
  bool wants_logprobs_;
  std::vector<std::string> echoes_;        // the prompts' texts; empty: no echo
  std::vector<std::string> first_tokens_;  // of the prompts, with echo
  std::vector<Choice> choices_;            // prompt-major
  std::vector<Usage> usages_;              // [prompts]
  std::vector<std::optional<PositionLogprobs>> prompt_logprobs_ = {};
};

// A text, token ids, or an array of either.
Result<std::vector<Prompt>> ReadPrompts(const Json& body) {
  const Json* json = FindField(body, "prompt");
  if (json == nullptr) return base::InvalidArgument("prompt is missing");
  std::vector<Prompt> prompts;
  const bool many = json->is_array() && !json->empty() && !json->front().is_number();
  if (!many) {
    if (json->is_string()) {
      prompts.emplace_back(json->get<std::string>());
    } else {
      TW_ASSIGN(std::vector<int32_t> ids, api::ReadTokens(*json, "prompt"));
      prompts.emplace_back(std::move(ids));
    }
    return prompts;
  }
  if (json->size() > kMaxPrompts) {
    return base::InvalidArgument(
        fmt::format("{} prompts, but {} at most are taken", json->size(), kMaxPrompts));
  }
  for (const Json& one : *json) {
    if (one.is_string()) {
      prompts.emplace_back(one.get<std::string>());
      continue;
    }
    TW_ASSIGN(std::vector<int32_t> ids, api::ReadTokens(one, "a prompt"));
    prompts.emplace_back(std::move(ids));
  }
  return prompts;
}

Status ReadLengths(const Json& body, CompletionCall* call) {
  TW_ASSIGN(const auto echo, OptionalBool(body, "echo"));
  call->echo = echo.value_or(false);
  TW_ASSIGN(const auto most, OptionalInteger(body, "max_tokens", 0, int64_t{1} << 40));
  call->params.max_tokens = most.value_or(kDefaultMaxTokens);
  if (*call->params.max_tokens > 0) return {};
  if (!call->echo)
    return base::InvalidArgument("max_tokens is 0, which asks for nothing without \"echo\": true");
  call->prompt_alone = true;
  call->params.max_tokens = 1;
  return {};
}

Status ReadLogprobs(const Json& body, CompletionCall* call) {
  TW_ASSIGN(const auto count, OptionalInteger(body, "logprobs", 0, kMaxLogprobs));
  if (!count.has_value()) return {};
  call->params.logprobs = static_cast<int>(*count);
  if (call->echo) call->params.prompt_logprobs = static_cast<int>(*count);
  return {};
}

Status CheckFields(const Json& body) {
  if (FindField(body, "suffix") != nullptr) {
    return base::Unsupported(
        "suffix: this model has no tokens for filling in the middle; send a prompt alone");
  }
  TW_ASSIGN(const auto best, OptionalInteger(body, "best_of", 1, 1 << 20));
  TW_ASSIGN(const auto n, OptionalInteger(body, "n", 1, 1 << 20));
  if (!best.has_value() || *best == n.value_or(1)) return {};
  return base::Unsupported("best_of other than n is not supported: ask for n and choose");
}

Result<CompletionCall> ReadCompletion(const Json& body, const Services& services) {
  CompletionCall call;
  TW_TRY(RefuseCompletionFields(body));
  TW_TRY(CheckFields(body));
  TW_ASSIGN(call.prompts, ReadPrompts(body));
  TW_ASSIGN(call.stream, ReadStream(body));
  call.params = services.model->RecommendedParams();
  TW_TRY(ReadSampling(body, &call.params));
  TW_TRY(ReadLengths(body, &call));
  TW_TRY(ReadLogprobs(body, &call));
  TW_ASSIGN(call.params.stop, ReadStops(body, "stop"));
  TW_ASSIGN(StructureChoice structure, ReadStructure(body));
  call.params.so_args = std::move(structure.args);
  call.structure.field = std::move(structure.field);
  TW_ASSIGN(const auto skip, OptionalBool(body, "skip_special_tokens"));
  call.params.skip_special_tokens = skip.value_or(true);
  TW_TRY(ReadRequestOptions(body, &call.options));
  TW_ASSIGN(const auto begin, OptionalBool(body, "add_special_tokens"));
  call.options.add_special_tokens = begin.value_or(true);
  TW_ASSIGN(const auto parse, OptionalBool(body, "parse_special_tokens"));
  call.options.parse_special_tokens = parse.value_or(true);
  return call;
}

// Texts of the prompts as they are echoed.
std::vector<std::string> Echoes(const CompletionCall& call, const text::Tokenizer& tokenizer) {
  std::vector<std::string> out;
  for (const Prompt& prompt : call.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    out.push_back(
        text != nullptr ? *text : tokenizer.Decode(std::get<std::vector<int32_t>>(prompt), false));
  }
  return out;
}

std::vector<std::string> FirstTokens(const CompletionCall& call, const text::Tokenizer& tokenizer) {
  std::vector<std::string> out;
  for (const Prompt& prompt : call.prompts) {
    const auto ids = api::EncodePrompt(&tokenizer, prompt, call.options);
    out.push_back(ids.ok() ? tokenizer.Decode({ids->data(), 1}, false) : std::string());
  }
  return out;
}

Result<Generation> MakeGeneration(const Json& body, const HttpRequest& request,
                                  Services& services) {
  TW_ASSIGN(const CompletionCall call, ReadCompletion(body, services));
  const text::Tokenizer& tokenizer = services.model->tokenizer();
  Generation generation{.stream = call.stream.stream};
  generation.reply = std::make_unique<CompletionReply>(
      AnswerHead::Make("cmpl-", request.id, services.model->name()), call,
      call.echo ? Echoes(call, tokenizer) : std::vector<std::string>(),
      call.echo ? FirstTokens(call, tokenizer) : std::vector<std::string>());
  for (const Prompt& prompt : call.prompts)
    generation.requests.push_back({.prompt = prompt,
                                   .params = call.params,
                                   .options = call.options,
                                   .source = call.structure});
  return generation;
}

}  // namespace

Outcome HandleCompletions(const HttpRequest& request, Services& services) {
  return HandleBody(request, services,
                    [&](const Json& body) { return MakeGeneration(body, request, services); });
}

}  // namespace thalweg::server
