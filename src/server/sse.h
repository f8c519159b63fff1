// Server-sent events (WHATWG HTML, 9.2) and JSON text, written straight into a buffer: the path
// that every streamed token takes.
#pragma once

#include <string>
#include <string_view>

namespace thalweg::server {

// "data: <data>" and the blank line that ends the event. `data` has no line ends.
void AppendEvent(std::string_view data, std::string* out);
// The same with "event: <name>" before it.
void AppendNamedEvent(std::string_view name, std::string_view data, std::string* out);
// A comment: clients and proxies see that the connection lives.
inline constexpr std::string_view kKeepAliveComment = ": keep-alive\n\n";
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

// `text` as a JSON string with its quotes (RFC 8259, 7). Ill-formed UTF-8 is the caller's concern.
void AppendJsonString(std::string_view text, std::string* out);

}  // namespace thalweg::server
