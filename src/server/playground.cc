#include "server/playground.h"

#include <string>
#include <utility>

#include "server/endpoints.h"
#include "server/services.h"

namespace thalweg::server {
namespace {

// Nothing from anywhere else, and no script but the page's own: what a model says cannot act.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string_view TypeOf(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  return "image/svg+xml";
}

std::string_view NameOf(std::string_view path) {
  if (path == "/") return "index.html";
  return path.substr(kPlaygroundPrefix.size());
}

}  // namespace

Outcome HandlePlayground(const HttpRequest& request, Services& services) {
  const std::string_view name = NameOf(request.path);
  for (const EmbeddedFile& file : PlaygroundFiles()) {
    if (!services.options.playground || file.name != name) continue;
    return HttpResponse{.content_type = std::string(TypeOf(name)),
                        .body = std::string(file.bytes),
                        .headers = {{"Content-Security-Policy", kPolicy},
                                    {"X-Content-Type-Options", "nosniff"},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cache-Control", "no-cache"}}};
  }
  return NotFoundError("there is no " + request.path + " here; docs/server.md lists what there is");
}

}  // namespace thalweg::server
