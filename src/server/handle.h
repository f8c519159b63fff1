// What the generating endpoints have in common: a body that names this server's model.
#pragma once

#include <utility>

#include "server/fields.h"
#include "server/reply.h"

namespace thalweg::server {

// What `make` makes of the request's body, a Result of anything that is an Outcome. A body that is
// no JSON object, another model's name and what `make` refuses are errors of the request.
template <typename Make>
Outcome HandleBody(const HttpRequest& request, const Services& services, const Make& make) {
  const Result<Json> body = ParseBody(request);
  if (!body.ok()) return ToApiError(body.status());
  if (auto error = CheckModel(*body, services)) return *std::move(error);
  auto made = make(*body);
  if (!made.ok()) return ToApiError(made.status());
  return std::move(*made);
}

}  // namespace thalweg::server
