#include "hub/answer.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>

namespace thalweg::hub {
namespace {

using base::Code;
using Kind = Verdict::Kind;

Verdict GiveUp(Code code, std::string message) {
  return {.kind = Kind::kGiveUp, .error = Status(code, std::move(message))};
}

Verdict Retry(Code code, std::string message) {
  return {.kind = Kind::kRetry, .error = Status(code, std::move(message))};
}

// Errors of the transport that another attempt cannot change.
bool IsHopeless(int code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_NOT_BUILT_IN: return true;
    default: return false;
  }
}

Verdict JudgeTransport(const Transfer& transfer, const std::string& what) {
  const std::string message =
      fmt::format("{}: {}: {}", what, transfer.host(), transfer.transport_error());
  if (IsHopeless(transfer.curl_code())) return GiveUp(Code::kIo, message);
  return Retry(Code::kIo, message);
}

// The server's own words, when it has some.
std::string Words(const Transfer& transfer) {
  const std::string& message = transfer.head().error_message;
  return message.empty() ? "" : fmt::format(" (\"{}\")", message);
}

// The Hub answers 401 for a repository that does not exist when no token says who asks.
Verdict NoAccess(const Transfer& transfer, const std::string& what, bool has_token) {
  const std::string& code = transfer.head().error_code;
  std::string advice;
  if (code == "GatedRepo") {
    advice = has_token ? "ask for access on its page"
                       : "accept its terms on its page and set HF_TOKEN to a token of yours";
  } else if (has_token) {
    advice = "check the name, and that the token (HF_TOKEN) is valid and may read it";
  } else {
    advice = "check the name; if it is private, set HF_TOKEN to a token that may read it";
  }
  return GiveUp(Code::kFailedPrecondition,
                fmt::format("{}: {} denies access (HTTP {}){}: {}", what, transfer.host(),
                            transfer.head().status, Words(transfer), advice));
}

Verdict Missing(const Transfer& transfer, const std::string& what) {
  const std::string& code = transfer.head().error_code;
  const std::string_view advice = code == "RevisionNotFound"
                                      ? "there is no such revision: check --revision"
                                      : "check the name, and HF_ENDPOINT if it is set";
  return GiveUp(Code::kNotFound, fmt::format("{}: {} does not have it (HTTP 404){}: {}", what,
                                             transfer.host(), Words(transfer), advice));
}

Verdict Busy(const Transfer& transfer, const std::string& what, Code code) {
  Verdict verdict =
      Retry(code, fmt::format("{}: {} is busy (HTTP {}){}: try again later", what, transfer.host(),
                              transfer.head().status, Words(transfer)));
  const int64_t seconds = transfer.head().retry_after_seconds.value_or(0);
  verdict.least_wait_ms = 1000 * std::clamp<int64_t>(seconds, 0, 1'000'000);
  return verdict;
}

Verdict JudgeError(const Transfer& transfer, const std::string& what, bool has_token) {
  const long status = transfer.head().status;
  if (status == 401 || status == 403) return NoAccess(transfer, what, has_token);
  if (status == 404 || status == 410) return Missing(transfer, what);
  if (status == 429) return Busy(transfer, what, Code::kResourceExhausted);
  if (status >= 500 || status == 408) return Busy(transfer, what, Code::kIo);
  if (status == 416) {
    Verdict verdict = Retry(Code::kIo, fmt::format("{}: the range was refused (HTTP 416)", what));
    verdict.start_over = true;
    return verdict;
  }
  return GiveUp(Code::kIo, fmt::format("{}: {} answers HTTP {}{}{}", what, transfer.host(), status,
                                       Words(transfer), transfer.error_body().substr(0, 200)));
}

}  // namespace

Verdict JudgeAnswer(const Transfer& transfer, const std::string& what, bool has_token) {
  const long status = transfer.head().status;
  const bool answered = status >= 300 && transfer.curl_code() != CURLE_TOO_MANY_REDIRECTS;
  if (answered && (status >= 400 || transfer.curl_code() == CURLE_OK))
    return JudgeError(transfer, what, has_token);
  if (transfer.curl_code() != CURLE_OK) return JudgeTransport(transfer, what);
  if (status == 200 || status == 206) return {};
  return GiveUp(Code::kIo, fmt::format("{}: {} answers HTTP {}", what, transfer.host(), status));
}

int64_t WaitBefore(int attempt, const Verdict& verdict, const RetryPolicy& policy) {
  const int doublings = std::clamp(attempt - 1, 0, 20);
  const int64_t own = std::min(policy.first_wait_ms << doublings, policy.longest_wait_ms);
  return std::max(own, std::min(verdict.least_wait_ms, policy.longest_retry_after_ms));
}

}  // namespace thalweg::hub
