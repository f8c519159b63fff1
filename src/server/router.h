// Which handler answers which path.
#pragma once

#include <string_view>

#include "server/errors.h"
#include "server/reply.h"

namespace thalweg::server {

struct Services;

using Handler = Outcome (*)(const HttpRequest& request, Services& services);

struct Route {
  std::string_view method = {};
  std::string_view path = {};
  Handler handler = nullptr;
  Dialect dialect = Dialect::kOpenAi;
  // Who may call: everybody, those who may see metrics, or those with a key.
  enum class Access : uint8_t { kOpen, kMetrics, kKey } access = Access::kKey;
  bool works = false;  // takes a place among the requests under way
};

// The route, or the one whose handler says why there is none (404, 405, 501).
Route FindRoute(const HttpRequest& request);

}  // namespace thalweg::server
