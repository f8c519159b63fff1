// A request and a response as handlers see them: plain values, no sockets.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thalweg::server {

struct HttpRequest {
  std::string method = {};  // "GET"
  std::string path = {};    // without query; not decoded: no path of this server needs it
  std::string query = {};   // what stands behind '?'
  std::string body = {};

  std::string authorization = {};  // header fields, as they came
  std::string api_key = {};        // x-api-key
  std::string origin = {};

  std::string id = {};      // of this request, in logs and answers
  std::string caller = {};  // name of the API key; empty: none is asked for
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

// "Bad Request" of 400.
std::string_view ReasonPhrase(int status);

// Status line and header fields of a response of `length` bytes; negative: in chunks, however many.
std::string ResponseHead(const HttpResponse& response, int64_t length, bool keep_alive);

// One chunk of a body whose length is not known before (RFC 9112, 7.1), and the end of one.
void AppendChunk(std::string_view data, std::string* out);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace thalweg::server
