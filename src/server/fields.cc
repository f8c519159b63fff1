#include "server/fields.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "api/json_values.h"
#include "api/params_json.h"
#include "server/limits.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

struct RealRange {
  std::string_view name;
  double least, most;
};
constexpr std::array kReals = {RealRange{"temperature", 0, 2},
                               RealRange{"top_p", 0, 1},
                               RealRange{"min_p", 0, 1},
                               RealRange{"presence_penalty", -2, 2},
                               RealRange{"frequency_penalty", -2, 2},
                               RealRange{"repetition_penalty", 0, 100}};

// Fields that are read as those of SamplingParams.
constexpr std::array<std::string_view, 13> kAsParams = {"n",
                                                        "seed",
                                                        "top_k",
                                                        "logit_bias",
                                                        "min_tokens",
                                                        "ignore_eos",
                                                        "stop_token_ids",
                                                        "allowed_token_ids",
                                                        "bad_words",
                                                        "seq_seed",
                                                        "banned_token_ids",
                                                        "thinking_budget",
                                                        "include_stop_str_in_output"};

}  // namespace

Result<Json> ParseBody(const HttpRequest& request) {
  base::JsonLimits limits;
  limits.max_depth = kMaxJsonDepth;
  TW_ASSIGN(Json body, base::ParseJson(request.body, "the body", limits));
  if (!body.is_object()) return api::WrongValue(body, "the body", "a JSON object");
  return body;
}

std::optional<ApiError> CheckModel(const Json& body, const Services& services) {
  const Result<std::optional<std::string>> asked = OptionalString(body, "model");
  if (!asked.ok()) return ToApiError(asked.status());
  if (!asked->has_value() || services.options.any_model) return std::nullopt;
  if (**asked == services.model->name()) return std::nullopt;
  return ModelNotFound(**asked, services.model->name());
}

const Json* FindField(const Json& object, std::string_view name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

Result<std::optional<bool>> OptionalBool(const Json& object, std::string_view name) {
  const Json* json = FindField(object, name);
  if (json == nullptr) return std::optional<bool>();
  TW_ASSIGN(const bool value, api::ReadBool(*json, name));
  return std::optional<bool>(value);
}

Result<std::optional<int64_t>> OptionalInteger(const Json& object, std::string_view name,
                                               int64_t least, int64_t most) {
  const Json* json = FindField(object, name);
  if (json == nullptr) return std::optional<int64_t>();
  TW_ASSIGN(const int64_t value, api::ReadInteger(*json, name, least, most));
  return std::optional<int64_t>(value);
}

Result<std::optional<double>> OptionalReal(const Json& object, std::string_view name, double least,
                                           double most) {
  const Json* json = FindField(object, name);
  if (json == nullptr) return std::optional<double>();
  TW_ASSIGN(const double value, api::ReadReal(*json, name));
  if (value >= least && value <= most) return std::optional<double>(value);
  return base::InvalidArgument(
      fmt::format("{} is {}, but must lie in [{}, {}]", name, value, least, most));
}

Result<std::optional<std::string>> OptionalString(const Json& object, std::string_view name) {
  const Json* json = FindField(object, name);
  if (json == nullptr) return std::optional<std::string>();
  TW_ASSIGN(std::string value, api::ReadString(*json, name));
  return std::optional<std::string>(std::move(value));
}

Status ReadSampling(const Json& body, SamplingParams* params) {
  for (const RealRange& range : kReals) {
    TW_ASSIGN(const auto value, OptionalReal(body, range.name, range.least, range.most));
    if (value.has_value()) TW_TRY(api::SetParam(range.name, Json(*value), params));
  }
  for (const std::string_view name : kAsParams) {
    const Json* json = FindField(body, name);
    if (json != nullptr) TW_TRY(api::SetParam(name, *json, params));
  }
  return {};
}

Result<std::vector<std::string>> ReadStops(const Json& body, std::string_view name) {
  const Json* json = FindField(body, name);
  if (json == nullptr) return std::vector<std::string>();
  TW_ASSIGN(std::vector<std::string> stops, api::ReadStrings(*json, name));
  if (stops.size() > kMaxStops) {
    return base::InvalidArgument(
        fmt::format("{} has {} strings, but {} at most are taken", name, stops.size(), kMaxStops));
  }
  for (const std::string& stop : stops) {
    if (stop.empty())
      return base::InvalidArgument(fmt::format("{} has an empty string: leave it out", name));
    if (stop.size() > kMaxStopBytes) {
      return base::InvalidArgument(fmt::format("{}: a string has {} bytes, but may have {} at most",
                                               name, stop.size(), kMaxStopBytes));
    }
  }
  return stops;
}

Status ReadRequestOptions(const Json& body, RequestOptions* options) {
  TW_ASSIGN(const auto salt, OptionalString(body, "cache_salt"));
  if (salt.has_value()) options->cache_salt = *salt;
  TW_ASSIGN(const auto reuse, OptionalBool(body, "prefix_reuse"));
  options->prefix_reuse = reuse.value_or(true);
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  TW_ASSIGN(const auto priority, OptionalInteger(body, "priority", -kMost, kMost));
  options->priority = static_cast<int>(priority.value_or(0));
  return {};
}

Result<StreamFields> ReadStream(const Json& body) {
  StreamFields fields;
  TW_ASSIGN(const auto stream, OptionalBool(body, "stream"));
  fields.stream = stream.value_or(false);
  const Json* options = FindField(body, "stream_options");
  if (options == nullptr) return fields;
  if (!fields.stream) return base::InvalidArgument("stream_options needs \"stream\": true");
  if (!options->is_object()) return api::WrongValue(*options, "stream_options", "an object");
  TW_ASSIGN(const auto usage, OptionalBool(*options, "include_usage"));
  TW_ASSIGN(const auto each, OptionalBool(*options, "continuous_usage_stats"));
  fields.usage_said = usage.has_value();
  fields.include_usage = usage.value_or(false);
  fields.usage_each = each.value_or(false);
  return fields;
}

}  // namespace thalweg::server
