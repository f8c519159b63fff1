#include "tools/batch/request_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "api/json_values.h"
#include "api/params_json.h"
#include "api/request_json.h"
#include "base/rng.h"

namespace thalweg::tools::batch {
namespace {

constexpr std::array<std::string_view, 3> kPrompts = {"messages", "prompt", "prompt_token_ids"};
// Part of OpenAI's requests without a meaning here.
constexpr std::array<std::string_view, 4> kIgnored = {"model", "user", "metadata", "store"};
constexpr std::array<std::string_view, 4> kConversation = {"thinking", "effort", "tools",
                                                           "drop_thinking"};
constexpr uint32_t kSeedPurpose = 0x62617463;  // "batc": no other draw has this counter word

template <size_t N>
bool Among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Fields around the body; "method" and "url" say what the body says already.
Result<const Json*> BodyOf(const Json& line) {
  if (!line.contains("body")) return &line;
  for (const auto& [name, value] : line.items()) {
    if (name != "custom_id" && name != "id" && name != "body" && name != "method" && name != "url")
      return base::InvalidArgument(
          fmt::format("unknown field \"{}\" beside body; known: custom_id, "
                      "body, method, url",
                      name));
  }
  if (!line["body"].is_object()) return api::WrongValue(line["body"], "body", "an object");
  return &line["body"];
}

// The part of the body that is the prompt, as PromptFromJson reads it.
Result<Json> PromptJson(const Json& body) {
  Json prompt = Json::object();
  int prompts = 0;
  for (const auto& [name, value] : body.items()) {
    const bool is_prompt = Among(kPrompts, name);
    prompts += is_prompt ? 1 : 0;
    if (is_prompt || Among(kConversation, name)) prompt[name] = value;
  }
  if (prompts != 1) {
    return base::InvalidArgument(
        fmt::format("the line needs exactly one of {}", fmt::join(kPrompts, ", ")));
  }
  // OpenAI's completions take token ids as prompt, too.
  if (prompt.size() == 1 && prompt.contains("prompt")) return Json(prompt["prompt"]);
  return prompt;
}

// OpenAI's chat has logprobs: bool and top_logprobs: N where vLLM has logprobs:
// N.
Status SetLogprobs(const Json& body, SamplingParams* params) {
  if (body.contains("top_logprobs")) {
    if (!body.contains("logprobs") || body["logprobs"] != Json(true))
      return base::InvalidArgument("top_logprobs needs \"logprobs\": true");
    return api::SetParam("logprobs", body["top_logprobs"], params);
  }
  const Json& value = body["logprobs"];
  if (!value.is_boolean()) return api::SetParam("logprobs", value, params);
  params->logprobs = value.get<bool>() ? std::optional(0) : std::nullopt;
  return {};
}

Status SetField(const Json& body, const std::string& name, const Json& value,
                LineRequest* request) {
  if (name == "stream") {
    if (value == Json(false)) return {};
    return api::WrongValue(value, name, "false: a batch does not stream");
  }
  if (name == "max_completion_tokens") return api::SetParam("max_tokens", value, &request->params);
  if (name == "logprobs" || name == "top_logprobs") return SetLogprobs(body, &request->params);
  bool* flag = name == "return_token_ids"       ? &request->return_token_ids
               : name == "add_special_tokens"   ? &request->options.add_special_tokens
               : name == "parse_special_tokens" ? &request->options.parse_special_tokens
               : name == "prefix_reuse"         ? &request->options.prefix_reuse
                                                : nullptr;
  if (flag != nullptr) {
    TW_ASSIGN(*flag, api::ReadBool(value, name));
    return {};
  }
  TW_TRY(api::CheckParamName(name));
  return api::SetParam(name, value, &request->params);
}

Status CheckTwins(const Json& body) {
  constexpr std::array<std::pair<const char*, const char*>, 5> kTwins = {
      {{"seed", "seq_seed"},
       {"max_tokens", "max_completion_tokens"},
       {"so_args", "response_format"},
       {"so_args", "structured_outputs"},
       {"response_format", "structured_outputs"}}};
  for (const auto& [one, other] : kTwins) {
    if (body.contains(one) && body.contains(other)) {
      return base::InvalidArgument(
          fmt::format("{} and {} are two names of one value: give one of them", one, other));
    }
  }
  return {};
}

}  // namespace

Result<Json> ParseLine(std::string_view text, LineId* id) {
  TW_ASSIGN(Json line, base::ParseJson(text, "the line"));
  if (!line.is_object()) return api::WrongValue(line, "the line", "an object");
  for (const char* key : {"custom_id", "id"}) {
    if (!line.contains(key)) continue;
    TW_ASSIGN(std::string value, api::ReadString(line[key], key));
    if (!id->key.empty())
      return base::InvalidArgument("custom_id and id are two names of one value: give one of them");
    *id = {.key = key, .value = std::move(value)};
  }
  return line;
}

Result<LineRequest> RequestOfLine(const Json& line, const Json& defaults) {
  TW_ASSIGN(const Json* body, BodyOf(line));
  TW_TRY(CheckTwins(*body));
  LineRequest request;
  TW_ASSIGN(const Json prompt, PromptJson(*body));
  TW_ASSIGN(request.prompt, api::PromptFromJson(prompt, "prompt"));
  if (body->contains("messages")) request.params.max_tokens.reset();
  TW_TRY(api::SetParams(defaults, &request.params));
  for (const auto& [name, value] : body->items()) {
    const bool wrapped = body == &line && (name == "custom_id" || name == "id");
    if (wrapped || Among(kPrompts, name) || Among(kConversation, name) || Among(kIgnored, name))
      continue;
    TW_TRY(SetField(*body, name, value, &request));
  }
  return request;
}

uint64_t SeedOfLine(uint64_t seed, int64_t line_number) {
  const auto number = static_cast<uint64_t>(line_number);
  const base::PhiloxCounter words = base::Philox4x32(
      {static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32), kSeedPurpose, 0},
      base::PhiloxKeyOf(seed));
  return static_cast<uint64_t>(words[1]) << 32 | words[0];
}

}  // namespace thalweg::tools::batch
