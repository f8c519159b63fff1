#include "api/requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "api/errors.h"
#include "api/prompts.h"

namespace thalweg::api {
namespace {

// The processors one after another, as the engine's one.
engine::LogitsProcessor Chain(const std::vector<LogitsProcessor>& processors) {
  if (processors.empty()) return {};
  return [processors](std::span<const int32_t> tokens, std::span<float> logits) -> Status {
    for (const LogitsProcessor& processor : processors) {
      if (const std::optional<Error> error = processor(tokens, logits); error.has_value())
        return ToStatus(*error);
    }
    return {};
  };
}

Result<int32_t> LogprobCount(const std::optional<int>& count, std::string_view name) {
  if (!count.has_value()) return -1;
  if (*count < 0 || *count > step::kMaxLogprobs) {
    return base::InvalidArgument(
        fmt::format("{} is {}, but must lie in [0, {}]", name, *count, step::kMaxLogprobs));
  }
  return *count;
}

Result<int64_t> NotNegative(const std::optional<int64_t>& value, std::string_view name) {
  if (!value.has_value()) return -1;
  if (*value < 0)
    return base::InvalidArgument(fmt::format("{} is {}, but must not be negative", name, *value));
  return *value;
}

Status CheckAllowed(const SamplingParams& params) {
  if (!params.allowed_token_ids.has_value() || !params.allowed_token_ids->empty()) return {};
  return base::InvalidArgument(
      "allowed_token_ids is empty: no token could be chosen; leave it out to allow every token");
}

Status CheckLengths(const SamplingParams& params) {
  if (params.max_tokens.has_value() && *params.max_tokens < 1) {
    return base::InvalidArgument(
        fmt::format("max_tokens is {}, but must be at least 1; without it the context is the limit",
                    *params.max_tokens));
  }
  if (!params.max_tokens.has_value() || params.min_tokens <= *params.max_tokens) return {};
  return base::InvalidArgument(
      fmt::format("min_tokens is {}, but max_tokens is {}", params.min_tokens, *params.max_tokens));
}

void FillSingleTokens(const SamplingParams& params, step::SamplingParams* out) {
  out->logit_bias = params.logit_bias;
  out->allowed_tokens = params.allowed_token_ids.value_or(std::vector<int32_t>());
  out->banned_tokens = params.banned_token_ids;
  out->stop_token_ids = params.stop_token_ids;
}

Result<step::SamplingParams> ToSampling(const text::Tokenizer* tokenizer,
                                        const SamplingParams& params) {
  step::SamplingParams out;
  out.temperature = params.temperature;
  out.top_k = std::max<int64_t>(params.top_k, 0);
  out.top_p = params.top_p;
  out.min_p = params.min_p;
  out.repetition_penalty = params.repetition_penalty;
  out.frequency_penalty = params.frequency_penalty;
  out.presence_penalty = params.presence_penalty;
  out.ignore_eos = params.ignore_eos;
  out.min_tokens = params.min_tokens;
  FillSingleTokens(params, &out);
  TW_TRY(CheckAllowed(params));
  TW_TRY(CheckLengths(params));
  TW_ASSIGN(out.bad_words, EncodeBadWords(tokenizer, params.bad_words));
  TW_ASSIGN(out.thinking_budget, NotNegative(params.thinking_budget, "thinking_budget"));
  TW_ASSIGN(out.logprobs, LogprobCount(params.logprobs, "logprobs"));
  TW_ASSIGN(out.prompt_logprobs, LogprobCount(params.prompt_logprobs, "prompt_logprobs"));
  return out;
}

RequestOutput FirstOutput(const Prompt& prompt, std::vector<int32_t> ids) {
  RequestOutput output;
  if (const auto* text = std::get_if<std::string>(&prompt)) output.prompt = *text;
  output.prompt_token_ids = std::move(ids);
  return output;
}

}  // namespace

Result<PreparedRequest> PrepareRequest(const text::Tokenizer* tokenizer, const Prompt& prompt,
                                       const SamplingParams& params,
                                       const RequestOptions& options) {
  TW_ASSIGN(std::vector<int32_t> ids, EncodePrompt(tokenizer, prompt, options));
  PreparedRequest prepared;
  engine::GenerateRequest& request = prepared.request;
  TW_ASSIGN(request.sampling, ToSampling(tokenizer, params));
  request.max_tokens = params.max_tokens.value_or(-1);
  request.id = options.request_id;
  request.seed = params.seed;
  request.n = params.n;
  request.stop = params.stop;
  request.include_stop = params.include_stop_str_in_output;
  request.skip_special_tokens = params.skip_special_tokens;
  request.logits_processor = Chain(params.logits_processors);
  request.so_args = params.so_args;
  request.priority = options.priority;
  request.cache_salt = options.cache_salt;
  request.prefix_reuse = options.prefix_reuse;
  request.prompt = ids;
  prepared.output = FirstOutput(prompt, std::move(ids));
  return prepared;
}

}  // namespace thalweg::api
