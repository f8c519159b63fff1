#include "server/sse.h"

#include <fmt/format.h>

#include <iterator>

namespace thalweg::server {
namespace {

// The short escape of a character, or nothing.
std::string_view ShortEscape(char c) {
  switch (c) {
    case '"': return "\\\"";
    case '\\': return "\\\\";
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return {};
  }
}

bool NeedsEscape(char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }

void AppendEscaped(char c, std::string* out) {
  const std::string_view escape = ShortEscape(c);
  if (!escape.empty()) {
    out->append(escape);
  } else {
    fmt::format_to(std::back_inserter(*out), "\\u{:04x}", static_cast<unsigned>(c));
  }
}

}  // namespace

void AppendEvent(std::string_view data, std::string* out) {
  out->append("data: ").append(data).append("\n\n");
}

void AppendNamedEvent(std::string_view name, std::string_view data, std::string* out) {
  out->append("event: ").append(name).append("\n");
  AppendEvent(data, out);
}

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  size_t plain = 0;  // begin of what is copied as it stands
  for (size_t i = 0; i < text.size(); ++i) {
    if (!NeedsEscape(text[i])) continue;
    out->append(text, plain, i - plain);
    AppendEscaped(text[i], out);
    plain = i + 1;
  }
  out->append(text, plain, text.size() - plain);
  out->push_back('"');
}

}  // namespace thalweg::server
