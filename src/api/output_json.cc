#include "api/output_json.h"

#include <thalweg/request_output.h>

namespace thalweg {
namespace api {
namespace {

Json LogprobJson(const Logprob& value) {
  return {{"token_id", value.token_id},
          {"logprob", value.logprob},
          {"rank", value.rank},
          {"decoded_token", value.decoded_token}};
}

Json PositionJson(const PositionLogprobs& position) {
  Json json = LogprobJson(position.chosen);
  json["top"] = Json::array();
  for (const Logprob& one : position.top) json["top"].push_back(LogprobJson(one));
  return json;
}

Json StopReasonJson(const CompletionOutput& output) {
  if (const auto* token = std::get_if<int32_t>(&output.stop_reason)) return *token;
  if (const auto* text = std::get_if<std::string>(&output.stop_reason)) return *text;
  return nullptr;
}

Json MetricsJson(const RequestMetrics& metrics) {
  return {{"submitted_at", metrics.submitted_at},
          {"admitted_at", metrics.admitted_at},
          {"first_token_at", metrics.first_token_at},
          {"last_token_at", metrics.last_token_at}};
}

}  // namespace

Json ErrorJson(const Error& error) {
  return {{"code", ErrorCodeName(error.code)}, {"message", error.message}};
}

Json LogprobsJson(const CompletionOutput& output) {
  if (!output.logprobs.has_value()) return nullptr;
  Json json = Json::array();
  for (const PositionLogprobs& position : *output.logprobs) json.push_back(PositionJson(position));
  return json;
}

Json PromptLogprobsJson(const RequestOutput& output) {
  if (!output.prompt_logprobs.has_value()) return nullptr;
  Json json = Json::array();
  for (const auto& position : *output.prompt_logprobs)
    json.push_back(position.has_value() ? PositionJson(*position) : Json(nullptr));
  return json;
}

Json CompletionJson(const CompletionOutput& output) {
  Json json;
  json["index"] = output.index;
  json["text"] = output.text;
  json["token_ids"] = output.token_ids;
  json["cumulative_logprob"] =
      output.cumulative_logprob.has_value() ? Json(*output.cumulative_logprob) : Json(nullptr);
  json["logprobs"] = LogprobsJson(output);
  json["finish_reason"] = output.finished() ? Json(output.finish_reason) : Json(nullptr);
  json["stop_reason"] = StopReasonJson(output);
  json["reasoning_tokens"] = output.reasoning_tokens;
  return json;
}

Json OutputJson(const RequestOutput& output) {
  Json json;
  json["request_id"] = output.request_id;
  json["prompt"] = output.prompt.has_value() ? Json(*output.prompt) : Json(nullptr);
  json["prompt_token_ids"] = output.prompt_token_ids;
  json["prompt_logprobs"] = PromptLogprobsJson(output);
  json["outputs"] = Json::array();
  for (const CompletionOutput& one : output.outputs) json["outputs"].push_back(CompletionJson(one));
  json["finished"] = output.finished;
  json["error"] = output.error.has_value() ? ErrorJson(*output.error) : Json(nullptr);
  json["metrics"] = MetricsJson(output.metrics);
  json["num_cached_tokens"] = output.num_cached_tokens;
  return json;
}

std::string DumpJson(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace api

std::string RequestOutput::ToJson() const { return api::DumpJson(api::OutputJson(*this)); }

}  // namespace thalweg
