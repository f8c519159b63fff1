// Fields of request bodies: read with their types checked, null as if left out, unknown ones read
// over.
#pragma once

#include <thalweg/llm.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "server/errors.h"
#include "server/http.h"

namespace thalweg::server {

struct Services;

using base::Json;

// The body as an object, within the limits.
Result<Json> ParseBody(const HttpRequest& request);

// An error unless "model" is absent, that which is served, or any is taken (--any-model).
std::optional<ApiError> CheckModel(const Json& body, const Services& services);

// Null when it is absent or null.
const Json* FindField(const Json& object, std::string_view name);

Result<std::optional<bool>> OptionalBool(const Json& object, std::string_view name);
Result<std::optional<int64_t>> OptionalInteger(const Json& object, std::string_view name,
                                               int64_t least, int64_t most);
Result<std::optional<double>> OptionalReal(const Json& object, std::string_view name, double least,
                                           double most);
Result<std::optional<std::string>> OptionalString(const Json& object, std::string_view name);

// What the sampling fields of OpenAI's requests and of vLLM's extensions say, over `params`:
// temperature [0, 2], top_p (0, 1], penalties [-2, 2], n, seed, logit_bias, and so on
// (docs/server.md). Not stop, max_tokens, logprobs and structured output, which endpoints treat in
// their own ways.
Status ReadSampling(const Json& body, SamplingParams* params);
// "stop" (or another name): a string or up to kMaxStops of them.
Result<std::vector<std::string>> ReadStops(const Json& body, std::string_view name);
// cache_salt, priority, prefix_reuse.
Status ReadRequestOptions(const Json& body, RequestOptions* options);
// "stream" and "stream_options.include_usage".
struct StreamFields {
  bool stream = false;
  bool include_usage = false;
  bool usage_said = false;  // include_usage is there, true or false
  bool usage_each = false;  // stream_options.continuous_usage_stats
};
Result<StreamFields> ReadStream(const Json& body);

}  // namespace thalweg::server
