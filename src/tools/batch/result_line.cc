#include "tools/batch/result_line.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "api/json_values.h"
#include "api/output_json.h"
#include "tools/batch/line_reader.h"

namespace thalweg::tools::batch {
namespace {

Json KeyJson(const LineKey& key, std::string_view run) {
  Json json;
  json["line"] = key.number;
  if (!key.id.key.empty()) json[key.id.key] = key.id.value;
  json["input"] = HashText(key.hash);
  json["run"] = run;
  return json;
}

// Only what is the same in every run: no times, nothing about the cache.
void AddChoice(const CompletionOutput& output, bool token_ids, Json* json) {
  Json all = api::CompletionJson(output);
  (*json)["text"] = all["text"];
  (*json)["finish_reason"] = all["finish_reason"];
  if (!all["stop_reason"].is_null()) (*json)["stop_reason"] = all["stop_reason"];
  if (token_ids) (*json)["token_ids"] = all["token_ids"];
  if (output.logprobs.has_value()) {
    (*json)["cumulative_logprob"] = all["cumulative_logprob"];
    (*json)["logprobs"] = all["logprobs"];
  }
}

Json UsageJson(const RequestOutput& output) {
  size_t completion = 0;
  int64_t reasoning = 0;
  for (const CompletionOutput& one : output.outputs) {
    completion += one.token_ids.size();
    reasoning += one.reasoning_tokens;
  }
  return {{"prompt_tokens", output.prompt_token_ids.size()},
          {"completion_tokens", completion},
          {"reasoning_tokens", reasoning},
          {"total_tokens", output.prompt_token_ids.size() + completion}};
}

Result<uint64_t> ParseHash(const std::string& text) {
  uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16)
    return base::InvalidArgument(fmt::format("\"{}\" is no hash of a line", text));
  return hash;
}

}  // namespace

std::string ResultLine(const LineKey& key, std::string_view run, const RequestOutput& output,
                       bool token_ids) {
  Json json = KeyJson(key, run);
  if (output.outputs.size() == 1) {
    AddChoice(output.outputs.front(), token_ids, &json);
  } else {
    json["choices"] = Json::array();
    for (const CompletionOutput& one : output.outputs) {
      Json choice = {{"index", one.index}};
      AddChoice(one, token_ids, &choice);
      json["choices"].push_back(std::move(choice));
    }
  }
  Json prompt_logprobs = api::PromptLogprobsJson(output);
  if (!prompt_logprobs.is_null()) json["prompt_logprobs"] = std::move(prompt_logprobs);
  json["usage"] = UsageJson(output);
  return api::DumpJson(json) + "\n";
}

std::string ErrorLine(const LineKey& key, std::string_view run, const Error& error) {
  Json json = KeyJson(key, run);
  json["error"] = api::ErrorJson(error);
  return api::DumpJson(json) + "\n";
}

Result<ResultKey> ParseResultLine(std::string_view text) {
  TW_ASSIGN(const Json json, base::ParseJson(text, "the line"));
  for (const char* name : {"line", "input", "run"}) {
    if (!json.is_object() || !json.contains(name))
      return base::InvalidArgument(fmt::format("the line has no \"{}\"", name));
  }
  ResultKey key;
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  TW_ASSIGN(key.number, api::ReadInteger(json["line"], "line", 1, kMost));
  TW_ASSIGN(const std::string hash, api::ReadString(json["input"], "input"));
  TW_ASSIGN(key.hash, ParseHash(hash));
  TW_ASSIGN(key.run, api::ReadString(json["run"], "run"));
  key.error = json.contains("error");
  return key;
}

}  // namespace thalweg::tools::batch
