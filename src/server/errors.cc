#include "server/errors.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "server/limits.h"
#include "server/sse.h"

namespace thalweg::server {
namespace {

using base::Json;

int StatusOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kOutOfRange:
    case ErrorCode::kUnsupported: return 400;
    case ErrorCode::kNotFound: return 404;
    case ErrorCode::kFailedPrecondition: return 503;
    case ErrorCode::kResourceExhausted: return 429;
    case ErrorCode::kIo:
    case ErrorCode::kInternal: return 500;
  }
  return 500;
}

ErrorCode CodeOf(base::Code code) {
  switch (code) {
    case base::Code::kInvalidArgument: return ErrorCode::kInvalidArgument;
    case base::Code::kNotFound: return ErrorCode::kNotFound;
    case base::Code::kFailedPrecondition: return ErrorCode::kFailedPrecondition;
    case base::Code::kOutOfRange: return ErrorCode::kOutOfRange;
    case base::Code::kUnsupported: return ErrorCode::kUnsupported;
    case base::Code::kResourceExhausted: return ErrorCode::kResourceExhausted;
    case base::Code::kIo: return ErrorCode::kIo;
    case base::Code::kInternal:
    case base::Code::kOk: return ErrorCode::kInternal;
  }
  return ErrorCode::kInternal;
}

std::string_view OpenAiType(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "internal_error" : "invalid_request_error";
  }
}

std::string_view AnthropicType(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503:
    case 529: return "overloaded_error";
    default: return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

Json OpenAiJson(const ApiError& error) {
  const std::string_view type = OpenAiType(error.status);
  Json inner;
  inner["message"] = error.message;
  inner["type"] = type;
  inner["param"] = error.param.empty() ? Json() : Json(error.param);
  inner["code"] = error.code.empty() ? std::string(type) : error.code;
  return Json{{"error", std::move(inner)}};
}

Json AnthropicJson(const ApiError& error) {
  Json inner;
  inner["type"] = AnthropicType(error.status);
  inner["message"] = error.message;
  Json json;
  json["type"] = "error";
  json["error"] = std::move(inner);
  return json;
}

constexpr size_t kMaxParamBytes = 200;

// Messages about a field begin with its path: "messages[3].content: ...".
bool IsPath(std::string_view path) {
  return !path.empty() && path.size() <= kMaxParamBytes && std::ranges::all_of(path, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '[' ||
           c == ']';
  });
}

// Words that begin a sentence and are no fields.
bool IsField(std::string_view word) {
  constexpr std::string_view kWords[] = {"there", "it", "this", "that", "what"};
  return IsPath(word) && std::ranges::find(kWords, word) == std::end(kWords);
}

// Of "field: what is wrong", "field is 3, but ..." and the like.
std::string ParamOf(std::string_view message) {
  const std::string_view path = message.substr(0, message.find(": "));
  if (path.size() < message.size() && IsPath(path)) return std::string(path);
  const std::string_view word = message.substr(0, message.find(' '));
  const std::string_view rest = message.substr(word.size());
  for (const std::string_view verb : {" is ", " has ", " needs "}) {
    if (rest.starts_with(verb) && IsField(word)) return std::string(word);
  }
  return {};
}

}  // namespace

ApiError ToApiError(const Error& e) {
  ApiError error{.status = StatusOf(e.code), .message = e.message};
  if (e.code == ErrorCode::kOutOfRange) error.code = "context_length_exceeded";
  if (error.status == 400) error.param = ParamOf(e.message);
  return error;
}

ApiError ToApiError(const Status& status) {
  return ToApiError(Error{CodeOf(status.code()), status.message()});
}

ApiError NotFoundError(std::string message) {
  return {.status = 404, .message = std::move(message)};
}

ApiError OverloadedError(std::string message) {
  return {.status = 429, .message = std::move(message), .code = "rate_limit_exceeded"};
}

ApiError ModelNotFound(std::string_view asked, std::string_view served) {
  return {.status = 404,
          .message = fmt::format("the model \"{}\" is not served here; \"{}\" is", asked, served),
          .code = "model_not_found",
          .param = "model"};
}

std::string ErrorBody(const ApiError& error, Dialect dialect) {
  const Json json = dialect == Dialect::kOpenAi ? OpenAiJson(error) : AnthropicJson(error);
  // Messages quote what the client sent, which may be ill-formed.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpResponse ErrorResponse(const ApiError& error, Dialect dialect) {
  HttpResponse response{.status = error.status, .body = ErrorBody(error, dialect)};
  if (error.status == 429 || error.status == 503)
    response.headers.emplace_back("Retry-After", fmt::to_string(kRetryAfterSeconds));
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status == 503 && dialect == Dialect::kAnthropic) response.status = 529;
  return response;
}

void AppendErrorEvent(const ApiError& error, Dialect dialect, std::string* out) {
  const std::string body = ErrorBody(error, dialect);
  if (dialect == Dialect::kAnthropic) {
    AppendNamedEvent("error", body, out);
  } else {
    AppendEvent(body, out);
  }
}

}  // namespace thalweg::server
