// What went wrong with a request, and how each protocol says so.
#pragma once

#include <thalweg/error.h>

#include <string>
#include <string_view>

#include "base/status.h"
#include "server/http.h"

namespace thalweg::server {

// Whose shapes an endpoint speaks.
enum class Dialect { kOpenAi, kAnthropic };

struct ApiError {
  int status = 400;
  std::string message = {};  // says what to do
  std::string code = {};     // "context_length_exceeded"; empty: that of the status
  std::string param = {};    // the field; empty: none alone
};

// An engine's or parser's error as a client's. `e.code` kOutOfRange is about the context.
ApiError ToApiError(const Error& e);
ApiError ToApiError(const Status& status);

ApiError NotFoundError(std::string message);
ApiError OverloadedError(std::string message);
ApiError ModelNotFound(std::string_view asked, std::string_view served);

// {"error": {"message", "type", "param", "code"}} or {"type": "error", "error": {"type",
// "message"}}.
std::string ErrorBody(const ApiError& error, Dialect dialect);
// With 429 and 503 goes Retry-After. Anthropic's code of 503 is 529.
HttpResponse ErrorResponse(const ApiError& error, Dialect dialect);
// The event of an error that comes after the header fields went out.
void AppendErrorEvent(const ApiError& error, Dialect dialect, std::string* out);

}  // namespace thalweg::server
