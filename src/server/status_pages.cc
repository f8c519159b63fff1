// What operators and clients ask about the server itself.
#include <fmt/format.h>
#include <thalweg/version.h>

#include <chrono>

#include "base/json.h"
#include "server/endpoints.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

using base::Json;

int64_t UnixSeconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

Json ModelJson(const Services& services) {
  Json json;
  json["id"] = services.model->name();
  json["object"] = "model";
  json["created"] = UnixSeconds(services.started);
  json["owned_by"] = "thalweg";
  json["max_model_len"] = services.model->context_tokens();
  json["context_length"] = services.model->context_tokens();
  return json;
}

HttpResponse JsonResponse(const Json& json) { return {.body = json.dump()}; }

}  // namespace

Outcome HandleHealth(const HttpRequest&, Services&) { return JsonResponse(Json{{"status", "ok"}}); }

// The model is loaded before the server listens.
Outcome HandleReady(const HttpRequest&, Services& services) {
  if (services.draining)
    return ApiError{.status = 503, .message = "the server is shutting down", .code = "draining"};
  return JsonResponse(Json{{"status", "ready"}, {"model", services.model->name()}});
}

Outcome HandleVersion(const HttpRequest&, Services&) {
  return JsonResponse(Json{{"version", thalweg::Version()}});
}

Outcome HandleMetrics(const HttpRequest&, Services& services) {
  return HttpResponse{
      .content_type = "text/plain; version=0.0.4; charset=utf-8",
      .body = services.metrics.Text(services.model->MetricsJson(), services.admission.under_way())};
}

Outcome HandleLoad(const HttpRequest&, Services& services) {
  Json json;
  json["server_load"] = services.admission.under_way();
  json["max_requests"] = services.options.limits.requests;
  const auto engine = base::ParseJson(services.model->MetricsJson(), "metrics");
  if (engine.ok() && engine->contains("scheduler")) {
    for (const char* name : {"waiting", "running", "free_blocks", "cached_blocks", "used_blocks"})
      json[name] = (*engine)["scheduler"].value(name, int64_t{0});
  }
  return JsonResponse(json);
}

Outcome HandleModels(const HttpRequest&, Services& services) {
  Json json;
  json["object"] = "list";
  json["data"] = Json::array({ModelJson(services)});
  return JsonResponse(json);
}

Outcome HandleModel(const HttpRequest& request, Services& services) {
  const std::string_view asked =
      std::string_view(request.path).substr(std::string_view("/v1/models/").size());
  if (asked != services.model->name()) return ModelNotFound(asked, services.model->name());
  return JsonResponse(ModelJson(services));
}

}  // namespace thalweg::server
