#include "server/http.h"

#include <fmt/format.h>

#include <array>
#include <iterator>

namespace thalweg::server {

std::string_view ReasonPhrase(int status) {
  constexpr std::array<std::pair<int, std::string_view>, 17> kPhrases = {
      {{200, "OK"},
       {204, "No Content"},
       {400, "Bad Request"},
       {401, "Unauthorized"},
       {403, "Forbidden"},
       {404, "Not Found"},
       {405, "Method Not Allowed"},
       {408, "Request Timeout"},
       {413, "Content Too Large"},
       {415, "Unsupported Media Type"},
       {422, "Unprocessable Content"},
       {429, "Too Many Requests"},
       {431, "Request Header Fields Too Large"},
       {500, "Internal Server Error"},
       {501, "Not Implemented"},
       {503, "Service Unavailable"},
       {529, "Overloaded"}}};
  for (const auto& [code, phrase] : kPhrases) {
    if (code == status) return phrase;
  }
  return "Unknown";
}

std::string ResponseHead(const HttpResponse& response, int64_t length, bool keep_alive) {
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status, ReasonPhrase(response.status));
  auto out = std::back_inserter(head);
  if (!response.content_type.empty())
    fmt::format_to(out, "Content-Type: {}\r\n", response.content_type);
  if (length < 0) {
    head += "Transfer-Encoding: chunked\r\n";
  } else if (response.status != 204) {
    fmt::format_to(out, "Content-Length: {}\r\n", length);
  }
  for (const auto& [name, value] : response.headers) fmt::format_to(out, "{}: {}\r\n", name, value);
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

void AppendChunk(std::string_view data, std::string* out) {
  if (data.empty()) return;  // a chunk of no bytes would be the end
  fmt::format_to(std::back_inserter(*out), "{:x}\r\n", data.size());
  out->append(data);
  out->append("\r\n");
}

}  // namespace thalweg::server
