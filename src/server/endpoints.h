// The handlers that the router knows; each is in the file of its idea.
#pragma once

#include "server/http.h"
#include "server/reply.h"

namespace thalweg::server {

struct Services;

Outcome HandleHealth(const HttpRequest& request, Services& services);
Outcome HandleReady(const HttpRequest& request, Services& services);
Outcome HandleVersion(const HttpRequest& request, Services& services);
Outcome HandleMetrics(const HttpRequest& request, Services& services);
Outcome HandleLoad(const HttpRequest& request, Services& services);
Outcome HandleModels(const HttpRequest& request, Services& services);
Outcome HandleModel(const HttpRequest& request, Services& services);

Outcome HandlePlayground(const HttpRequest& request, Services& services);

Outcome HandleTokenize(const HttpRequest& request, Services& services);
Outcome HandleDetokenize(const HttpRequest& request, Services& services);
Outcome HandleRender(const HttpRequest& request, Services& services);

Outcome HandleCompletions(const HttpRequest& request, Services& services);
Outcome HandleChat(const HttpRequest& request, Services& services);
Outcome HandleMessages(const HttpRequest& request, Services& services);
Outcome HandleCountTokens(const HttpRequest& request, Services& services);
Outcome HandleResponses(const HttpRequest& request, Services& services);

}  // namespace thalweg::server
