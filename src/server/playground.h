// The chat page of the server: a page and its parts, which the binary carries along
// (src/server/playground, docs/server.md).
#pragma once

#include <span>
#include <string_view>

namespace thalweg::server {

struct EmbeddedFile {
  std::string_view name;  // "index.html"
  std::string_view bytes;
};

// In a source that the build makes of the files.
std::span<const EmbeddedFile> PlaygroundFiles();

// The page itself is at "/", its parts are below this.
inline constexpr std::string_view kPlaygroundPrefix = "/playground/";

}  // namespace thalweg::server
