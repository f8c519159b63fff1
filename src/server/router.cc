#include "server/router.h"

#include <array>
#include <span>

#include "server/endpoints.h"
#include "server/playground.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

using Access = Route::Access;

constexpr std::array kRoutes = {
    Route{"GET", "/", HandlePlayground, Dialect::kOpenAi, Access::kOpen},
    Route{"GET", "/health", HandleHealth, Dialect::kOpenAi, Access::kOpen},
    Route{"GET", "/ready", HandleReady, Dialect::kOpenAi, Access::kOpen},
    Route{"GET", "/version", HandleVersion, Dialect::kOpenAi, Access::kOpen},
    Route{"GET", "/metrics", HandleMetrics, Dialect::kOpenAi, Access::kMetrics},
    Route{"GET", "/load", HandleLoad, Dialect::kOpenAi, Access::kMetrics},
    Route{"GET", "/v1/models", HandleModels},
    Route{"GET", "/models", HandleModels},
    Route{"POST", "/v1/completions", HandleCompletions, Dialect::kOpenAi, Access::kKey, true},
    Route{"POST", "/completions", HandleCompletions, Dialect::kOpenAi, Access::kKey, true},
    Route{"POST", "/v1/chat/completions", HandleChat, Dialect::kOpenAi, Access::kKey, true},
    Route{"POST", "/chat/completions", HandleChat, Dialect::kOpenAi, Access::kKey, true},
    Route{"POST", "/beta/chat/completions", HandleChat, Dialect::kOpenAi, Access::kKey, true},
    Route{"POST", "/v1/responses", HandleResponses, Dialect::kOpenAi, Access::kKey, true},
    Route{"POST", "/responses", HandleResponses, Dialect::kOpenAi, Access::kKey, true},
    Route{"POST", "/v1/messages", HandleMessages, Dialect::kAnthropic, Access::kKey, true},
    Route{"POST", "/anthropic/v1/messages", HandleMessages, Dialect::kAnthropic, Access::kKey,
          true},
    Route{"POST", "/v1/messages/count_tokens", HandleCountTokens, Dialect::kAnthropic, Access::kKey,
          true},
    Route{"POST", "/anthropic/v1/messages/count_tokens", HandleCountTokens, Dialect::kAnthropic,
          Access::kKey, true},
    Route{"POST", "/render", HandleRender, Dialect::kOpenAi, Access::kKey, true},
    Route{"POST", "/v1/chat/completions/render", HandleRender, Dialect::kOpenAi, Access::kKey,
          true},
    Route{"POST", "/tokenize", HandleTokenize, Dialect::kOpenAi, Access::kKey, true},
    Route{"POST", "/detokenize", HandleDetokenize, Dialect::kOpenAi, Access::kKey, true},
};

constexpr std::string_view kModelPrefix = "/v1/models/";

// Endpoints of the same protocols that this model has nothing for.
constexpr std::array<std::string_view, 9> kNotImplemented = {"/v1/embeddings",
                                                             "/v1/rerank",
                                                             "/v1/audio/speech",
                                                             "/v1/audio/transcriptions",
                                                             "/v1/audio/translations",
                                                             "/v1/images/generations",
                                                             "/v1/moderations",
                                                             "/v1/score",
                                                             "/v1/files"};

Outcome NoSuchPath(const HttpRequest& request, Services&) {
  return NotFoundError("there is no " + request.path + " here; docs/server.md lists what there is");
}

Outcome WrongMethod(const HttpRequest& request, Services&) {
  return ApiError{.status = 405,
                  .message = request.path + " does not take " + request.method,
                  .code = "method_not_allowed"};
}

Outcome NotImplemented(const HttpRequest& request, Services&) {
  return ApiError{.status = 501,
                  .message = request.path +
                             ": this model writes text; it makes no embeddings, rankings, images, "
                             "audio or verdicts",
                  .code = "not_implemented"};
}

// What a browser asks before a cross-origin request.
Outcome Preflight(const HttpRequest&, Services& services) {
  HttpResponse response{.status = 204, .content_type = ""};
  if (!services.options.cors_origin.empty()) {
    response.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                        {"Access-Control-Allow-Headers",
                         "authorization, content-type, x-api-key, anthropic-version, "
                         "anthropic-beta"},
                        {"Access-Control-Max-Age", "86400"}};
  }
  return response;
}

}  // namespace

Route FindRoute(const HttpRequest& request) {
  const Route* other = nullptr;
  for (const Route& route : kRoutes) {
    if (route.path != request.path) continue;
    if (route.method == request.method) return route;
    other = &route;
  }
  if (request.method == "OPTIONS")
    return {.path = "*", .handler = Preflight, .access = Access::kOpen};
  if (request.method == "GET" && request.path.starts_with(kModelPrefix))
    return {.path = "/v1/models/{id}", .handler = HandleModel};
  if (request.method == "GET" && request.path.starts_with(kPlaygroundPrefix))
    return {.path = kPlaygroundPrefix, .handler = HandlePlayground, .access = Access::kOpen};
  if (other != nullptr)
    return {.path = other->path, .handler = WrongMethod, .dialect = other->dialect};
  for (const std::string_view path : kNotImplemented) {
    if (path == request.path) return {.path = path, .handler = NotImplemented};
  }
  return {.path = "other", .handler = NoSuchPath};
}

}  // namespace thalweg::server
